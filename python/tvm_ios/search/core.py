# SPDX-License-Identifier: Apache-2.0
"""The search for a cheapest schedule; it knows graphs and latencies, and nothing of TVM's IR."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
import tvm_ffi

from ..graph.dag import Candidate, Dag, int_vector
from ..schedule.partitioning import STRATEGIES
from ..support import _ffi_api
from ..support.errors import CostError, GraphError, OptionError

CostFunction = Callable[[Sequence[Candidate]], np.ndarray]
"""Latencies of a batch of candidates: float64 [n], in seconds, infinite for a stage that cannot
run with its strategy."""


@tvm_ffi.register_object("tvm_ios.Stage")
class Stage(tvm_ffi.Object):
    """Operators that run between two synchronisation points.

    Attributes
    ----------
    groups
        Lists of operators, each in topological order. A concurrent stage runs its groups side by
        side; a merged stage has one group, which runs as one operator.
    strategy
        ``"concurrent"`` or ``"merge"``.
    latency
        In seconds; not a number in the baselines, which ask for no latency.
    """

    groups: Sequence[Sequence[int]]
    strategy: str
    latency: float


def candidate_of(stage: Stage) -> Candidate:
    """Return the operators of a stage and how they run; its groups follow from the graph."""
    return Candidate(tuple(sorted(i for group in stage.groups for i in group)), stage.strategy)


@tvm_ffi.register_object("tvm_ios.SearchResult")
class SearchResult(tvm_ffi.Object):
    """A cheapest schedule, and what it took to find it.

    Attributes
    ----------
    stages
        In the order in which they run.
    latency
        The sum over the stages, in seconds.
    states
        Non-empty sets of remaining operators that the search reached.
    transitions
        Pairs of such a set and a candidate stage of it.
    evaluations
        Distinct candidates whose latency was asked for.
    lower_bound
        No schedule takes less, in seconds.
    proved
        Whether no schedule takes less than this one.
    """

    stages: Sequence[Stage]
    latency: float
    states: int
    transitions: int
    evaluations: int
    lower_bound: float
    proved: bool


@tvm_ffi.register_object("tvm_ios.ScheduleSpace")
class ScheduleSpace(tvm_ffi.Object):
    """All schedules of a graph within the limits, explored once and solved under many prices.

    Parameters and errors are those of :func:`find_schedule`; with more than ``max_transitions``
    pairs of a state and a stage of it, exploring ends in an OptionError.
    """

    __slots__ = ("__dict__",)

    def __init__(
        self,
        dag: Dag,
        merge_class: Sequence[int] | np.ndarray | None = None,
        replacements: Sequence[Sequence[int]] = (),
        max_group_size: int | None = 3,
        max_num_groups: int | None = 8,
        max_transitions: int | None = None,
    ) -> None:
        classes = _merge_classes(dag, merge_class)
        sets = [list(map(int, ops)) for ops in replacements]
        limits = (
            _limit(dag, max_group_size),
            _limit(dag, max_num_groups),
            np.iinfo(np.int64).max if max_transitions is None else max_transitions,
        )
        self.__init_handle_by_constructor__(_ffi_api.Explore, dag, classes, sets, *map(int, limits))
        self._num_ops = dag.num_ops

    @cached_property
    def candidates(self) -> list[Candidate]:
        """The distinct stages of all schedules."""
        masks, strategies = map(np.from_dlpack, _ffi_api.Candidates(self))
        names = [STRATEGIES[number] for number in strategies.tolist()]
        return list(map(Candidate, _operator_sets(masks, self._num_ops), names))

    def solve(self, latencies: np.ndarray) -> SearchResult:
        """Find the cheapest schedule by a latency in seconds for each candidate."""
        result: SearchResult = _ffi_api.Solve(self, self._checked(latencies))
        return result

    def through(self, latencies: np.ndarray) -> np.ndarray:
        """For each candidate, the latency of the cheapest schedule that it is a stage of."""
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
    max_group_size: int | None = 3,
    max_num_groups: int | None = 8,
) -> SearchResult:
    """Find the cheapest schedule of a graph by IOS's dynamic programme (section 4, algorithm 1).

    The time grows exponentially with the number of operators that can run side by side: search a
    network block by block, see :func:`partition`.

    Parameters
    ----------
    dag
        The graph, all of which is scheduled.
    cost
        Called once, with all distinct candidate stages.
    merge_class
        An integer for each operator. Operators of one class that are sinks of what remains may
        become one merged stage, also a single one; a negative class never does. None: nothing is
        merged. The two limits below do not apply to merged stages.
    replacements
        Sets of operators, of which one may read another, each of which may become one merged stage
        where nothing that remains reads it from outside.
    max_group_size
        The pruning limit r: operators in a group. None: no limit.
    max_num_groups
        The pruning limit s: groups in a stage. None: no limit.

    Returns
    -------
    SearchResult
        Of the cheapest schedules one with the fewest stages; always the same one.

    Raises
    ------
    CostError
        If a latency is negative or not a number, or if there is not one for each candidate.
    ScheduleError
        If every schedule has a stage of infinite latency.
    OptionError
        If a limit is below one, ``merge_class`` has not one entry for each operator, a
        replacement is empty or names an operator that is not in the graph, or the search would
        take more than a quarter of the free memory.
    """
    space = ScheduleSpace(dag, merge_class, replacements, max_group_size, max_num_groups)
    return space.solve(cost(space.candidates))


def sequential(dag: Dag) -> list[Stage]:
    """Schedule one operator a stage, in topological order."""
    return list(_ffi_api.Sequential(dag))


def greedy(dag: Dag, max_num_groups: int = 8) -> list[Stage]:
    """Schedule operators as soon as they are ready.

    Each stage takes the first ``max_num_groups`` ready operators, by index, each as a group.
    """
    return list(_ffi_api.Greedy(dag, max_num_groups))


def partition(
    dag: Dag, max_block_size: int = 50, merge_class: Sequence[int] | np.ndarray | None = None
) -> list[list[int]]:
    """Cut a graph into blocks, to be searched one by one and run one after another.

    A cut is free where one operator's output is all that crosses it. Each further operator whose
    output crosses is a branch that loses its concurrency there, and counts one; so does each merge
    class with operators on both sides. The cuts are minimum vertex cuts (IOPS, section 2.2), chosen
    so that they cost least in sum, and of these so that the blocks are fewest; then operators move
    across the cuts where that makes them cheaper. This is a heuristic, but never worse than the
    best places to cut the graph's topological order at.

    Parameters
    ----------
    dag
        The graph.
    max_block_size
        Operators of a block, at most.
    merge_class
        As in :func:`find_schedule`.

    Returns
    -------
    list[list[int]]
        The blocks in the order in which they run, each in topological order.

    Raises
    ------
    OptionError
        If the size is below one, ``merge_class`` has not one entry for each operator, or the cuts
        to choose from would take more than a quarter of the free memory.
    """
    classes = _merge_classes(dag, merge_class)
    return [list(block) for block in _ffi_api.Partition(dag, max_block_size, classes)]


def partition_cost(
    dag: Dag,
    blocks: Sequence[Sequence[int]],
    merge_class: Sequence[int] | np.ndarray | None = None,
) -> int:
    """Count what blocks give up: the branches cut and the merge classes divided, over all cuts.

    See :func:`partition`; a search of blocks of cost 0 misses no stage but those across a cut that
    a single operator makes anyway.

    Raises
    ------
    GraphError
        Unless each operator is in one block and none reads from a later one.
    OptionError
        If ``merge_class`` has not one entry for each operator.
    """
    ops = [int_vector(block, GraphError, "blocks").tolist() for block in blocks]
    cost: int = _ffi_api.PartitionCost(dag, ops, _merge_classes(dag, merge_class))
    return cost


def endings(
    dag: Dag,
    remaining: Iterable[int] | None = None,
    *,
    max_group_size: int | None = 3,
    max_num_groups: int | None = 8,
) -> list[tuple[int, ...]]:
    """List the endings that the search considers for a set of remaining operators.

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
        _limit(dag, max_group_size),
        _limit(dag, max_num_groups),
    )
    return list(_operator_sets(np.from_dlpack(masks), dag.num_ops))


