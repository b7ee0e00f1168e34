# SPDX-License-Identifier: Apache-2.0
"""The best-first search of blocks that have too many schedules, of several side by side.

Searches that run side by side use all cores, and the candidates of all of them are priced together:
a batch takes time, however small it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from ..graph.dag import Candidate
from .best_first_search import BestFirstSearch, advance
from .block_problem import Block, Found
from .core import SearchResult
from .cost_model import CostModel
from .price_list import PriceList, Reading, bounds, known_only, stated

_TRANSITIONS = 2000  # the budget of a best-first search, for each operator
_CANDIDATES = 100  # the same
_SECONDS = 60.0  # a time limit, which the budget does not reach on any machine in use


class BestFirstBlock:
    """The best-first search of a block, which keeps its candidates and the schedules it found.

    Parameters
    ----------
    block : Block
        The block.
    cost : CostModel
        The cost model.
    known : sequence of Candidate, optional
        A schedule from which the search begins, of operators of the network.
    prices : PriceList, optional
        The prices, which searches that run side by side share.
    """

    def __init__(
        self,
        block: Block,
        cost: CostModel,
        known: Sequence[Candidate] = (),
        prices: PriceList | None = None,
    ) -> None:
        self._block, self._cost = block, cost
        self.prices = PriceList(cost) if prices is None else prices
        self._places = np.zeros(0, "int64")  # of the candidates, in the list of prices
        self._known = [block.positions(stage) for stage in known]
        self._results: dict[Reading, SearchResult] = {}
        self._solved: dict[Reading, np.ndarray] = {}  # the seconds that the results are of

    @cached_property
    def search(self) -> BestFirstSearch:
        """The search, which asks for prices."""
        block = self._block
        return BestFirstSearch(
            block.dag,
            pruning=block.pruning,
            max_transitions=_TRANSITIONS * len(block.operators),
            max_candidates=_CANDIDATES * len(block.operators),
            seconds=_SECONDS,
            floors=self._floors,
            merge_class=block.classes,
            replacements=block.replacements,
        )

    @cached_property
    def _floors(self) -> np.ndarray:
        return self._cost.floors(self._block.operators)

    def solve(self) -> Found:
        _solve([self], bounds)
        return self.found(bounds)

    def solve_known(self) -> Found:
        _solve([self], known_only)
        return self.found(known_only)

    def lower_bound(self) -> float | None:
        return lower_bounds([self])[0]

    def lookup(self) -> None:
        """Look up near-optimal stages: those that exceed their operators' floors the least."""
        self.solve()
        stages = self.search.candidates(0)
        least = np.array([sum(self._floors[op] for op in stage.ops) for stage in stages])
        self.prices.lookup(self._places, self._floors.sum() - least)

    def promising(self) -> Iterable[Candidate]:
        """Return nothing: how near an optimum a stage is shows in complete spaces only."""
        return ()

    def begin(self, seconds: np.ndarray, reading: Reading) -> bool:
        """Begin a search unless it would find the same again.

        Parameters
        ----------
        seconds : numpy.ndarray
            float64 [n]: the seconds of all candidates in the list of prices.
        reading : Reading
            What they are.
        """
        own = seconds[self._places]
        before = self._solved.get(reading)
        if before is not None and np.array_equal(*_padded(before, own)):
            return False
        last = self._results.get(reading)
        known = self._known if last is None else last.stages
        self.search.begin(own, known, known_only=reading is known_only)
        self._solved[reading] = own
        return True

    def new_candidates(self) -> list[Candidate]:
        """Return the candidates that have no price, of operators of the network."""
        candidates = self.search.candidates(len(self._places))
        return [self._block.in_network(candidate) for candidate in candidates]

    def price(self, first: int, seconds: np.ndarray, reading: Reading) -> None:
        """Set the prices of the new candidates, the first of which has this place in the list."""
        self.search.price(seconds)
        self._places = np.append(self._places, first + np.arange(len(seconds)))
        self._solved[reading] = np.append(self._solved[reading], seconds)

    def end(self, reading: Reading) -> None:
        """Keep the result of a search that has ended."""
        self._results[reading] = self.search.result()

    def found(self, reading: Reading) -> Found:
        """Return the result of the last search by these prices."""
        result = self._results[reading]
        stages = [self._block.in_network(stage) for stage in result.stages]
        sound = result.proved or bool(self._floors.any())
        return Found(stages, result.latency, result.lower_bound if sound else None)


def solve_side_by_side(blocks: Sequence[BestFirstBlock]) -> list[tuple[Found, Found]]:
    """Return what ``solve`` and ``solve_known`` return, for each block."""
    _solve(blocks, bounds)
    _solve(blocks, known_only)
    return [(block.found(bounds), block.found(known_only)) for block in blocks]


def lower_bounds(blocks: Sequence[BestFirstBlock]) -> list[float | None]:
    """Return what ``lower_bound`` returns, for each block."""
    _solve(blocks, stated)
    return [block.found(stated).lower_bound for block in blocks]


def _solve(blocks: Sequence[BestFirstBlock], reading: Reading) -> None:
    """Find the cheapest schedules of blocks by current prices, or cheap ones."""
    lists = dict.fromkeys(block.prices for block in blocks)
    seconds = {prices: prices.read(reading) for prices in lists}
    begun = [block for block in blocks if block.begin(seconds[block.prices], reading)]
    running = begun
    while running:
        ended = advance([block.search for block in running])
        running = [block for block, end in zip(running, ended, strict=True) if not end]
        for prices in lists:
            _price([block for block in running if block.prices is prices], reading)
    for block in begun:
        block.end(reading)


def _price(blocks: Sequence[BestFirstBlock], reading: Reading) -> None:
    """Price the new candidates of blocks together, which share a list."""
    if not blocks:
        return
    prices = blocks[0].prices
    new = [block.new_candidates() for block in blocks]
    first = len(prices)
    seconds = prices.add([candidate for candidates in new for candidate in candidates], reading)
    for block, candidates in zip(blocks, new, strict=True):
        block.price(first, seconds[: len(candidates)], reading)
        seconds = seconds[len(candidates) :]
        first += len(candidates)


def _padded(before: np.ndarray, now: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both with as many entries, for candidates that came later and cannot be chosen."""
    return np.append(before, np.full(len(now) - len(before), np.inf)), now
