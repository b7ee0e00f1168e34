# SPDX-License-Identifier: Apache-2.0
"""The search of one block: of all its schedules, or best first where they are too many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Protocol

import numpy as np

from ..graph.dag import Candidate, Dag
from ..support.errors import OptionError
from .core import CostFunction, ScheduleSpace, SearchResult, best_first
from .cost_model import CostModel, LatencyBounds
from .problem import Limits, Problem, Replaceable

_TRANSITIONS = 2000  # the budget of a best-first search, for each operator
_CANDIDATES = 100  # the same
_WORTH = 0.005  # of a schedule's latency: what bounds must promise to be pursued
_NEAR = 1.02  # schedules are near-optimal up to this ratio of bounds
_SECONDS = 60.0  # a time limit, which the budget does not reach on any machine in use


@dataclass(frozen=True)
class Block:
    """Operators of a network as a problem of their own, in which an operator is its position.

    Attributes
    ----------
    operators : sequence of int
        The operators, by their index in the network.
    dag : Dag
        Their graph.
    classes : sequence of int
        The merge class of each.
    replacements : sequence of sequence of int
        Sets that one operator may replace.
    max_group_size, max_num_groups : int or None
        The pruning limits.
    """

    operators: Sequence[int]
    dag: Dag
    classes: Sequence[int]
    replacements: Sequence[Sequence[int]]
    max_group_size: int | None
    max_num_groups: int | None

    @classmethod
    def of(
        cls,
        lowered: Problem,
        replacements: Replaceable,
        limits: Limits,
        operators: Sequence[int],
    ) -> Block:
        """Cut operators out of a network."""
        position = {op: i for i, op in enumerate(operators)}
        edges = [
            (position[u], position[v])
            for u, v in lowered.graph.edges
            if u in position and v in position
        ]
        side_by_side = "concurrent" in limits.strategies
        return cls(
            operators,
            Dag(len(operators), edges),
            [replacements.classes[op] for op in operators],
            [[position[op] for op in ops] for ops in replacements.within(operators)],
            limits.max_group_size if side_by_side else 1,
            limits.max_num_groups if side_by_side else 1,
        )

    def positions(self, stage: Candidate) -> Candidate:
        """Return a stage of the network as a stage of the block."""
        return of_operators(stage, {op: i for i, op in enumerate(self.operators)})


@dataclass(frozen=True)
class Found:
    """The result of a search.

    Attributes
    ----------
    stages : list of Candidate
        The stages, of operators of the network, in execution order.
    seconds : float
        The sum of their latencies, or of what bounds them.
    lower_bound : float or None
        No schedule is cheaper by latencies and stated bounds; None if no such bound is known.
    """

    stages: list[Candidate]
    seconds: float
    lower_bound: float | None

    @property
    def gap(self) -> float | None:
        """Seconds by which the schedule may exceed the cheapest one; None if unknown."""
        return None if self.lower_bound is None else max(0.0, self.seconds - self.lower_bound)


class BlockSearch(Protocol):
    """A search that is repeated as latencies become known."""

    def solve(self) -> Found:
        """Return the schedule that is cheapest by the current bounds, or a cheap one."""

    def solve_known(self) -> Found:
        """Return the cheapest schedule of stages whose latencies are known, or a cheap one."""

    def lower_bound(self) -> float | None:
        """Return what every schedule takes at least by the stated bounds; None if unknown."""

    def lookup(self) -> None:
        """Look up the stages of near-optimal schedules in the database."""

    def promising(self) -> Iterable[Candidate]:
        """Return stages of near-optimal schedules, the most promising ones first."""


@dataclass(frozen=True)
class ExploredBlock:
    """All schedules of a block, and the latency bounds of their stages.

    Attributes
    ----------
    block : Block
        The block.
    space : ScheduleSpace
        Its schedules.
    latency_bounds : LatencyBounds
        The bounds of the space's candidates.
    """

    block: Block
    space: ScheduleSpace
    latency_bounds: LatencyBounds

    @classmethod
    def explore(cls, block: Block, cost: CostModel, max_transitions: int | None) -> ExploredBlock:
        """Explore the schedules of a block.

        Raises
        ------
        OptionError
            If there are more than ``max_transitions``, or more than fit into memory.
        """
        space = ScheduleSpace(
            block.dag,
            block.classes,
            block.replacements,
            block.max_group_size,
            block.max_num_groups,
            max_transitions,
        )
        candidates = [of_operators(candidate, block.operators) for candidate in space.candidates]
        return cls(block, space, cost.latency_bounds(candidates))

    def solve(self) -> Found:
        result = self.space.solve(self.latency_bounds.bounds())
        stages = [of_operators(stage, self.block.operators) for stage in result.stages]
        return Found(stages, result.latency, None)

    def solve_known(self) -> Found:
        latencies = np.where(self.latency_bounds.known(), self.latency_bounds.bounds(), np.inf)
        result = self.space.solve(latencies)
        stages = [of_operators(stage, self.block.operators) for stage in result.stages]
        return Found(stages, result.latency, None)

    def lower_bound(self) -> float:
        return self.space.solve(self.latency_bounds.stated()).latency

    def lookup(self) -> None:
        self.latency_bounds.lookup(self.space.through)

    def promising(self) -> Iterable[Candidate]:
        latency = self.space.through(self.latency_bounds.bounds())
        near = np.flatnonzero(latency <= _NEAR * latency.min())
        for number in near[np.argsort(latency[near], kind="stable")]:
            yield of_operators(self.space.candidates[number], self.block.operators)


@dataclass
class PriceList:
    """The latency bounds of the candidates that a search asks for, batch by batch.

    Attributes
    ----------
    block : Block
        The block of the candidates.
    cost : CostModel
        The cost model.
    candidates : list of Candidate
        The candidates so far, of positions in the block.
    seconds : numpy.ndarray
        float64 [n]: their latencies or bounds.
    """

    block: Block
    cost: CostModel
    candidates: list[Candidate] = field(default_factory=list)
    seconds: np.ndarray = field(default_factory=lambda: np.zeros(0))
    _place: dict[Candidate, int] = field(default_factory=dict)
    _parts: list[LatencyBounds] = field(default_factory=list)
    _begin: list[int] = field(default_factory=list)  # the first candidate of each part

    def __call__(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """Return the latency or bound of each candidate, float64 [n]."""
        new = [candidate for candidate in candidates if candidate not in self._place]
        if new:
            for candidate in new:
                self._place[candidate] = len(self._place)
            self._begin.append(len(self.candidates))
            self.candidates += new
            self._parts.append(self._bounds_of(new))
            self.seconds = np.concatenate([self.seconds, self._parts[-1].bounds()])
        return self.seconds[[self._place[candidate] for candidate in candidates]]

    def known(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """Return the latency of each candidate, float64 [n]; infinity where it is not known."""
        seconds = self(candidates)
        known = np.concatenate([part.known() for part in self._parts])
        return np.where(known[[self._place[c] for c in candidates]], seconds, np.inf)

    def stated(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """Return the latency of each candidate, float64 [n]; its stated bound where unknown."""
        self(candidates)
        stated = np.concatenate([part.stated() for part in self._parts])
        return stated[[self._place[c] for c in candidates]]

    def refresh(self) -> None:
        """Bring the bounds up to date."""
        self._merge_parts()
        if self._parts:
            self.seconds = np.concatenate([part.bounds() for part in self._parts])

    def lookup(self, floors: np.ndarray) -> None:
        """Look up near-optimal stages: those that exceed their operators' floors the least."""
        self._merge_parts()
        for part, begin, end in zip(
            self._parts, self._begin, [*self._begin[1:], len(self.candidates)], strict=True
        ):
            stages = self.candidates[begin:end]
            least = np.array([sum(floors[op] for op in stage.ops) for stage in stages])
            part.lookup(partial(np.add, floors.sum() - least))

    def _merge_parts(self) -> None:
        """Keep at most two batches, because each takes time: a large one, and what came later."""
        if len(self._parts) < 2:
            return
        is_large = 2 * self._begin[1] > len(self.candidates)
        kept = 1 if is_large else 0
        if len(self._parts) > kept + 1:
            begin = self._begin[kept]
            self._parts[kept:] = [self._bounds_of(self.candidates[begin:])]
            self._begin[kept:] = [begin]

    def _bounds_of(self, candidates: Sequence[Candidate]) -> LatencyBounds:
        operators = self.block.operators
        return self.cost.latency_bounds([of_operators(stage, operators) for stage in candidates])


