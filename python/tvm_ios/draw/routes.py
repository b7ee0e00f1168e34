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

    It goes straight down where it can.

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
    for row in between:
        x = _gap(x, end[0], row.boxes, clearance)
        points += [(x, row.top), (x, row.bottom)]
    return (*points, end)


def _gap(x: float, wanted: float, boxes: Sequence[tuple[float, float]], clearance: float) -> float:
    """``x`` if it is free, else the place beside the box there from which it is not far on."""
    for left, right in boxes:
        if left - clearance < x < right + clearance:
            sides = (left - clearance, right + clearance)
            return min(sides, key=lambda side: abs(side - x) + abs(side - wanted))
    return x
