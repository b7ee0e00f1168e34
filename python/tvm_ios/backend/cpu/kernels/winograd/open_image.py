# SPDX-License-Identifier: Apache-2.0
"""Winograd's convolution of an image of open size, which is folded on the way.

A unit is a strip of a row of tiles, from the image to the result. Its squares of pixels are folded
into memory on the worker's stack, which is of one size for all images. Squares that neighbouring
strips read, too, are folded again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx.script import builder as T

from .....ops.tir_function import on_stack
from .....sizes.arithmetic import ceil_div
from ...core import Core
from ...isa.emit import bind, lanes_of
from ..conv.fold import Folding, folded
from ..conv.shape import Conv2d
from ..kernel import Phase, Weights, phase
from .emitter import WinogradEmitter
from .model import WinogradTiling
from .products import Strips

Expr = Any


class OpenImageEmitter(WinogradEmitter):
    """The code of a convolution of a row-major image of open size that folds.

    Parameters
    ----------
    conv : Conv2d
        The convolution, before it is folded.
    tiling : WinogradTiling
        How it is cut; fused.
    core : Core
        The core that runs the kernel.
    """

    plane = None  # a unit is a part of a row

    def __init__(self, conv: Conv2d, tiling: WinogradTiling, core: Core) -> None:
        assert tiling.fused, "a unit begins with the image"
        super().__init__(folded(conv), tiling, core)
        self._folding = Folding(conv, core.lanes)
        self._per_row = ceil_div(self.tiles.columns, self.strip)
        self._wide = self.tiles.inputs_across + (self.strip - 1) * self.tiles.outputs_across

    def phases(self) -> tuple[Phase, ...]:
        units = self.conv.batch * self.tiles.rows * self._per_row
        return (phase(units, self._emit_strips, weights=Weights(1, lambda _: 0)),)

    def _emit_strips(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        """Emit a range of strips."""
        bound, transformed, products = self.bind(buffers), self.one_strip(), self.products()
        high, wide = self.tiles.inputs, self._wide
        squares = on_stack((self.in_blocks, high * wide, self.lanes))
        vector, tiles = lanes_of(0, self.lanes), self.tiles
        with T.serial(begin, begin + extent) as t:
            row = bind(T.floordiv(t, self._per_row))
            first = bind((t - row * self._per_row) * self.strip)
            image = bind(T.floordiv(row, tiles.rows))
            before = bind(row * tiles.columns + first)
            top = bind(self.conv.rows.position((row - image * tiles.rows) * tiles.outputs, 0))
            left = bind(self.conv.columns.position(first * tiles.outputs_across, 0))

            def place(y: Expr, x: Expr) -> Expr:
                return (y - top) * wide + (x - left)

            def pixel(_image: Expr, block: Expr, y: Expr, x: Expr) -> Expr:
                # What lies beyond the image is not used, wherever it is read.
                inside = T.max(place(y, x), 0)
                return squares[block, inside, vector]

            self._fold(bound.image, squares, image, (top, left), place)
            count = bind(T.min(self.strip, tiles.columns - first))
            strips = Strips(0, 1, kept=True, num_tiles=count, before=before)
            self.transform_strip(pixel, transformed, strips)
            self.emit_chunks(bound, transformed, products, strips)

    def _fold(
        self, source: Any, squares: Any, image: Expr, corner: tuple[Expr, Expr], place: Any
    ) -> None:
        """Fold the squares that a strip reads, as far as there are such."""
        (top, left), rows, columns = corner, self.conv.rows, self.conv.columns
        first = bind(T.max(top, 0))
        count = bind(T.max(T.min(top + self.tiles.inputs, rows.size) - first, 0))
        begin = bind(T.max(left, 0))
        read = bind(T.max(T.min(left + self._wide, columns.size) - begin, 0))
        with T.serial(count) as i:
            y = bind(first + i)

            def store(block: Expr, x: Expr, lanes: Expr, value: Expr) -> None:
                T.buffer_store(squares, value, [block, place(y, x), lanes])

            self._folding.emit_some(source, image, y, (begin, read), store)
