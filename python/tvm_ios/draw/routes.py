# SPDX-License-Identifier: Apache-2.0
"""Routing of edges around boxes, through the gaps of the rows that they pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Point = tuple[float, float]

_CLEARANCE = 5.0  # pixels between an edge and a box
_SPREAD, _TRACKS = 4.0, 4  # edges that share a gap are drawn side by side


@dataclass(frozen=True)
class Row:
    """Boxes side by side: top and bottom of the row, left and right of each box.

    The boxes are sorted and do not touch.
    """

    top: float
    bottom: float
    boxes: Sequence[tuple[float, float]]


def route(begin: Point, end: Point, between: Sequence[Row], number: int) -> tuple[Point, ...]:
    """Return a polyline from ``begin`` down to ``end`` that touches no box of the rows in between.

    It is vertical where possible.

    Parameters
    ----------
    begin, end : (float, float)
        The end points.
    between : sequence of Row
        The rows between them, from top to bottom; empty if ``end`` is in the next row or above.
    number : int
        The number of the edge: consecutive edges pass a gap on different tracks.
    """
    points = [begin]
    clearance = _CLEARANCE + _SPREAD * (number % _TRACKS)
    x = begin[0]
    for row in between:
        x = _gap(x, end[0], row.boxes, clearance)
        points += [(x, row.top), (x, row.bottom)]
    return (*points, end)


def _gap(x: float, wanted: float, boxes: Sequence[tuple[float, float]], clearance: float) -> float:
    """Return ``x`` if it is free, else the side of the obstructing box with the shorter detour."""
    for left, right in boxes:
        if left - clearance < x < right + clearance:
            sides = (left - clearance, right + clearance)
            return min(sides, key=lambda side: abs(side - x) + abs(side - wanted))
    return x
