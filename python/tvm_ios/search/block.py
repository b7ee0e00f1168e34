# SPDX-License-Identifier: Apache-2.0
"""The search of one block: of all its schedules, or best first where they are too many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Protocol

import numpy as np

from ..graph.dag import Candidate
from ..support.errors import OptionError
from .best_first_block import BestFirstBlock, lower_bounds, solve_side_by_side
from .block_problem import Block, Found
from .core import ScheduleSpace
from .cost_model import CostModel, LatencyBounds
from .price_list import PriceList

__all__ = [
    "BestFirstBlock",
    "Block",
    "BlockSearch",
    "ExploredBlock",
    "Found",
    "search_block",
    "solve_all",
]

_WORTH = 0.005  # of a schedule's latency: what bounds must promise to be pursued
_NEAR = 1.02  # schedules are near-optimal up to this ratio of bounds


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
            max_transitions=max_transitions,
            **asdict(block.pruning),
        )
        candidates = [block.in_network(candidate) for candidate in space.candidates]
        return cls(block, space, cost.latency_bounds(candidates))

    def solve(self) -> Found:
        result = self.space.solve(self.latency_bounds.bounds())
        stages = [self.block.in_network(stage) for stage in result.stages]
        return Found(stages, result.latency, None)

    def solve_known(self) -> Found:
        latencies = np.where(self.latency_bounds.known(), self.latency_bounds.bounds(), np.inf)
        result = self.space.solve(latencies)
        stages = [self.block.in_network(stage) for stage in result.stages]
        return Found(stages, result.latency, None)

    def lower_bound(self) -> float:
        return self.space.solve(self.latency_bounds.stated()).latency

    def lookup(self) -> None:
        self.latency_bounds.lookup(self.space.through)

    def promising(self) -> Iterable[Candidate]:
        latency = self.space.through(self.latency_bounds.bounds())
        near = np.flatnonzero(latency <= _NEAR * latency.min())
        for number in near[np.argsort(latency[near], kind="stable")]:
            yield self.block.in_network(self.space.candidates[number])


def search_block(
    block: Block,
    cost: CostModel,
    complete: int,
    known: Sequence[Candidate] = (),
    prices: PriceList | None = None,
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
    prices : PriceList, optional
        The prices that best-first searches of several blocks share.
    """
    try:
        return ExploredBlock.explore(block, cost, complete)
    except OptionError:
        return BestFirstBlock(block, cost, known, prices)


def solve_all(searches: Sequence[BlockSearch], cost: CostModel) -> list[Found]:
    """Return the cheapest stages of each search.

    A search may choose stages of which only a bound is known. Their latencies are then determined
    and the problem is solved again, until no bound promises a gain that is worth it.
    """
    solve_side_by_side(_best_first(searches))
    for search in searches:
        search.lookup()
    while True:
        found = [_settled(*pair) for pair in _solve(searches)]
        stages = [stage for result, settled in found if not settled for stage in result.stages]
        if stages:
            unsettled = [s for s, (_, settled) in zip(searches, found, strict=True) if not settled]
            if cost.resolve(stages, lambda: (c for s in unsettled for c in s.promising())):  # noqa: B023
                continue
        elif cost.resolve([stage for result, _ in found for stage in result.stages]):
            continue
        results = [result for result, _ in found]
        below = iter(lower_bounds(_best_first(searches)))
        return [
            replace(
                result,
                lower_bound=next(below) if _is_best_first(search) else search.lower_bound(),
            )
            for search, result in zip(searches, results, strict=True)
        ]


def _solve(searches: Sequence[BlockSearch]) -> list[tuple[Found, Found]]:
    """Return the schedules of each search: the promised one and the known one."""
    found = iter(solve_side_by_side(_best_first(searches)))
    return [
        next(found) if _is_best_first(search) else (search.solve(), search.solve_known())
        for search in searches
    ]


def _is_best_first(search: BlockSearch) -> bool:
    return isinstance(search, BestFirstBlock)


def _best_first(searches: Sequence[BlockSearch]) -> list[BestFirstBlock]:
    return [search for search in searches if isinstance(search, BestFirstBlock)]


def _settled(promised: Found, known: Found) -> tuple[Found, bool]:
    """Return the known schedule and True, or the promised one if that is worth determining."""
    if known.seconds - promised.seconds > _WORTH * known.seconds:
        return promised, False
    return known, True
