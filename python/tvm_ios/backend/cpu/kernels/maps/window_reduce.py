# SPDX-License-Identifier: Apache-2.0
"""Reductions over the windows of a tile of columns, each channel on its own.

Neighbouring windows overlap, and an input is loaded once for all of them. A weighted sum keeps the
weights of a row of taps in registers beside its accumulators. Pooling is separable: the rows of the
windows are combined for each column of the input first, then these for each column of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from tvm.tirx.script import builder as T

from .....ops.window import Window
from ...core import Core
from ...isa.emit import Accumulators, splat, zeros
from ..layout import blocks
from ..taps import ColumnTile, add_taps, each_group, readers, tap_groups

Expr = Any

Rows = Callable[[Callable[[Expr, Expr], None]], None]
"""Calls its argument with each row of taps and the row of the input that it reads."""

Load = Callable[[Expr, Expr], Expr]
"""Returns a vector of a row by its distance from the first tap of the tile's first column."""


def weighted_width(core: Core, window: Window) -> int:
    """Return the columns of a tile whose sums fit into registers beside weights and two inputs."""
    return _even_width(window, core.registers - len(tap_groups(core, window)[0]) - 2)


def weighted_sums(
    core: Core,
    window: Window,
    tile: ColumnTile,
    rows: Rows,
    load: Load,
    weight: Callable[[Expr, Expr], Expr],
) -> list[Expr]:
    """Return the weighted sum of each column's window.

    Parameters
    ----------
    core : Core
        The core that runs the kernel.
    window : Window
        How a column reads the input.
    tile : ColumnTile
        The columns.
    rows : Rows
        Iterates over the rows of taps.
    load : Load
        Returns an input vector.
    weight : callable
        ``weight(row_tap, tap)`` returns a vector of weights.

    Returns
    -------
    list of Expr
        One vector per column.
    """
    sums = Accumulators(tile.width, core.lanes, zeros(core.lanes))

    def add_row(row_tap: Expr, row: Expr) -> None:
        def group(taps: range, left: Expr) -> None:
            add_taps(
                window,
                tile,
                taps,
                [sums],
                lambda distance: load(row, left * window.dilation + distance),
                lambda _, tap: weight(row_tap, left + tap),
            )

        each_group(core, window, tile, group)

    rows(add_row)
    return [sums[column] for column in range(tile.width)]


def pooled_width(core: Core, window: Window) -> int:
    """Return the columns of a tile whose inputs fit into registers, at least one."""
    return _even_width(window, max(1, (core.registers - 2 - window.kernel) // window.stride + 1))


def pooled(
    core: Core,
    window: Window,
    tile: ColumnTile,
    rows: Rows,
    load: Load,
    combine: Callable[[Expr, Expr], Expr],
    neutral: float,
) -> list[Expr]:
    """Return the combined values of each column's window.

    Parameters
    ----------
    core : Core
        The core that runs the kernel.
    window : Window
        How a column reads the input.
    tile : ColumnTile
        The columns.
    rows : Rows
        Iterates over the rows of taps.
    load : Load
        Returns an input vector.
    combine : callable
        An associative operation on two vectors.
    neutral : float
        The neutral element of ``combine``, the value of an empty window.

    Returns
    -------
    list of Expr
        One vector per column.
    """
    runs = tile.runs(range(window.kernel))
    read = {distance: i for i, (distance, _) in enumerate(readers(window, runs))}
    start = splat(T.float32(neutral), core.lanes)
    inputs = Accumulators(len(read), core.lanes, start)

    def add_row(_row_tap: Expr, row: Expr) -> None:
        for distance, i in read.items():
            inputs[i] = combine(inputs[i], load(row, distance))

    rows(add_row)
    values = [start] * tile.width
    for columns, taps in runs:
        for column in columns:
            combined = [inputs[read[window.distance(column, tap)]] for tap in taps]
            values[column] = reduce(combine, combined)
    return values


def _even_width(window: Window, most: int) -> int:
    """Return at most ``most`` columns, so that all tiles of a row are about equally wide."""
    return blocks(window.out, blocks(window.out, most))
