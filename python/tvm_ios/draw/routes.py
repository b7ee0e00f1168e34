# SPDX-License-Identifier: Apache-2.0
"""Edges around boxes: through the gaps of every row that they pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Point = tuple[float, float]

_CLEARANCE = 5.0  # between an edge and a box
_SPREAD, _TRACKS = 4.0, 4  # edges that share a gap lie beside each other


@dataclass(frozen=True)
class Row:
    """Boxes side by side: where they begin and end from top to bottom, and each from left to right.

    The boxes are in order and do not touch.
    """

    top: float
    bottom: float
    boxes: Sequence[tuple[float, float]]


def route(begin: Point, end: Point, between: Sequence[Row], number: int) -> tuple[Point, ...]:
    """A polyline from ``begin`` down to ``end`` that touches no box of the rows between them.

    Parameters
    ----------
    begin, end : (float, float)
    between : sequence of Row
        From top to bottom; none where ``end`` is in the next row, or above.
    number : int
        Of the edge: neighbours pass a gap on different tracks.
    """
    points = [begin]
    clearance = _CLEARANCE + _SPREAD * (number % _TRACKS)
    x = begin[0]
    for passed, row in enumerate(between):
        straight = x + (end[0] - x) / (len(between) - passed + 1)
        x = _gap(straight, row.boxes, clearance)
        points += [(x, row.top), (x, row.bottom)]
    return (*points, end)


def _gap(x: float, boxes: Sequence[tuple[float, float]], clearance: float) -> float:
    """The free place nearest to ``x``."""
    for left, right in boxes:
        if left - clearance < x < right + clearance:
            return left - clearance if x - left < right - x else right + clearance
    return x
