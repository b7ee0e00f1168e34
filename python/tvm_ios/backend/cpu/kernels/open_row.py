# SPDX-License-Identifier: Apache-2.0
"""Tiles of columns of a row whose length is known only at run time.

A row is covered by tiles of one width, and its end by narrower ones, of which there are a few
widths: the smallest that covers the rest, and overlaps what lies before it, or else several that
fit. A tile whose inputs all lie inside of their row has code of its own. The others are *guarded*:
their code tests of every input whether it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from ....ops.window import Window
from ....sizes.size import Size, is_open
from ..isa.emit import bind
from ..isa.functions import register
from .taps import ColumnTile, column_tiles

Expr = Any
Body = Callable[[Expr, ColumnTile], None]
"""``body(first_column, tile)`` emits one tile."""

_FEWER = 4  # times narrower are tiles of rows that are shorter than a tile, where few are


def cover_row(
    window: Window, width: int, body: Body, others: Sequence[Window] = (), **known: Any
) -> None:
    """Cover an output row with tiles of ``width`` columns; see :func:`.column_tiles`.

    What else that takes is for rows of known length.
    """
    if not is_open((window.size, window.out)):
        column_tiles(window, width, body, others, **known)
        return
    with T.serial(-(-window.out // width)) as number:
        open_tile(window, width, bind(number), body, others)


def open_tile(
    window: Window, width: int, number: Expr, body: Body, others: Sequence[Window] = ()
) -> None:
    """Emit tile ``number`` of an open row; the last one may be several that are narrower.

    The parameters are those of :func:`.column_tiles`, whose tiles these are.
    """
    windows = (window, *others)
    begin = bind(number * width)
    end = bind(T.min(begin + width, window.out))
    if any(w.padded for w in windows):
        whole, first = begin + width <= window.out, begin
        for w in windows:
            whole = tirx.And(whole, w.position(begin, 0) >= 0)
            whole = tirx.And(whole, w.position(begin + (width - 1), w.kernel - 1) < w.size)
        widths, guarded = widths_below(width), True
    else:
        widths, guarded = widths_below(width, _FEWER)[1:], False
        smaller = widths[0] if widths else 0
        whole = tirx.And(end - begin > smaller, end >= width)
        first = T.min(begin, end - width)

    def narrower(first: Expr, count: int) -> None:
        body(first, ColumnTile(count, guarded=guarded))

    with T.If(whole):
        with T.Then():
            body(bind(first), ColumnTile(width))
        if widths:
            with T.Else():
                cover(begin, end, widths, width, narrower, lowest=0)


def widths_below(width: int, divisor: int = 2) -> tuple[int, ...]:
    """Return the widths of tiles that cover up to ``width`` elements, the largest first.

    Each is the one before by ``divisor``, rounded up.
    """
    widths = [width]
    while widths[-1] > 1:
        widths.append(-(-widths[-1] // divisor))
    return tuple(widths)


def cover(
    begin: Expr,
    end: Expr,
    widths: Sequence[int],
    most: int,
    body: Callable[[Expr, int], None],
    lowest: Expr | None = None,
) -> None:
    """Cover the elements from ``begin`` to ``end``.

    Parameters
    ----------
    begin, end : Expr
    widths : sequence of int
        The widths of tiles, the largest first; the last one is 1.
    most : int
        The most elements that there may be.
    body : callable
        ``body(first, width)`` emits one tile.
    lowest : Expr, optional
        The first element that a tile may compute again; without, each is computed once.
    """
    place = register(1, "int32")
    T.buffer_store(place, begin, [0])
    with T.serial(_most_tiles(widths, most)):
        rest = bind(end - place[0])
        with T.If(rest > 0), T.Then():
            width, first = _largest_inside(widths, rest), place[0]
            if lowest is not None:
                covering = bind(smallest_above(widths, rest))
                fits = tirx.And(covering >= rest, end - covering >= lowest)
                width = T.Select(fits, covering, width)
                first = T.Select(fits, end - covering, first)
            width, first = bind(width), bind(first)
            T.buffer_store(place, first + width, [0])
            one_of(widths, width, lambda count: body(first, count))


def one_of(widths: Sequence[int], width: Expr, body: Callable[[int], None]) -> None:
    """Emit ``body`` of the width that is given when the code runs."""
    if len(widths) == 1:
        body(widths[0])
        return
    with T.If(width == widths[0]):
        with T.Then():
            body(widths[0])
        with T.Else():
            one_of(widths[1:], width, body)


def _largest_inside(widths: Sequence[int], rest: Expr) -> Expr:
    """Return the largest width that is at most ``rest``."""
    found = T.int32(widths[-1])
    for width in reversed(widths[:-1]):
        found = T.Select(rest >= width, T.int32(width), found)
    return found


def smallest_above(widths: Sequence[int], rest: Expr) -> Expr:
    """Return the smallest width that is at least ``rest``; the largest one if there is none."""
    found = T.int32(widths[0])
    for width in widths[1:]:
        found = T.Select(rest <= width, T.int32(width), found)
    return found


def _most_tiles(widths: Sequence[int], most: int) -> int:
    """Return how many tiles that fit cover up to ``most`` elements."""

    def count(rest: int) -> int:
        if not rest:
            return 0
        return 1 + count(rest - next(width for width in widths if width <= rest))

    return max(map(count, range(1, most + 1)))


def guarded_places(window: Window, begin: Expr, distance: Expr) -> tuple[Expr, Expr]:
    """Return whether the input at a distance from ``begin`` lies inside, and the nearest that does.

    Parameters
    ----------
    window : Window
    begin : Expr
        The position that the first tap of a tile's first column reads.
    distance : Expr
    """
    position = begin + distance
    inside = tirx.And(position >= 0, position < window.size)
    return inside, T.max(T.min(position, window.size - 1), 0)


def guarded_load(
    window: Window, begin: Expr, width: int, load: Callable[[Expr], Expr], outside: Expr
) -> Callable[[Expr], Expr]:
    """Return what loads the input at a distance from ``begin``, or ``outside`` where there is none.

    Inputs are tested only where a tile of ``width`` columns may reach the padding.

    Parameters
    ----------
    window : Window
    begin : Expr
        The position that the first tap of the first column reads.
    width : int
    load : callable
        Returns the input at a position.
    outside : Expr
    """
    end, behind = window.distance(width - 1, window.kernel - 1), _most_behind(window)

    def at(distance: Expr) -> Expr:
        position = begin + distance
        known = isinstance(distance, int)
        before = not known or distance < window.before
        after = not known or behind is None or distance > end - behind
        if not before and not after:
            return load(position)
        inside, nearest = guarded_places(window, begin, distance)
        if not after:
            inside, nearest = position >= 0, T.max(position, 0)
        elif not before:
            inside, nearest = position < window.size, T.min(position, window.size - 1)
        return T.Select(inside, load(nearest), outside)

    return at


@lru_cache(maxsize=256)
def _most_behind(window: Window) -> int | None:
    """Return how many elements the last column reads behind the last one, at most, if known."""
    last = window.position(window.out - 1, window.kernel - 1)
    for count in range(window.distance(0, window.kernel)):
        left = window.size - 1 + count - last
        if isinstance(left, int) and left >= 0:
            return count
        if isinstance(left, Size) and left.owner.proven(left.expr >= 0):
            return count
    return None