class BestFirstBlock:
    """The best-first search of a block, which keeps the prices and the schedule that it found.

    Parameters
    ----------
    block : Block
        The block.
    cost : CostModel
        The cost model.
    known : sequence of Candidate, optional
        A schedule from which the search begins, of operators of the network.
    """

    def __init__(self, block: Block, cost: CostModel, known: Sequence[Candidate] = ()) -> None:
        self._block, self._prices = block, PriceList(block, cost)
        self._known = [block.positions(stage) for stage in known]
        self._found: Found | None = None

    @cached_property
    def _floors(self) -> np.ndarray:
        return self._prices.cost.floors(self._block.operators)

    def solve(self) -> Found:
        before = self._prices.seconds
        self._prices.refresh()
        if self._found is None or not np.array_equal(before, self._prices.seconds):
            result = self._search(self._prices, self._known)
            self._known = result.stages
            self._found = Found(self._named(result.stages), result.latency, None)
        return self._found

    def solve_known(self) -> Found:
        result = self._search(self._prices.known, ())
        return Found(self._named(result.stages), result.latency, None)

    def lower_bound(self) -> float | None:
        result = self._search(self._prices.stated, self._known)
        return result.lower_bound if result.proved or self._floors.any() else None

    def lookup(self) -> None:
        self.solve()
        self._prices.lookup(self._floors)

    def promising(self) -> Iterable[Candidate]:
        """Return nothing: how near an optimum a stage is shows in complete spaces only."""
        return ()

    def _named(self, stages: Sequence[Candidate]) -> list[Candidate]:
        return [of_operators(stage, self._block.operators) for stage in stages]

    def _search(self, prices: CostFunction, known: Sequence[Candidate]) -> SearchResult:
        block = self._block
        return best_first(
            block.dag,
            prices,
            max_transitions=_TRANSITIONS * len(block.operators),
            max_candidates=_CANDIDATES * len(block.operators),
            seconds=_SECONDS,
            floors=self._floors,
            known=known,
            merge_class=block.classes,
            replacements=block.replacements,
            max_group_size=block.max_group_size,
            max_num_groups=block.max_num_groups,
        )


