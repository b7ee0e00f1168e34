# SPDX-License-Identifier: Apache-2.0
"""The layout of a drawing: stages as bands, groups as lanes, operators as boxes.

A stage is a band over the whole width. The bands follow one another from top to bottom. Each group
of a stage is a lane with its operators in execution order. The k-th operators of all lanes of a
stage form a row. A stage's figures are to the left of its lanes. Lengths are in pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ..schedule.schedule import Schedule, ScheduledOperator, ScheduledStage
from ..support.errors import ScheduleError
from .routes import Point, Row, route

BOX_WIDTH, BOX_HEIGHT = 190, 36
MARGIN, HEAD = 16, 64  # pixels around the drawing, and of its heading
FIGURES = 214  # the width of the figures to the left of the lanes
_ROW, _COLUMN = BOX_HEIGHT + 16, BOX_WIDTH + 34
_PADDING, _GAP = 14, 6  # above and below the rows of a band; between bands


@dataclass(frozen=True)
class Box:
    """An operator; ``x`` and ``y`` are its upper left corner."""

    operator: ScheduledOperator
    x: float
    y: float


@dataclass(frozen=True)
class Edge:
    """A data dependence between two operators, as a polyline."""

    producer: str
    consumer: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Lane:
    """The boxes of a group."""

    x: float
    y: float
    height: float
    boxes: tuple[Box, ...]


@dataclass(frozen=True)
class Band:
    """A stage, with its vertical position and its groups from left to right."""

    number: int
    stage: ScheduledStage
    y: float
    height: float
    lanes: tuple[Lane, ...]

    @property
    def rows(self) -> list[list[Box]]:
        """The boxes side by side in each row, from left to right."""
        count = max(len(lane.boxes) for lane in self.lanes)
        return [[lane.boxes[k] for lane in self.lanes if k < len(lane.boxes)] for k in range(count)]


@dataclass(frozen=True)
class Picture:
    """The layout of a schedule.

    Attributes
    ----------
    schedule : Schedule
        The schedule.
    width, height : float
        The size in pixels.
    bands : tuple of Band
        The stages.
    edges : tuple of Edge
        The data dependences; empty for a schedule that an earlier release saved.
    """

    schedule: Schedule
    width: float
    height: float
    bands: tuple[Band, ...]
    edges: tuple[Edge, ...]

    @property
    def seconds(self) -> float:
        """The sum of the known latencies of all stages, in seconds."""
        return sum(band.stage.seconds or 0.0 for band in self.bands)


def layout(schedule: Schedule) -> Picture:
    """Lay out a schedule.

    Raises
    ------
    ScheduleError
        If a stage has an operator that the schedule does not list, or two stages share one.
    """
    operators = {operator.name: operator for operator in schedule.operators}
    check(schedule, operators)
    columns = max((len(_lanes(stage, operators)) for stage in schedule.stages), default=1)
    middle = MARGIN + FIGURES + columns * _COLUMN / 2
    bands, y = [], float(MARGIN + HEAD)
    centres: dict[str, float] = {}
    for number, stage in enumerate(schedule.stages):
        groups = _in_order(_lanes(stage, operators), operators, centres)
        band = _band(number, stage, groups, operators, middle, y)
        centres |= {b.operator.name: b.x for lane in band.lanes for b in lane.boxes}
        bands.append(band)
        y += band.height + _GAP
    width = 2 * MARGIN + FIGURES + columns * _COLUMN
    return Picture(schedule, width, y - _GAP + MARGIN, tuple(bands), _edges(bands))


def check(schedule: Schedule, operators: Mapping[str, ScheduledOperator]) -> None:
    """Raise ScheduleError unless every operator of a stage is listed and is in one stage only."""
    seen: set[str] = set()
    for name in (name for stage in schedule.stages for name in stage.operators):
        if name not in operators:
            raise ScheduleError(
                f"The schedule has operator {name!r} in a stage but not in its list of "
                "operators; add it there."
            )
        if name in seen:
            raise ScheduleError(f"The schedule repeats operator {name!r}; keep it in one stage.")
        seen.add(name)


def _lanes(
    stage: ScheduledStage, operators: Mapping[str, ScheduledOperator]
) -> Sequence[tuple[str, ...]]:
    """Return the groups; merged operators that do not read each other get a lane each."""
    merged = stage.operators if stage.strategy == "merge" else ()
    if any(name in merged for reader in merged for name in operators[reader].reads or ()):
        return stage.groups
    return [(name,) for name in merged] or stage.groups


def _in_order(
    groups: Sequence[tuple[str, ...]],
    operators: Mapping[str, ScheduledOperator],
    centres: Mapping[str, float],
) -> list[tuple[str, ...]]:
    """Return the groups from left to right, each near what it reads, so that few edges cross."""

    def place(group: Sequence[str]) -> float:
        read = [centres[r] for name in group for r in operators[name].reads or () if r in centres]
        return sum(read) / len(read) if read else 0.0

    return sorted(groups, key=place)


def _band(
    number: int,
    stage: ScheduledStage,
    groups: Sequence[Sequence[str]],
    operators: Mapping[str, ScheduledOperator],
    middle: float,
    y: float,
) -> Band:
    left = middle - len(groups) * _COLUMN / 2 + (_COLUMN - BOX_WIDTH) / 2
    lanes = []
    for column, group in enumerate(groups):
        x, top = left + column * _COLUMN, y + _PADDING
        boxes = tuple(Box(operators[name], x, top + k * _ROW) for k, name in enumerate(group))
        lanes.append(Lane(x, top, len(group) * _ROW - (_ROW - BOX_HEIGHT), boxes))
    height = max(lane.height for lane in lanes) + 2 * _PADDING
    return Band(number, stage, y, height, tuple(lanes))


def _edges(bands: Iterable[Band]) -> tuple[Edge, ...]:
    """Route every edge around the boxes of the rows that it passes."""
    rows = [row for band in bands for row in band.rows]
    drawn = {box.operator.name: (box, number) for number, row in enumerate(rows) for box in row}
    obstacles = [Row(row[0].y, row[0].y + BOX_HEIGHT, [_span(box) for box in row]) for row in rows]
    edges = []
    for number, (consumer, (box, row)) in enumerate(drawn.items()):
        for name in box.operator.reads or ():
            if name in drawn:
                producer, above = drawn[name]
                begin = (producer.x + BOX_WIDTH / 2, producer.y + BOX_HEIGHT)
                end = (box.x + BOX_WIDTH / 2, box.y)
                points = route(begin, end, obstacles[above + 1 : row], number)
                edges.append(Edge(name, consumer, points))
    return tuple(edges)


def _span(box: Box) -> tuple[float, float]:
    return box.x, box.x + BOX_WIDTH


def offsets(widths: Sequence[float]) -> list[float]:
    """Return the left edges of drawings of these widths side by side."""
    return [0.0, *accumulate(widths)][: len(widths)]
