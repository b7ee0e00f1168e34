# SPDX-License-Identifier: Apache-2.0
"""The Python interface of the C++ best-first search, for graphs with too many schedules."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import tvm_ffi

from ..graph.dag import Candidate, Dag
from ..schedule.partitioning import STRATEGIES
from ..schedule.pruning import PruningLimits
from ..support import _ffi_api
from .convert import candidates, merge_classes, pruning_limits
from .core import CostFunction, SearchResult


@tvm_ffi.register_object("tvm_ios.BestFirst")
class BestFirstSearch(tvm_ffi.Object):
    """A search that is repeated as latencies change, and that pauses where it needs new ones.

    Candidates keep their numbers from one search to the next. The parameters and errors are those
    of :func:`best_first`; ``pruning`` has its limits.
    """

    __slots__ = ("__dict__",)

    def __init__(
        self,
        dag: Dag,
        *,
        pruning: PruningLimits,
        max_transitions: int,
        max_candidates: int,
        seconds: float,
        floors: np.ndarray | None = None,
        merge_class: Sequence[int] | np.ndarray | None = None,
        replacements: Sequence[Sequence[int]] = (),
    ) -> None:
        self.__init_handle_by_constructor__(
            _ffi_api.MakeBestFirst,
            dag,
            merge_classes(dag, merge_class),
            [list(map(int, ops)) for ops in replacements],
            np.zeros(dag.num_ops) if floors is None else np.ascontiguousarray(floors, "float64"),
            *pruning_limits(dag, pruning),
            max_transitions,
            max_candidates,
            seconds,
        )
        self._num_ops = dag.num_ops

    def begin(
        self, latencies: np.ndarray, known: Sequence[Candidate] = (), *, known_only: bool = False
    ) -> None:
        """Begin a search; any other one ends.

        Parameters
        ----------
        latencies : numpy.ndarray
            float64 [n]: seconds of the first n candidates, by number.
        known : sequence of Candidate
            The stages of a schedule from which the search begins.
        known_only : bool
            Whether to consider no other stages than those of finite latency among the first n.
        """
        _ffi_api.BestFirstBegin(
            self,
            np.ascontiguousarray(latencies, "float64"),
            [list(stage.ops) for stage in known],
            np.array([STRATEGIES.index(stage.strategy) for stage in known], "int32"),
            known_only,
        )

    def candidates(self, begin: int) -> list[Candidate]:
        """Return the candidates from a number on."""
        masks, strategies = _ffi_api.BestFirstCandidates(self, begin)
        return candidates(masks, strategies, self._num_ops)

    def price(self, latencies: np.ndarray) -> None:
        """Set the latencies of all candidates that have none, in seconds, float64 [n]."""
        _ffi_api.BestFirstPrice(self, np.ascontiguousarray(latencies, "float64"))

    def result(self) -> SearchResult:
        """Return what a search has found that has ended."""
        return SearchResult.of(_ffi_api.BestFirstResult(self))


def advance(searches: Sequence[BestFirstSearch]) -> list[bool]:
    """Advance searches side by side on all cores.

    Returns
    -------
    list of bool
        Whether each has ended. Where it has not, its candidates without a latency need one.
    """
    return list(_ffi_api.BestFirstAdvance(list(searches), _cores()))


def best_first(
    dag: Dag,
    cost: CostFunction,
    *,
    max_transitions: int,
    max_candidates: int,
    seconds: float,
    floors: np.ndarray | None = None,
    known: Sequence[Candidate] = (),
    merge_class: Sequence[int] | np.ndarray | None = None,
    replacements: Sequence[Sequence[int]] = (),
    max_group_size: int | None = PruningLimits.max_group_size,
    max_num_groups: int | None = PruningLimits.max_num_groups,
) -> SearchResult:
    """Find a cheap schedule of a graph that has too many, and a lower bound for all of them.

    Parameters
    ----------
    dag, merge_class, replacements, max_group_size, max_num_groups
        As in :func:`find_schedule`.
    cost
        The cost function. It is called many times, with each candidate once.
    max_transitions, max_candidates
        The budget: pairs of a state and a stage to consider, and latencies to ask for.
    seconds
        The time limit. If it ends the search, the result depends on the machine.
    floors
        Seconds of each operator, float64 [n]: a stage takes at least the sum of its operators'
        floors. If ``cost`` says otherwise, all floors are lowered. None: zeros.
    known
        The stages of a schedule from which the search begins; the result is never worse.

    Raises
    ------
    CostError, ScheduleError, OptionError
        As :func:`find_schedule` does, and OptionError for floors that are no finite numbers.
    GraphError
        If ``known`` is not a schedule of the graph.
    """
    search = BestFirstSearch(
        dag,
        pruning=PruningLimits(max_group_size, max_num_groups),
        max_transitions=max_transitions,
        max_candidates=max_candidates,
        seconds=seconds,
        floors=floors,
        merge_class=merge_class,
        replacements=replacements,
    )
    search.begin(np.zeros(0), known)
    priced = 0
    while not advance([search])[0]:
        new = search.candidates(priced)
        search.price(cost(new))
        priced += len(new)
    return search.result()


def _cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
