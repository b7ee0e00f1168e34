# SPDX-License-Identifier: Apache-2.0
"""One register tile of a direct convolution: its sums, and what is prefetched meanwhile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from .....ops.tir_function import on_stack, tile_scope
from .....sizes.arithmetic import ceil_div
from .....sizes.size import hint_of
from ...isa.bfloat16 import FIRST
from ...isa.emit import bind, lanes_of, loop, select, splat, unroll, zeros
from ...isa.epilogue import apply_epilogue
from ...isa.storage import store
from ..layout import blocks
from ..open_row import guarded_places
from ..prefetch import NEAR, Ahead, fetch_near, per_line
from ..taps import ColumnTile, add_taps, each_group, readers, rows_inside
from .shape import ConvShape

Expr = Any

_LARGEST_BYTE = 255

Sums = Any
"""The sums of a block of output channels, a vector for each column: in registers
(:class:`~tvm_ios.backend.cpu.isa.emit.Accumulators`), or where a subclass of the tile has them."""


@dataclass(frozen=True)
class ConvBuffers:
    """The tensors of a convolution."""

    image: Any
    weights: Any
    arguments: Sequence[Any]
    results: Sequence[Any]
    lowest: Any = None


@dataclass(frozen=True)
class ConvTile:
    """The microkernel of a register tile: ``b`` blocks from ``block``, columns of row ``row``.

    While it is computed, it prefetches the weights of the chunk that begins with block
    ``next_block``, or after the last chunk those that begin at element ``prefetch_target``, if it
    is known.
    """

    conv: ConvShape
    buffers: ConvBuffers
    image: Expr
    block: Expr
    b: int
    row: Expr
    next_block: Expr
    prefetch_target: Expr | None = None

    @staticmethod
    def sources(conv: ConvShape) -> frozenset[str]:
        """Return the LLVM IR of the functions that the tiles of a convolution call."""
        return conv.multiplication.sources

    def emit(self, first: Expr, tile: ColumnTile) -> None:
        """Emit the columns of ``tile`` from column ``first``: the reduction, then the stores."""
        with tile_scope():
            registers = self.accumulators(tile.width)
            if self.buffers.lowest is not None:
                self._add_lowest(registers, tile)
            self.reduce(registers, first, tile)
            self.store(registers, first, tile.width)

    def accumulators(self, width: int) -> Sequence[Sums]:
        """Allocate the sums of each block, which are zero."""
        new = self.conv.multiplication.accumulators
        return [new(width, self.conv.lanes) for _ in range(self.b)]

    def _add_lowest(self, registers: Sequence[Sums], tile: ColumnTile) -> None:
        """Add what the lowest value of the feature map adds at the taps inside of it."""
        conv, vector = self.conv, lanes_of(0, self.conv.lanes)
        kernel = range(conv.columns.kernel)

        def row_of_taps(r: Expr, _row: Expr) -> None:
            for columns, inside in tile.runs(kernel):
                taps = [conv.columns.kernel] if inside == kernel else inside  # their sum is last
                for k, tap in product(range(self.b), taps):
                    value = T.Bind(self.buffers.lowest[self.block + k, r, tap, vector])
                    for column in columns:
                        registers[k][column] = registers[k][column] + value

        rows_inside(conv.rows, self.row, row_of_taps)

    def reduce(self, registers: Sequence[Sums], first: Expr, tile: ColumnTile) -> None:
        """Emit the sums over input channels and taps.

        Parameters
        ----------
        registers : sequence of Sums
            The sums, one set per block of output channels.
        first : Expr
            The first column.
        tile : ColumnTile
            The columns and how they read the input.
        """
        conv = self.conv
        begin = bind(conv.columns.position(first, 0))
        ahead = self._ahead(first)
        copied: Any = self._copied(tile) if tile.guarded else None

        def channel_block(index: Expr) -> None:
            channels = conv.in_block
            if conv.steps % conv.in_block:
                left = conv.steps - index * conv.in_block
                channels = left if isinstance(left, int) else bind(T.min(conv.in_block, left))

            def row_of_taps(r: Expr, row: Expr) -> None:
                if ahead:
                    ahead.step(index * conv.rows.kernel + r)
                if tile.guarded:
                    self._copy_inputs(copied, index, row, begin)
                else:
                    self._fetch_inputs(index + 1, row, begin, tile)

                def group(taps: range, left: Expr) -> None:
                    loop(channels, partial(step, r, row, taps, left))

                each_group(conv.core, conv.columns, tile, group)

            def step(r: Expr, row: Expr, taps: range, left: Expr, c: Expr) -> None:
                start = left * conv.columns.dilation

                def load(distance: int) -> Expr:
                    if tile.guarded:
                        return splat(copied[start + distance, c], conv.lanes)
                    return self._input(index, c, row, begin + start + distance)

                add_taps(
                    conv.columns,
                    tile,
                    taps,
                    registers,
                    load,
                    lambda k, tap: self._weight(k, index, r, c, left + tap),
                    conv.multiplication.multiply_add,
                )
                self._fetch_weights(index, r, c, [left + tap for tap in taps])

            rows_inside(conv.rows, self.row, row_of_taps)

        loop(blocks(conv.steps, conv.in_block), channel_block)

    def _copied(self, tile: ColumnTile) -> Any:
        """Allocate memory for what the columns of a tile read of a row of one block of channels."""
        window = self.conv.columns
        read = window.distance(tile.width - 1, window.kernel - 1) + 1
        channels = min(self.conv.in_block, self.conv.steps)
        return on_stack((read, channels), str(self.buffers.image.dtype))

    def _copy_inputs(self, copied: Any, index: Expr, row: Expr, begin: Expr) -> None:
        """Copy what a tile reads of a row, with what stands for zeros in the padding."""
        conv = self.conv
        count, channels = map(int, copied.shape)
        vector = lanes_of(0, channels)
        padding = self._padding(copied.dtype, channels)

        def position(distance: Expr) -> None:
            inside, column = guarded_places(conv.columns, begin, distance)
            with T.If(inside):
                with T.Then():
                    place = self.place(index, 0, row, column)
                    if conv.source.block:
                        place[-1] = vector
                    value = self.buffers.image[tuple(place)]
                    T.buffer_store(copied, value, [distance, vector])
                with T.Else():
                    T.buffer_store(copied, padding, [distance, vector])

        loop(count, position)

    def _padding(self, dtype: str, channels: int) -> Expr:
        """Return zeros, as a feature map holds them; of bytes there are four in each element."""
        conv = self.conv
        if not conv.padding:
            return zeros(channels)
        assert 0 < conv.padding <= _LARGEST_BYTE, "zero is on the grid"
        word = int.from_bytes(bytes([conv.padding] * 4), "little", signed=True)
        return splat(tirx.const(word, dtype), channels)

    def _ahead(self, first: Expr) -> Ahead | None:
        """Return this tile's share of the next chunk's weights, None if there is no gain."""
        conv, vector = self.conv, self.conv.vector
        steps = blocks(conv.steps, conv.in_block) * conv.rows.kernel
        per_row = ceil_div(conv.columns.out, conv.tile.mr)
        num_tiles = hint_of(conv.rows.out * per_row)
        block = math.prod(conv.weights_shape[1:-1])
        last = self.prefetch_target is None and conv.chunks == 1
        if last or num_tiles == 1 or not conv.far_weights:
            return None
        share = blocks(conv.tile.nr * block, num_tiles * steps)
        tile = self.row * per_row + first // conv.tile.mr
        if conv.conv.is_open:
            tile = T.min(tile, num_tiles)  # what is behind the chunk is not needed yet
        begin = self.next_block * (block * vector)
        if self.prefetch_target is not None:
            begin = T.Select(self.next_block == self.block, self.prefetch_target, begin)
        begin = begin + tile * (steps * share * vector)
        return Ahead(self.buffers.weights, bind(begin), share, vector)

    def _fetch_weights(self, index: Expr, r: Expr, c: Expr, taps: Sequence[Expr]) -> None:
        """Prefetch the weights of a later step into L1, where they do not stay by themselves.

        The weights of a block follow each other in the order in which they are read.
        """
        conv = self.conv
        if conv.far_weights:
            for k, tap in product(range(self.b), taps):
                later = [self.block + k, index, r, c, tap, NEAR * conv.lanes]
                fetch_near(self.buffers.weights, later)

    def _fetch_inputs(self, index: Expr, row: Expr, begin: Expr, tile: ColumnTile) -> None:
        """Prefetch what is read of a row of block ``index`` of the input channels into L1.

        In a row-major input the processor follows the rows.
        """
        conv = self.conv
        block = conv.in_block
        if conv.source.block and conv.steps > block:
            runs = tile.runs(range(conv.columns.kernel))
            for distance, _ in readers(conv.columns, runs)[:: per_line(block)]:
                fetch_near(self.buffers.image, self.place(index, 0, row, begin + distance))

    def _weight(self, k: int, index: Expr, r: Expr, c: Expr, tap: Expr) -> Expr:
        """Return the weights of block ``k`` of this tile for step ``c`` of block ``index``."""
        vector = lanes_of(0, self.conv.vector)
        return self.buffers.weights[self.block + k, index, r, c, tap, vector]

    def _input(self, index: Expr, c: Expr, row: Expr, column: Expr) -> Expr:
        """Return the input of step ``c`` of block ``index`` of this group, in all lanes."""
        conv = self.conv
        value = self.buffers.image[tuple(self.place(index, c, row, column))]
        if conv.lone:  # what lies beside the last channel is undefined
            last = index * conv.in_block + c == conv.steps - 1
            value = T.bitwise_and(value, T.Select(last, T.int32(FIRST), T.int32(-1)))
        return splat(value, conv.lanes)

    def place(self, index: Expr, c: Expr, row: Expr, column: Expr) -> list[Expr]:
        """Return where the input of step ``c`` of block ``index`` of this group lies."""
        conv = self.conv
        if conv.conv.groups > 1:
            group = self.block // conv.group_blocks
            index = group * (conv.steps // conv.in_block) + index
        if conv.source.block:
            return [self.image, index, row * conv.columns.size + column, c]
        if conv.flat and conv.conv.is_open:
            return [self.image, index, column]  # see :meth:`ConvShape.operands`
        if conv.flat:
            width = conv.conv.columns.size
            return [self.image, index, column // width, column % width]
        return [self.image, index, row, column]

    def store(self, registers: Sequence[Sums], first: Expr, width: int) -> None:
        """Apply the epilogue and write each block to its result.

        Parameters
        ----------
        registers : sequence of Sums
            The sums, one set per block of output channels.
        first : Expr
            The first column.
        width : int
            Number of columns.
        """

        def block(k: int, sums: Sums) -> None:
            def write(result: int, local: Expr) -> None:
                unroll(0, width, lambda j: self._write(sums[j], first + j, k, result, local))

            counts = self.conv.result_blocks
            select(
                self.block + k,
                [(n, partial(write, i)) for i, n in enumerate(counts)],
            )

        for k, sums in enumerate(registers):
            block(k, sums)

    def _write(self, value: Expr, column: Expr, k: int, result: int, local: Expr) -> None:
        """Write one vector of block ``k``, which is block ``local`` of ``result``."""
        self.finish(value, self.row * self.conv.columns.out + column, k, result, local)

    def finish(self, value: Expr, pixel: Expr, k: int, result: int, local: Expr) -> None:
        """Apply the epilogue to the sums of a pixel and write them."""
        lanes, epilogue = self.conv.lanes, self.conv.conv.epilogue
        vector = lanes_of(0, lanes)
        value = self.conv.multiplication.result(value)

        def load(a: int) -> Expr:
            if epilogue.arguments[a] == "channel":
                return self.buffers.arguments[a][0, self.block + k, 0, vector]
            return self.buffers.arguments[a][self.image, self.block + k, pixel, vector]

        place = [self.image, local, pixel, vector]
        store(self.buffers.results[result], apply_epilogue(epilogue, value, load, lanes), place)
