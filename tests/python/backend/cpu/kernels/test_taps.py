# SPDX-License-Identifier: Apache-2.0
"""Tiles of columns: those that read alike are emitted once, in a loop."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tvm import relax
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from support.networks import check_scheduled, relax_module
from tvm_ios.backend.cpu.kernels.taps import ColumnTile, column_tiles
from tvm_ios.ops.window import Window


def tiles_of(window: Window, others: tuple[Window, ...] = ()) -> list[ColumnTile]:
    """The tiles of eight columns that code is emitted for."""
    found: list[ColumnTile] = []

    def body(first, tile: ColumnTile) -> None:
        found.append(tile)
        T.evaluate(first if not isinstance(first, int) else T.int32(first))

    with IRBuilder(), T.prim_func(s_tir=True):
        T.func_name("tiles")
        column_tiles(window, 8, body, others)
    return found


@pytest.mark.parametrize("dilation", [8, 64, 512, 500])
def test_a_dilated_window_has_as_much_code_as_any(dilation: int) -> None:
    causal = Window(1024, 1024, 2, dilation=dilation, before=dilation)
    assert len(tiles_of(causal)) == (2 if dilation % 8 == 0 else 3)


def test_what_other_windows_read_tells_tiles_apart() -> None:
    window = Window(64, 72, 2, dilation=40, before=40)
    alike = tiles_of(window)
    assert len(tiles_of(window, (Window(60, 72, 2, dilation=40, before=40),))) > len(alike)


def test_edges_of_much_code_are_guarded() -> None:
    """The code of a wide window does not grow with its taps, but for those of a tile inside."""
    few, many = (tiles_of(Window(900, 900, taps, before=taps // 2)) for taps in (9, 400))
    assert not any(tile.guarded for tile in few)
    guarded = [tile for tile in many if tile.guarded]
    assert [tile.width for tile in guarded] == [8, 8, 4]
    assert len(many) == len(guarded) + 1


def test_bodies_without_guards_get_none() -> None:
    found: list[ColumnTile] = []
    with IRBuilder(), T.prim_func(s_tir=True):
        T.func_name("tiles")
        window = Window(900, 900, 400, before=200)
        column_tiles(window, 8, lambda _, tile: found.append(tile), guards=False)
    assert not any(tile.guarded for tile in found)


def test_bounds_are_counts_of_taps() -> None:
    draw = random.Random(0)
    for _ in range(2000):
        window = Window(
            draw.randint(1, 20),
            30,
            draw.randint(1, 9),
            draw.randint(1, 4),
            draw.randint(1, 7),
            draw.randint(-5, 30),
        )
        column = draw.randrange(30)
        places = [window.position(column, tap) for tap in range(window.kernel)]
        counts = sum(p < 0 for p in places), sum(p < window.size for p in places)
        assert window.bounds(column) == counts
        inside = [tap for tap in range(window.kernel) if window.inside(column, tap)]
        assert list(window.taps_inside(column)) == inside


@pytest.mark.parametrize("padding", [(0, 40, 0, 0), (1, 37, 2, 33), (0, 80, 0, 80)])
def test_convolutions(padding: tuple[int, ...]) -> None:
    weights = np.random.default_rng(0).standard_normal((20, 16, 3, 3)).astype("float32")

    def body(emit, x):
        return emit(relax.op.nn.conv2d(x, relax.const(weights), 1, padding, (1, 40)))

    check_scheduled(relax_module(body, (1, 16, 5, 131)))


@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("counts_pad", [False, True])
def test_means(ceil: bool, counts_pad: bool) -> None:
    """Windows of 30 columns that begin up to 29 columns in front, and end behind."""

    def body(emit, x):
        padding = (0, 29, 0, 29)
        pool = relax.op.nn.avg_pool2d(x, (2, 30), (1, 3), padding, (1, 1), ceil, counts_pad)
        return emit(relax.op.nn.relu(emit(pool)))

    check_scheduled(relax_module(body, (1, 20, 5, 41)))
