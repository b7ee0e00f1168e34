# SPDX-License-Identifier: Apache-2.0
"""What is made of the values in the windows of a tile of columns, each channel on its own.

Neighbouring windows overlap, and an input is loaded once for all of them. A weighted sum keeps the
weights of a row of taps in registers beside its accumulators. Pooling is separable: first the rows
of the windows are combined for each column of the input, then these for each column of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from tvm.tirx.script import builder as T

from ....target import Core
from ....tir.emit import Accumulators, splat, zeros
from ....tir.window import Window
from .layout import blocks
from .taps import ColumnTile, add_taps, distances, tap_groups

Expr = Any

Rows = Callable[[Callable[[Expr, Expr], None]], None]
"""Calls what it is given with each row of taps and the row of the input that it reads."""

Load = Callable[[Expr, Expr], Expr]
"""A vector of a row, by its distance from what the first tap of the tile's first column reads."""


def weighted_width(core: Core, window: Window) -> int:
    """Columns of a tile whose sums are in registers beside the weights and two inputs."""
    return _even_width(window, core.registers - len(tap_groups(core, window)[0]) - 2)


def weighted_sums(
    core: Core,
    window: Window,
    tile: ColumnTile,
    rows: Rows,
    load: Load,
    weight: Callable[[Expr, int], Expr],
) -> list[Expr]:
    """The sum of each column's window; ``weight(row_tap, tap)`` is a vector."""
    sums = Accumulators(tile.width, core.lanes, zeros(core.lanes))

    def add_row(row_tap: Expr, row: Expr) -> None:
        for taps in tap_groups(core, window):
            add_taps(
                window,
                tile,
                taps,
                [sums],
                lambda distance: load(row, distance),
                lambda _, tap: weight(row_tap, tap),
            )

    rows(add_row)
    return [sums[column] for column in range(tile.width)]


def pooled_width(core: Core, window: Window) -> int:
    """Columns of a tile whose inputs' columns are in registers, if the window is not too large."""
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
    """The values in each column's window, combined; ``neutral`` where there are none."""
    runs = tile.runs(range(window.kernel))
    read = {distance: i for i, distance in enumerate(distances(window, runs))}
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
    """At most ``most`` columns, so that all tiles of a row are about as wide."""
    return blocks(window.out, blocks(window.out, most))