def search_block(
    block: Block, cost: CostModel, complete: int, known: Sequence[Candidate] = ()
) -> BlockSearch:
    """Return the search of a block: of all its schedules, if they are few enough.

    Parameters
    ----------
    block : Block
        The block.
    cost : CostModel
        The cost model.
    complete : int
        Transitions up to which the block is explored completely.
    known : sequence of Candidate, optional
        A schedule from which the best-first search begins, of operators of the network.
    """
    try:
        return ExploredBlock.explore(block, cost, complete)
    except OptionError:
        return BestFirstBlock(block, cost, known)


def solve_all(searches: Sequence[BlockSearch], cost: CostModel) -> list[Found]:
    """Return the cheapest stages of each search.

    A search may choose stages of which only a bound is known. Their latencies are then determined
    and the problem is solved again, until no bound promises a gain that is worth it.
    """
    for search in searches:
        search.lookup()
    while True:
        found = [_settled(search.solve(), search.solve_known()) for search in searches]
        stages = [stage for result, settled in found if not settled for stage in result.stages]
        if stages:
            unsettled = [s for s, (_, settled) in zip(searches, found, strict=True) if not settled]
            if cost.resolve(stages, lambda: (c for s in unsettled for c in s.promising())):  # noqa: B023
                continue
        elif cost.resolve([stage for result, _ in found for stage in result.stages]):
            continue
        return [
            replace(result, lower_bound=search.lower_bound())
            for search, (result, _) in zip(searches, found, strict=True)
        ]


def _settled(promised: Found, known: Found) -> tuple[Found, bool]:
    """Return the known schedule and True, or the promised one if that is worth determining."""
    if known.seconds - promised.seconds > _WORTH * known.seconds:
        return promised, False
    return known, True


def of_operators(stage: Candidate, operators: Mapping[int, int] | Sequence[int]) -> Candidate:
    """Return the stage with each index replaced by the operator that it stands for."""
    return Candidate(tuple(sorted(operators[i] for i in stage.ops)), stage.strategy)
