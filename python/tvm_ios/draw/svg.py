# SPDX-License-Identifier: Apache-2.0
"""Drawings as SVG: one schedule, or several side by side."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from html import escape
from importlib import resources

from ..schedule.schedule import Schedule
from .layout import (
    BOX_HEIGHT,
    BOX_WIDTH,
    FIGURES,
    MARGIN,
    Band,
    Box,
    Edge,
    Picture,
    layout,
    offsets,
)
from .words import details, heading, how, microseconds, printable, share

_STRIPE = 5  # the width of a box's colour
_BAR = FIGURES - 24  # the length of the longest bar
_NAME, _KIND = 21, 16  # characters that fit into a box
_FRAME = 7  # pixels around the lanes of merged operators

_FAMILIES = (
    ("convolution", ("conv",)),
    ("product", ("matmul", "dense", "linear")),
    ("pooling", ("pool",)),
    ("moving", ("concat", "slice", "transpose", "permute", "reshape", "take", "pad", "split")),
)

Stages = Collection[frozenset[str]]


def svg(schedules: Sequence[Schedule], titles: Sequence[str] = ()) -> str:
    """Draw schedules side by side as one SVG document.

    Bars are proportional to the latency of a stage, on the same scale in all drawings. Stages that
    the first schedule does not have are outlined in the others.

    Parameters
    ----------
    schedules : sequence of Schedule
        At least one schedule.
    titles : sequence of str
        One title for each schedule, or none.

    Raises
    ------
    ScheduleError
        If the stages and the list of operators of a schedule disagree.
    """
    pictures = [layout(schedule) for schedule in schedules]
    width = sum(picture.width for picture in pictures)
    height = max(picture.height for picture in pictures)
    known = [band.stage.seconds or 0.0 for picture in pictures for band in picture.bands]
    first = {frozenset(stage.operators) for stage in schedules[0].stages}
    size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="tvm-ios" {size} role="img" '
        f'aria-label="{spoken(heading(schedules[0])[0])}">',
        f"<style>{style()}</style>",
        f'<rect class="paper" width="{width:g}" height="{height:g}"/>',
    ]
    begins = offsets([picture.width for picture in pictures])
    for number, (picture, x) in enumerate(zip(pictures, begins, strict=True)):
        lines.append(f'<g class="picture" transform="translate({x:g} 0)">')
        lines += _picture(picture, titles[number] if titles else "", max(known, default=0.0), first)
        lines.append("</g>")
    return "\n".join([*lines, "</svg>", ""])


def style() -> str:
    """Return the style sheet of drawings."""
    return resources.files(__package__).joinpath("picture.css").read_text("utf-8")


def spoken(text: str) -> str:
    """Return text from a schedule, escaped for XML and HTML."""
    return escape(printable(text))


def _picture(picture: Picture, title: str, longest: float, first: Stages) -> Iterator[str]:
    about = heading(picture.schedule)
    lines = [title, *about] if title else about
    for k, line in enumerate(lines):
        look = "title" if k == 0 else "faint"
        yield f'<text class="{look}" x="{MARGIN}" y="{MARGIN + 14 + 18 * k}">{spoken(line)}</text>'
    for band in picture.bands:
        yield from _band(picture, band, longest, first)
    yield from map(_edge, picture.edges)
    slowest = max((op.seconds or 0.0 for op in picture.schedule.operators), default=0.0)
    for band in picture.bands:
        for box in (box for lane in band.lanes for box in lane.boxes):
            yield from _box(box, slowest, picture.schedule.target)


def _band(picture: Picture, band: Band, longest: float, first: Stages) -> Iterator[str]:
    stage = band.stage
    new = "" if frozenset(stage.operators) in first else " new"
    yield f'<g class="stage{new}" data-stage="{band.number}">'
    width = picture.width - 2 * MARGIN
    yield _rect("band", MARGIN, band.y, width, band.height, 6)
    left, right = MARGIN + 10, MARGIN + 10 + _BAR
    time = f"{microseconds(stage.seconds)} {share(stage.seconds, picture.seconds)}"
    yield _text("strong", left, band.y + 20, f"stage {band.number}")
    yield _text("end", right, band.y + 20, time.rstrip())
    yield _text("faint", left, band.y + 37, how(stage))
    yield _rect("track", left, band.y + 46, _BAR, 6, 3)
    if stage.seconds and longest:
        yield _rect("bar", left, band.y + 46, _BAR * stage.seconds / longest, 6, 3)
    for lane in band.lanes:
        if len(stage.operators) > 1:
            yield _rect("lane", lane.x - 5, lane.y - 5, BOX_WIDTH + 10, lane.height + 10, 5)
    if stage.strategy == "merge":
        x, end = band.lanes[0].x - _FRAME, band.lanes[-1].x + BOX_WIDTH + _FRAME
        yield _rect("merged", x, band.y + 5, end - x, band.height - 10, 6)
    yield "</g>"


def _edge(edge: Edge) -> str:
    """Return a curve that is vertical at every point of the polyline."""
    (x, y), *others = edge.points
    parts = [f"M{x:g} {y:g}"]
    for to_x, to_y in others:
        half = (y + to_y) / 2
        straight = x == to_x
        parts.append(
            f"V{to_y:g}" if straight else f"C{x:g} {half:g} {to_x:g} {half:g} {to_x:g} {to_y:g}"
        )
        x, y = to_x, to_y
    ends = f'data-from="{spoken(edge.producer)}" data-to="{spoken(edge.consumer)}"'
    return f'<path class="edge" {ends} d="{"".join(parts)}"/>'


def _box(box: Box, slowest: float, target: str) -> Iterator[str]:
    operator, x, y = box.operator, box.x, box.y
    tip = "\n".join([operator.title, *details(operator, target)])
    yield f'<g class="op" data-name="{spoken(operator.name)}"><title>{spoken(tip)}</title>'
    yield _rect("box", x, y, BOX_WIDTH, BOX_HEIGHT, 4)
    yield _rect(_family(operator.kind), x, y, _STRIPE, BOX_HEIGHT, 2)
    yield _text("name", x + 12, y + 15, _clipped(operator.title, _NAME))
    about = f"{_clipped(operator.kind, _KIND)} · {microseconds(operator.seconds)}"
    yield _text("about", x + 12, y + 28, about)
    if operator.seconds and slowest:
        load = (BOX_WIDTH - _STRIPE) * operator.seconds / slowest
        yield _rect("bar", x + _STRIPE, y + BOX_HEIGHT - 3, load, 3, 1)
    yield "</g>"


def _family(kind: str) -> str:
    """Return the colour class of a kind of operators."""
    return next((f for f, parts in _FAMILIES if any(p in kind for p in parts)), "other")


def _clipped(name: str, letters: int) -> str:
    """Return a name shortened to fit a box, with both ends kept: names often differ at the end."""
    half = (letters - 1) // 2
    return name if len(name) <= letters else f"{name[:half]}…{name[-half:]}"


def _rect(look: str, x: float, y: float, width: float, height: float, round_by: float) -> str:
    place = f'x="{x:g}" y="{y:g}" width="{width:.4g}" height="{height:g}" rx="{round_by}"'
    return f'<rect class="{look}" {place}/>'


def _text(look: str, x: float, y: float, text: str) -> str:
    return f'<text class="{look}" x="{x:g}" y="{y:g}">{spoken(text)}</text>'
