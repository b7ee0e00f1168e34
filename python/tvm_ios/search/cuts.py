# SPDX-License-Identifier: Apache-2.0
"""The search across the cuts between blocks (the backtracking of IOPS, section 2.3).

The stages around each cut are searched again together: the last stages of one block and the first
ones of the next. The result is never more expensive, by the prices of that time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ..graph.dag import Candidate
from .block import BlockSearch, solve_all
from .cost_model import CostModel

WINDOW = 20
"""Operators around a cut that are searched together."""

SearchOf = Callable[[Sequence[int], Sequence[Candidate]], BlockSearch]
"""A function from operators, and the stages that they have, to the search of a better schedule."""


@dataclass(frozen=True)
class Window:
    """Consecutive stages of a schedule.

    Attributes
    ----------
    begin, end : int
        The first stage, and the one after the last.
    """

    begin: int
    end: int


def search_cuts(
    blocks: Sequence[Sequence[Candidate]], search_of: SearchOf, cost: CostModel
) -> list[Candidate]:
    """Search the stages around each cut again, first around every other cut.

    Parameters
    ----------
    blocks : sequence of sequence of Candidate
        The stages of each block, in execution order.
    search_of : callable
        Returns the search of some operators.
    cost : CostModel
        The cost model.

    Returns
    -------
    list of Candidate
        The stages of the network.
    """
    stages = [stage for block in blocks for stage in block]
    cuts = [sum(map(len, blocks[: i + 1])) for i in range(len(blocks) - 1)]
    for parity in (0, 1):
        bounds = [0, *cuts, len(stages)]
        chosen = range(parity, len(cuts), 2)
        windows = [_window(stages, bounds[i], cuts[i], bounds[i + 2]) for i in chosen]
        improved = _search_windows([stages[w.begin : w.end] for w in windows], search_of, cost)
        for i, window, better in reversed(list(zip(chosen, windows, improved, strict=True))):
            before = sum(len(stage.ops) for stage in stages[window.begin : cuts[i]])
            stages[window.begin : window.end] = better
            cuts[i] = window.begin + _boundary(better, before)
            grown = len(better) - (window.end - window.begin)
            cuts[i + 1 :] = [cut + grown for cut in cuts[i + 1 :]]
    return stages


def _window(stages: Sequence[Candidate], begin: int, cut: int, end: int) -> Window:
    """Return the stages around a cut that are searched together, alternately from both sides."""
    first = last = cut
    operators = 0
    sides = [True, True]
    while any(sides):
        for side in (0, 1):
            stage = first - 1 if side == 0 else last
            fits = begin <= stage < end and operators + len(stages[stage].ops) <= WINDOW
            sides[side] = sides[side] and fits
            if sides[side]:
                operators += len(stages[stage].ops)
                first, last = (stage, last) if side == 0 else (first, stage + 1)
    return Window(first, last)


def _boundary(stages: Sequence[Candidate], operators: int) -> int:
    """Return how many of the first stages have at most so many operators together."""
    ends = accumulate(len(stage.ops) for stage in stages)
    return sum(end <= operators for end in ends)


def _search_windows(
    windows: Sequence[Sequence[Candidate]], search_of: SearchOf, cost: CostModel
) -> list[Sequence[Candidate]]:
    """Return better stages for each window, or the same."""
    searched = [window for window in windows if window]
    operators = [sorted(op for stage in window for op in stage.ops) for window in searched]
    searches = [search_of(ops, window) for ops, window in zip(operators, searched, strict=True)]
    found = iter(solve_all(searches, cost))
    results: list[Sequence[Candidate]] = []
    for window in windows:
        better = next(found).stages if window else window
        results.append(better if cost(better).sum() < cost(window).sum() else window)
    return results
