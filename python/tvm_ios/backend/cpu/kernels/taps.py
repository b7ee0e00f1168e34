# SPDX-License-Identifier: Apache-2.0
"""Taps of sliding windows, for tiles of columns held in registers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product
from typing import Any, NamedTuple

from tvm import tirx
from tvm.tirx.script import builder as T

from ....ops.window import Window
from ..core import Core
from ..isa.emit import Accumulators, bind, loop

Expr = Any
MultiplyAdd = Callable[[Expr, Expr, Expr], Expr]

_FEW_GROUPS = 4  # of taps, whose code may follow one another
_MOST_EDGES = 1024  # taps of the columns of tiles at the edges, each with code of its own


def float_multiply_add(total: Expr, a: Expr, b: Expr) -> Expr:
    """Add the product of two vectors of float32 to a third."""
    return total + a * b


@dataclass(frozen=True)
class ColumnTile:
    """A tile of ``width`` output columns that one set of registers computes.

    ``window`` and ``start``, the first column, are given if a tap may lie in the padding.
    ``window`` is None if no tap of any column does. A tile is ``guarded`` if any tap may, which is
    known only at run time: its inputs there are replaced by zeros, or what stands for them.
    """

    width: int
    window: Window | None = None
    start: int = 0
    guarded: bool = False

    def runs(self, taps: range) -> list[tuple[range, range]]:
        """Return (columns, taps) of neighbouring columns that read through the same taps inside.

        Away from the edges there is a single run. The taps of a run are neighbours, too.
        """
        return [
            (range(columns[0], columns[-1] + 1), inside)
            for inside, group in groupby(range(self.width), lambda j: self._inside(j, taps))
            if inside and (columns := list(group))
        ]

    def through(self, window: Window) -> ColumnTile:
        """Return the same columns, reading another input through ``window``."""
        return self if self.window is None else replace(self, window=window)

    def _inside(self, column: int, taps: range) -> range:
        """Return the taps of ``column`` that lie inside the input."""
        if self.window is None:
            return taps
        inside = self.window.taps_inside(self.start + column)
        begin, end = max(inside.start, taps.start), min(inside.stop, taps.stop)
        return range(begin, end) if begin < end else range(0)


def readers(
    window: Window, runs: list[tuple[range, range]]
) -> list[tuple[int, list[tuple[int, int]]]]:
    """Return which (column, tap) pairs read each input of a tile, in the order of the inputs.

    An input is given by its distance from what the first tap of the first column reads.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    for column, tap in (pair for columns, taps in runs for pair in product(columns, taps)):
        found.setdefault(window.distance(column, tap), []).append((column, tap))
    return sorted(found.items())


class Part(NamedTuple):
    """The tiles of columns that are covered: those from ``begin`` on, ``length`` of them."""

    begin: Expr
    length: Expr


class _Run(NamedTuple):
    """Neighbouring tiles of equal code, and the columns of the first one."""

    first: int
    length: int
    tile: ColumnTile


def column_tiles(
    window: Window,
    width: int,
    body: Callable[[Expr, ColumnTile], None],
    others: Sequence[Window] = (),
    *,
    part: Part | None = None,
    guards: bool = True,
) -> None:
    """Cover an output row with tiles of ``width`` columns.

    Tiles that access no padding run in loops. Tiles at the edges are emitted without the taps in
    the padding, so that padding costs neither memory nor multiplications: one by one, but for
    neighbours whose taps in the padding are the same, of which a large dilation has many. Where
    that would be much code, as of windows of hundreds of taps, they are guarded.

    Parameters
    ----------
    window : Window
        How a column reads the input.
    width : int
        Columns of a tile.
    body : callable
        ``body(first_column, tile)`` emits one tile.
    others : sequence of Window
        Windows of further inputs that are read by the same tiles, or that the code depends on. A
        tile is at the edge if it is at the edge for any of them, see :meth:`ColumnTile.through`.
    part : Part, optional
        The tiles to emit; by default all of the row.
    guards : bool
        Whether ``body`` emits guarded tiles.
    """

    def each(start: int, tile: ColumnTile) -> Callable[[Expr], None]:
        return lambda k: body(start + k * width, tile)

    for run in _runs(window, width, (window, *others), guards):
        emit = each(run.first * width, run.tile)
        if part is None:
            loop(run.length, emit)
            continue
        begin = T.max(part.begin - run.first, 0)
        end = T.min(part.begin + part.length - run.first, run.length)
        if run.length == 1:
            with T.If(begin < end), T.Then():
                emit(0)
        else:
            with T.serial(bind(begin), bind(T.max(begin, end))) as k:
                emit(k)


