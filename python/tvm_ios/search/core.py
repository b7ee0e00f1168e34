# SPDX-License-Identifier: Apache-2.0
"""The Python interface of the C++ search, which sees graphs and latencies but no TVM IR."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tvm_ffi

from ..graph.dag import Candidate, Dag, int_vector
from ..schedule.partitioning import STRATEGIES
from ..schedule.pruning import PruningLimits
from ..support import _ffi_api
from ..support.errors import CostError, GraphError
from .convert import candidates, merge_classes, operator_sets, pruning_limits

CostFunction = Callable[[Sequence[Candidate]], np.ndarray]
"""A function that returns the latencies of a batch of candidates: float64 [n], in seconds. The
latency is infinite for a stage that cannot run with its strategy."""


@dataclass(frozen=True)
class SearchResult:
    """The cheapest schedule and statistics of the search.

    Attributes
    ----------
    stages : list of Candidate
        The stages in execution order.
    latency : float
        The sum of the stages' latencies, in seconds.
    states : int
        The number of non-empty sets of remaining operators that the search reached.
    transitions : int
        The number of pairs of such a set and a candidate stage of it.
    evaluations : int
        The number of distinct candidates whose latency was requested.
    lower_bound : float
        A lower bound of the latency of every schedule, in seconds.
    proved : bool
        Whether the schedule is proved to be optimal.
    """

    stages: list[Candidate]
    latency: float
    states: int
    transitions: int
    evaluations: int
    lower_bound: float
    proved: bool

    @classmethod
    def of(cls, result: Sequence[Any]) -> SearchResult:
        """Return the result of the C++ search, a ``ResultTuple``."""
        stages, *rest = result
        return cls(_schedule(stages), *rest)


@tvm_ffi.register_object("tvm_ios.ScheduleSpace")
class ScheduleSpace(tvm_ffi.Object):
    """All schedules of a graph within the limits, explored once and solved for any latencies.

    The parameters and errors are those of :func:`find_schedule`. If there are more than
    ``max_transitions`` pairs of a state and a candidate stage of it, the constructor raises
    OptionError.
    """

    __slots__ = ("__dict__",)

    def __init__(
        self,
        dag: Dag,
        merge_class: Sequence[int] | np.ndarray | None = None,
        replacements: Sequence[Sequence[int]] = (),
        max_group_size: int | None = PruningLimits.max_group_size,
        max_num_groups: int | None = PruningLimits.max_num_groups,
        max_transitions: int | None = None,
    ) -> None:
        classes = merge_classes(dag, merge_class)
        sets = [list(map(int, ops)) for ops in replacements]
        limits = pruning_limits(dag, PruningLimits(max_group_size, max_num_groups))
        most = np.iinfo(np.int64).max if max_transitions is None else max_transitions
        self.__init_handle_by_constructor__(
            _ffi_api.Explore, dag, classes, sets, *limits, int(most)
        )
        self._num_ops = dag.num_ops

    @cached_property
    def candidates(self) -> list[Candidate]:
        """The distinct stages of all schedules."""
        masks, strategies = _ffi_api.Candidates(self)
        return candidates(masks, strategies, self._num_ops)

    def solve(self, latencies: np.ndarray) -> SearchResult:
        """Find the cheapest schedule for the candidates' latencies in seconds, float64 [n]."""
        return SearchResult.of(_ffi_api.Solve(self, self._checked(latencies)))

    def through(self, latencies: np.ndarray) -> np.ndarray:
        """Compute, for each candidate, the latency of the cheapest schedule that contains it."""
        return np.from_dlpack(_ffi_api.Through(self, self._checked(latencies)))

    def _checked(self, latencies: object) -> np.ndarray:
        array = np.array(latencies, dtype=np.float64)
        if array.shape != (len(self.candidates),):
            raise CostError(
                f"there must be {len(self.candidates)} latencies, one for each candidate stage; "
                f"got an array of shape {array.shape}"
            )
        return array


