# SPDX-License-Identifier: Apache-2.0
"""Taps of sliding windows, for tiles of columns that lie in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, product
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from ....target import Core
from ....tir.emit import Accumulators, loop, unroll
from ....tir.window import Window

Expr = Any


@dataclass(frozen=True)
class ColumnTile:
    """``width`` output columns that one set of registers computes.

    ``window`` and ``start``, the first column, are given where a tap may lie in the padding, and
    None where no tap of any column does.
    """

    width: int
    window: Window | None = None
    start: int = 0

    def runs(self, taps: range) -> list[tuple[range, range]]:
        """Neighbouring columns that read through the same taps, those inside; (columns, taps).

        Away from the edges there is a single run. Taps inside are neighbours, too.
        """
        return [
            (range(columns[0], columns[-1] + 1), inside)
            for inside, group in groupby(range(self.width), lambda j: self._inside(j, taps))
            if inside and (columns := list(group))
        ]

    def through(self, window: Window) -> ColumnTile:
        """The same columns, reading another input through ``window``."""
        return self if self.window is None else replace(self, window=window)

    def _inside(self, column: int, taps: range) -> range:
        """The taps of ``column`` that lie inside the input."""
        if self.window is None:
            return taps
        inside = [tap for tap in taps if self.window.inside(self.start + column, tap)]
        return range(inside[0], inside[-1] + 1) if inside else range(0)


def distances(window: Window, runs: list[tuple[range, range]]) -> list[int]:
    """How far from the first tap of a tile's first column its columns read, in order."""
    pairs = (pair for columns, taps in runs for pair in product(columns, taps))
    return sorted({window.distance(column, tap) for column, tap in pairs})


def column_tiles(
    window: Window,
    width: int,
    body: Callable[[Expr, ColumnTile], None],
    others: Sequence[Window] = (),
) -> None:
    """Cover an output row with tiles of ``width`` columns; ``body(first_column, tile)``.

    Tiles that touch no padding run in loops; those at the edges are emitted one by one with the
    taps in the padding left out, so that padding costs neither memory nor multiplications. What
    reads further inputs by the same tiles gives their windows as ``others``: a tile is at the edge
    where it is for one of them, see :meth:`ColumnTile.through`.
    """
    windows = (window, *others)
    starts = list(range(0, window.out, width))
    widths = [min(width, window.out - start) for start in starts]

    def interior(i: int) -> bool:
        columns = range(starts[i], starts[i] + widths[i])
        return all(w.inside(c, t) for w in windows for c in columns for t in range(w.kernel))

    def each(start: int, tile: ColumnTile) -> Callable[[Expr], None]:
        return lambda k: body(start + k * width, tile)

    i = 0
    while i < len(starts):
        run = i
        while run < len(starts) and widths[run] == widths[i] and interior(run):
            run += 1
        start = starts[i]
        if run > i:
            tile = ColumnTile(widths[i])
            loop(run - i, each(start, tile))
            i = run
        else:
            body(start, ColumnTile(widths[i], window, start))
            i += 1


def rows_inside(window: Window, out: Expr, body: Callable[[Expr, Expr], None]) -> None:
    """``body(tap, row)`` for every tap of output row ``out`` that lies inside the input."""

    def at(tap: Expr) -> None:
        row = window.position(out, tap)
        if not window.padded:
            body(tap, row)
            return
        with T.If(tirx.And(row >= 0, row < window.size)), T.Then():
            body(tap, row)

    loop(window.kernel, at)


def tap_groups(core: Core, window: Window) -> list[range]:
    """The taps of a row, in as few groups of equal size as leave registers for accumulators."""
    most = core.registers // 2 - 1
    size = -(-window.kernel // -(-window.kernel // most))
    starts = range(0, window.kernel, size)
    return [range(start, min(start + size, window.kernel)) for start in starts]


def add_taps(
    window: Window,
    tile: ColumnTile,
    taps: range,
    sums: Sequence[Accumulators],
    load: Callable[[Expr], Expr],
    weight: Callable[[int, int], Expr],
) -> None:
    """Add to the sums of each column its inputs, weighted.

    The weights of all taps are held in registers, and an input is loaded once for the columns that
    read it: they are neighbours, and LLVM sees that they load the same.

    Parameters
    ----------
    window : Window
    tile : ColumnTile
    taps : range
        Those of this step.
    sums : sequence of Accumulators
        Each holds a vector a column and has weights of its own.
    load : callable
        ``load(distance)``: the vector so far from what the first tap of the first column reads.
    weight : callable
        ``weight(i, tap)``: the weights of ``sums[i]``.
    """
    runs = tile.runs(taps)
    read = sorted({tap for _, inside in runs for tap in inside})
    weights = {tap: [T.Bind(weight(i, tap)) for i in range(len(sums))] for tap in read}

    def add(column: Expr, inside: range) -> None:
        for tap in inside:
            value = T.Bind(load(window.distance(column, tap)))
            for total, factor in zip(sums, weights[tap], strict=True):
                total[column] = total[column] + value * factor

    for columns, inside in runs:
        unroll(columns.start, columns.stop, partial(add, inside=inside))