def _runs(window: Window, width: int, windows: Sequence[Window], guards: bool) -> list[_Run]:
    """Return the tiles of a row in their order, as runs of tiles of equal code."""
    count = -(-window.out // width)

    def columns(i: int) -> int:
        return min(width, window.out - i * width)

    def interior(i: int) -> bool:
        first, last = i * width, i * width + columns(i) - 1  # the farthest is its last tap
        return all(w.inside(first, 0) and w.inside(last, w.kernel - 1) for w in windows)

    def edges(tiles: range, kind: Callable[[int], Hashable]) -> list[_Run]:
        groups = [list(group) for _, group in groupby(tiles, kind)]
        return [
            _Run(group[0], len(group), ColumnTile(columns(group[0]), window, group[0] * width))
            for group in groups
        ]

    def taps(i: int) -> Hashable:
        """Return what is equal for tiles of equal code: the taps inside of each column."""
        return tuple(w.bounds(i * width + j) for w in windows for j in range(columns(i)))

    begin = next((i for i in range(count) if interior(i)), count)
    end = next((i + 1 for i in reversed(range(begin, count)) if interior(i)), begin)
    sides = range(begin), range(end, count)
    before, after = (edges(side, taps) for side in sides)
    if guards and sum(run.tile.width for run in (*before, *after)) * window.kernel > _MOST_EDGES:
        before, after = (
            [run._replace(tile=ColumnTile(run.tile.width, guarded=True)) for run in runs]
            for runs in (edges(side, columns) for side in sides)
        )
    inside = [
        _Run(group[0], len(group), ColumnTile(size))
        for size, tiles in groupby(range(begin, end), columns)
        if (group := list(tiles))
    ]
    return [*before, *inside, *after]


def rows_inside(window: Window, out: Expr, body: Callable[[Expr, Expr], None]) -> None:
    """Call ``body(tap, row)`` for every tap of output row ``out`` that lies inside the input.

    Parameters
    ----------
    window : Window
        How a row of the output reads rows of the input.
    out : Expr
        Row of the output.
    body : callable
        Emits the code of one tap.
    """

    def at(tap: Expr) -> None:
        row = window.position(out, tap)
        if not window.padded:
            body(tap, row)
            return
        with T.If(tirx.And(row >= 0, row < window.size)), T.Then():
            body(tap, row)

    loop(window.kernel, at)


def tap_groups(core: Core, window: Window) -> list[range]:
    """Split a row's taps into the fewest equal groups that leave registers for accumulators."""
    most = core.registers // 2 - 1
    size = -(-window.kernel // -(-window.kernel // most))
    starts = range(0, window.kernel, size)
    return [range(start, min(start + size, window.kernel)) for start in starts]


def each_group(
    core: Core, window: Window, tile: ColumnTile, body: Callable[[range, Expr], None]
) -> None:
    """Call ``body(taps, first)`` for each group of a row's taps: they are ``first + tap``.

    Many groups of a tile that accesses no padding run in a loop. The code of hundreds of taps would
    take LLVM a minute, and would not fit into the cache of instructions.
    """
    groups = tap_groups(core, window)
    size = len(groups[0])
    full = window.kernel // size
    if tile.window is not None or full <= _FEW_GROUPS:
        for taps in groups:
            body(taps, 0)
        return
    loop(full, lambda group: body(groups[0], bind(group * size)))
    if rest := window.kernel - full * size:
        body(range(rest), full * size)


def add_taps(
    window: Window,
    tile: ColumnTile,
    taps: range,
    sums: Sequence[Accumulators],
    load: Callable[[Expr], Expr],
    weight: Callable[[int, int], Expr],
    multiply_add: MultiplyAdd = float_multiply_add,
) -> None:
    """Add the weighted inputs of each column to its sums.

    The weights of all taps are held in registers. An input is loaded once and multiplied for all
    columns that read it before the next one is loaded, so that few inputs are held at a time. If
    the columns came one after another, LLVM would hold what neighbours share, and spill sums.

    Parameters
    ----------
    window : Window
        How a column reads the input.
    tile : ColumnTile
        The columns.
    taps : range
        The taps of this step.
    sums : sequence of Accumulators
        Each holds one vector per column and has its own weights.
    load : callable
        ``load(distance)`` returns the vector at that distance from what the first tap of the first
        column reads.
    weight : callable
        ``weight(i, tap)`` returns the weights of ``sums[i]``.
    multiply_add : callable
        Adds the product of an input and its weights to a sum.
    """
    runs = tile.runs(taps)
    read = sorted({tap for _, inside in runs for tap in inside})
    weights = {tap: [T.Bind(weight(i, tap)) for i in range(len(sums))] for tap in read}
    for distance, pairs in readers(window, runs):
        value = T.Bind(load(distance))
        for column, tap in pairs:
            for total, factor in zip(sums, weights[tap], strict=True):
                total[column] = multiply_add(total[column], value, factor)