def find_schedule(
    dag: Dag,
    cost: CostFunction,
    *,
    merge_class: Sequence[int] | np.ndarray | None = None,
    replacements: Sequence[Sequence[int]] = (),
    max_group_size: int | None = PruningLimits.max_group_size,
    max_num_groups: int | None = PruningLimits.max_num_groups,
) -> SearchResult:
    """Find the cheapest schedule of a graph by the algorithm of IOS (section 4, algorithm 1).

    The time grows exponentially with the number of operators that can run side by side. Partition a
    large network first; see :func:`partition`.

    Parameters
    ----------
    dag
        The graph to schedule.
    cost
        The cost function. It is called once, with all distinct candidate stages.
    merge_class
        An integer for each operator. Operators of one class that are sinks of the remaining graph
        may form a merged stage; so may a single one. A negative class is never merged. None: no
        merging. The two limits below do not apply to merged stages.
    replacements
        Sets of operators that may become one merged stage, even if one operator reads another, once
        no remaining operator outside the set reads from it.
    max_group_size
        The pruning limit r: the maximum number of operators in a group. None: no limit.
    max_num_groups
        The pruning limit s: the maximum number of groups in a stage. None: no limit.

    Returns
    -------
    SearchResult
        A cheapest schedule with the fewest stages. The result is deterministic.

    Raises
    ------
    CostError
        If a latency is negative or NaN, or their number differs from that of the candidates.
    ScheduleError
        If every schedule contains a stage of infinite latency.
    OptionError
        If a limit is below one, ``merge_class`` does not have one entry for each operator, a
        replacement is empty or contains an operator outside the graph, or the search would need
        more than a quarter of the free memory.
    """
    space = ScheduleSpace(dag, merge_class, replacements, max_group_size, max_num_groups)
    return space.solve(cost(space.candidates))


def sequential(dag: Dag) -> list[Candidate]:
    """Return the schedule that runs one operator per stage, in topological order."""
    return _schedule(_ffi_api.Sequential(dag))


def greedy(dag: Dag, max_num_groups: int = 8) -> list[Candidate]:
    """Return the schedule that runs operators as soon as they are ready.

    Each stage takes the first ``max_num_groups`` ready operators, by index, each as a group.
    """
    return _schedule(_ffi_api.Greedy(dag, max_num_groups))


def partition(
    dag: Dag, max_block_size: int = 50, merge_class: Sequence[int] | np.ndarray | None = None
) -> list[list[int]]:
    """Partition a graph into blocks that are searched one by one and run one after another.

    A cut is free if a single operator's output crosses it. Each further operator whose output
    crosses the cut is a branch that loses its concurrency there and costs one. Each merge class
    with operators on both sides also costs one. The cuts are minimum vertex cuts (IOPS, section
    2.2). They minimise the total cost and, among cuts of equal cost, the number of blocks. Then
    operators move across the cuts where that lowers the cost. This is a heuristic, but it is never
    worse than the best places to cut the topological order of the graph.

    Parameters
    ----------
    dag
        The graph.
    max_block_size
        The maximum number of operators in a block.
    merge_class
        As in :func:`find_schedule`.

    Returns
    -------
    list[list[int]]
        The blocks in execution order, each in topological order.

    Raises
    ------
    OptionError
        If the size is below one, ``merge_class`` does not have one entry for each operator, or the
        candidate cuts would need more than a quarter of the free memory.
    """
    classes = merge_classes(dag, merge_class)
    return [list(block) for block in _ffi_api.Partition(dag, max_block_size, classes)]


def partition_cost(
    dag: Dag,
    blocks: Sequence[Sequence[int]],
    merge_class: Sequence[int] | np.ndarray | None = None,
) -> int:
    """Compute the cut cost of a partition: branches cut plus merge classes split, over all cuts.

    See :func:`partition`. A search of blocks with cost 0 misses only stages across a cut at a
    single operator.

    Parameters
    ----------
    dag
        The graph.
    blocks
        The operators of each block, in execution order of the blocks.
    merge_class
        As in :func:`find_schedule`.

    Raises
    ------
    GraphError
        If an operator is not in exactly one block, or reads from a later block.
    OptionError
        If ``merge_class`` does not have one entry for each operator.
    """
    ops = [int_vector(block, GraphError, "blocks").tolist() for block in blocks]
    cost: int = _ffi_api.PartitionCost(dag, ops, merge_classes(dag, merge_class))
    return cost


def endings(
    dag: Dag,
    remaining: Iterable[int] | None = None,
    *,
    max_group_size: int | None = PruningLimits.max_group_size,
    max_num_groups: int | None = PruningLimits.max_num_groups,
) -> list[tuple[int, ...]]:
    """Return the endings that the search considers for a set of remaining operators.

    Parameters
    ----------
    dag
        The graph.
    remaining
        Operators together with all their predecessors; None: all operators.
    max_group_size, max_num_groups
        As in :func:`find_schedule`.

    Returns
    -------
    list[tuple[int, ...]]
        The operators of each ending by increasing index, in the order of the search.
    """
    ops = np.arange(dag.num_ops) if remaining is None else list(remaining)
    masks = _ffi_api.Endings(
        dag,
        int_vector(ops, GraphError, "remaining"),
        *pruning_limits(dag, PruningLimits(max_group_size, max_num_groups)),
    )
    return list(operator_sets(np.from_dlpack(masks), dag.num_ops))


def _schedule(stages: Iterable[tuple[Iterable[int], int]]) -> list[Candidate]:
    """Return the stages of a C++ schedule, each a ``StageTuple``."""
    return [Candidate(tuple(ops), STRATEGIES[strategy]) for ops, strategy in stages]