def _merge_classes(dag: Dag, merge_class: Sequence[int] | np.ndarray | None) -> np.ndarray:
    """One class for each operator; without any, none that is merged."""
    classes = np.full(dag.num_ops, -1) if merge_class is None else np.asarray(merge_class)
    if len(classes) != dag.num_ops:
        raise OptionError(f"merge_class has {len(classes)} entries for {dag.num_ops} operators")
    return int_vector(classes, OptionError, "merge_class")


def _limit(dag: Dag, value: int | None) -> int:
    """Turn None into a limit that no stage exceeds."""
    return dag.num_ops if value is None else int(value)


def _operator_sets(
    masks: np.ndarray, num_ops: int, rows: int = 1 << 16
) -> Iterator[tuple[int, ...]]:
    """Yield the operators of each row of uint64 [n, words]; ``rows`` at a time bound the memory."""
    for begin in range(0, len(masks), rows):
        chunk = np.ascontiguousarray(masks[begin : begin + rows], dtype="<u8")
        bits = np.unpackbits(chunk.view(np.uint8), axis=1, count=num_ops, bitorder="little")
        row, op = np.nonzero(bits)
        ends = np.cumsum(np.bincount(row, minlength=len(chunk))).tolist()
        ops = op.tolist()
        start = 0
        for end in ends:
            yield tuple(ops[start:end])
            start = end
