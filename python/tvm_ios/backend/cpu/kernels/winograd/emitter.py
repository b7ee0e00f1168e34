# SPDX-License-Identifier: Apache-2.0
"""The steps that the kernels of Winograd's algorithm share, from strips of tiles to outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx.script import builder as T

from .....ops.tir_function import on_stack
from ...isa.emit import bind, lanes_of, select
from ..open_row import smallest_above, widths_below
from .products import Buffers, PrefetchTarget, Products, Strips
from .shape import WinogradShape
from .tiles import Pixel

Expr = Any


class WinogradEmitter(WinogradShape):
    """The steps of a kernel."""

    def bind(self, buffers: Sequence[Any]) -> Buffers:
        """Return the tensors of a kernel by their use."""
        count = 2 + len(self.conv.epilogue.arguments)
        return Buffers(buffers[0], buffers[1], buffers[2:count], buffers[count])

    def one_strip(self) -> Any:
        """Return memory of a worker for the transformed inputs of one strip."""
        return on_stack(self.transformed(1))

    def products(self) -> Any:
        """Return memory of a worker for the products of the strips of a group."""
        tiles = self.tiling.group * self.strip
        return on_stack((self.chunk, tiles, self.tiles.points, self.lanes))

    def transform_strip(self, pixel: Pixel, transformed: Any, strips: Strips) -> None:
        """Transform the inputs of a strip to the memory of one."""
        first = bind(strips.first * self.strip)
        count = bind(T.min(self.strip, strips.num_tiles - first))
        known = isinstance(strips.num_tiles, int)
        slots = count if known else self.filled(count)
        with T.serial(self.in_blocks) as block, T.serial(slots) as i:
            tile = i if known else T.min(i, count - 1)
            self.transform(pixel, transformed, 0, block, bind(strips.before + first + tile), i)

    def filled(self, count: Expr) -> Expr:
        """Return how many tiles of a strip are multiplied, of which ``count`` exist.

        The others are copies of the last one: numbers that are left in memory may be slow.
        """
        return bind(smallest_above(widths_below(self.strip), count))

    def transform(
        self, pixel: Pixel, transformed: Any, slot: Expr, block: Expr, tile: Expr, i: Expr
    ) -> None:
        """Transform a tile's inputs to tile ``i`` of the strip in ``slot``."""
        position, vector = bind(block * self.strip + i), lanes_of(0, self.lanes)

        def store(point: Expr, value: Expr) -> None:
            T.buffer_store(transformed, value, [slot, point, position, vector])

        self.tiles.transform_in(pixel, block, tile, store)

    def emit_chunks(
        self, buffers: Buffers, transformed: Any, products: Any, strips: Strips
    ) -> None:
        """Emit the outputs of a strip, chunk after chunk."""
        with T.serial(self.chunks) as chunk:
            self.emit_chunk(buffers, transformed, products, strips, chunk, PrefetchTarget(0))

    def emit_chunk(
        self,
        buffers: Buffers,
        transformed: Any,
        products: Any,
        strips: Strips,
        chunk: Expr,
        prefetch_target: PrefetchTarget,
    ) -> None:
        """Emit the outputs of some strips and one chunk; the last chunk may be narrower."""
        full, rest = divmod(self.out_blocks, self.chunk)

        def part(width: int, first: Expr) -> None:
            strips_of_chunk = Products(
                self, buffers, transformed, products, strips, bind(first), width, prefetch_target
            )
            strips_of_chunk.multiply()
            strips_of_chunk.transform()

        select(
            chunk,
            [
                (full, lambda i: part(self.chunk, i * self.chunk)),
                (1 if rest else 0, lambda i: part(rest, full * self.chunk)),
            ],
        )
