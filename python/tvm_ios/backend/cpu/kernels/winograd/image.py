# SPDX-License-Identifier: Apache-2.0
"""Winograd's convolution of an image, which is folded on the way.

A unit is a row of tiles of the output, from the image to the result. The rows of squares that it
reads are folded into a ring on the worker's stack. The next unit finds those that it reads, too,
there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx.script import builder as T

from .....ops.tir_function import on_stack
from .....ops.window import Window
from ...core import Core
from ...isa.emit import bind, lanes_of
from ..conv.fold import Folding, folded
from ..conv.shape import Conv2d
from ..kernel import Phase, Weights
from ..layout import blocks
from ..plane import PlaneTiles
from .emitter import WinogradEmitter
from .model import WinogradTiling
from .products import Strips

Expr = Any


class ImageEmitter(WinogradEmitter):
    """The code of a convolution of a row-major image that folds.

    Parameters
    ----------
    conv : Conv2d
        The convolution, before it is folded.
    tiling : WinogradTiling
        How it is cut; fused.
    core : Core
        The core that runs the kernel.
    """

    def __init__(self, conv: Conv2d, tiling: WinogradTiling, core: Core) -> None:
        assert tiling.fused, "a unit begins with the image"
        super().__init__(folded(conv), tiling, core)
        assert self.strip <= self.tiles.columns, "every strip of a row but the last is full"
        self._image, self._folding = conv, Folding(conv, core.lanes)
        self._ring = 1 << (self.tiles.inputs - 1).bit_length()  # rows of squares

    def phases(self) -> tuple[Phase, ...]:
        units = self.conv.batch * self.tiles.rows
        return (Phase(units, self._emit_rows, weights=Weights(1, lambda _: 0)),)

    @property
    def plane(self) -> PlaneTiles:
        """The plane of the kernel, of which a unit is a tile."""
        rows, columns, batch = self._image.rows, self._image.columns, self.conv.batch
        outputs = self.tiles.outputs
        span = outputs - 1 + self.conv.rows.kernel
        return PlaneTiles(
            outer=batch,
            num_tiles=self.tiles.rows,
            width=outputs * columns.out,
            pixels=rows.out * columns.out,
            rows=Window(
                rows.size,
                self.tiles.rows,
                kernel=rows.stride * span,
                stride=rows.stride * outputs,
                before=rows.stride * self.conv.rows.before,
            ),
            row_pixels=columns.size,
            mixes=True,
            images=batch,
            blocks=(0, self.out_blocks),
        )

    def _emit_rows(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        """Emit a range of rows of tiles."""
        bound, transformed, products = self.bind(buffers), self.one_strip(), self.products()
        wide = self.conv.columns.size
        squares = on_stack((self.in_blocks, self._ring * wide, self.lanes))
        vector = lanes_of(0, self.lanes)

        def pixel(_image: Expr, block: Expr, y: Expr, x: Expr) -> Expr:
            return squares[block, T.bitwise_and(y, self._ring - 1) * wide + x, vector]

        with T.serial(begin, begin + extent) as t:
            row = bind(t % self.tiles.rows)
            self._fold(bound.image, squares, bind(t // self.tiles.rows), row, t == begin)
            before = bind(t * self.tiles.columns)
            with T.serial(blocks(self.tiles.columns, self.strip)) as strip:
                strips = Strips(strip, 1, True, self.tiles.columns, before)
                self.transform_strip(pixel, transformed, strips)
                self.emit_chunks(bound, transformed, products, strips)

    def _fold(self, source: Any, squares: Any, image: Expr, row: Expr, fresh: Expr) -> None:
        """Fold the rows of squares that a row of tiles reads, and the one before it does not."""
        rows, (high, step) = self.conv.rows, (self.tiles.inputs, self.tiles.outputs)
        top = bind(row * step - rows.before)
        known = bind(T.Select(T.Or(fresh, row == 0), 0, high - step))
        first = bind(T.max(top + known, 0))
        count = bind(T.max(T.min(top + high, rows.size) - first, 0))
        with T.serial(count) as i:
            y = bind(first + i)
            place = bind(T.bitwise_and(y, self._ring - 1) * self.conv.columns.size)

            def store(block: Expr, x: Expr, lanes: Expr, value: Expr) -> None:
                T.buffer_store(squares, value, [block, place + x, lanes])

            self._folding.emit(source, image, y, store)
