# SPDX-License-Identifier: Apache-2.0
"""Where everything of a picture lies: stages as bands, groups as lanes, operators as boxes.

A stage is a band over the whole width, and the bands follow one another from top to bottom. Each of
its groups is a lane, in which operators stand in the order in which they run; the k-th operators of
all lanes of a stage form a row. To the left of the lanes are a stage's figures. Lengths are pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ..schedule.schedule import Schedule, ScheduledOperator, ScheduledStage
from ..support.errors import ScheduleError
from .routes import Point, Row, route

BOX_WIDTH, BOX_HEIGHT = 190, 36
MARGIN, HEAD = 16, 64  # around the picture; its lines of text
FIGURES = 214  # what is left of the lanes
_ROW, _COLUMN = BOX_HEIGHT + 16, BOX_WIDTH + 34
_PADDING, _GAP = 14, 6  # of a band, above and below its rows; between bands


@dataclass(frozen=True)
class Box:
    """An operator; ``x`` and ``y`` are its upper left corner."""

    operator: ScheduledOperator
    x: float
    y: float


@dataclass(frozen=True)
class Edge:
    """What passes from one operator to another, as a polyline."""

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
    """A stage: its place from top to bottom, and its groups in the order in which they lie."""

    number: int
    stage: ScheduledStage
    y: float
    height: float
    lanes: tuple[Lane, ...]

    @property
    def rows(self) -> list[list[Box]]:
        """The boxes that lie beside each other, from left to right."""
        count = max(len(lane.boxes) for lane in self.lanes)
        return [[lane.boxes[k] for lane in self.lanes if k < len(lane.boxes)] for k in range(count)]


@dataclass(frozen=True)
class Picture:
    """A schedule, laid out.

    Attributes
    ----------
    schedule : Schedule
    width, height : float
    bands : tuple of Band
    edges : tuple of Edge
        None are known of a schedule that an earlier release saved.
    """

    schedule: Schedule
    width: float
    height: float
    bands: tuple[Band, ...]
    edges: tuple[Edge, ...]

    @property
    def seconds(self) -> float:
        """What all stages take together, as far as it is known."""
        return sum(band.stage.seconds or 0.0 for band in self.bands)


def layout(schedule: Schedule) -> Picture:
    """Lay a schedule out.

    Raises
    ------
    ScheduleError
        When a stage has an operator that the schedule does not describe, or one is in two places.
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
    """Raise ScheduleError unless the operators of all stages are known, and in one stage each."""
    seen: set[str] = set()
    for name in (name for stage in schedule.stages for name in stage.operators):
        if name not in operators:
            raise ScheduleError(
                f"The schedule has an operator {name!r} in a stage and not in its list of "
                "operators; enter it there."
            )
        if name in seen:
            raise ScheduleError(f"The schedule repeats operator {name!r}; keep it in one stage.")
        seen.add(name)


def _lanes(
    stage: ScheduledStage, operators: Mapping[str, ScheduledOperator]
) -> Sequence[tuple[str, ...]]:
    """The groups; of merged operators that do not read each other, each one by itself."""
    merged = stage.operators if stage.strategy == "merge" else ()
    if any(name in merged for reader in merged for name in operators[reader].reads or ()):
        return stage.groups
    return [(name,) for name in merged] or stage.groups


def _in_order(
    groups: Sequence[tuple[str, ...]],
    operators: Mapping[str, ScheduledOperator],
    centres: Mapping[str, float],
) -> list[tuple[str, ...]]:
    """The groups from left to right: each near what it reads, so that few edges cross."""

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
    """Every edge, around the boxes of the rows that it passes."""
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
    """Where pictures of these widths begin that lie side by side."""
    return [0.0, *accumulate(widths)][: len(widths)]
