# SPDX-License-Identifier: Apache-2.0
"""Register tiles of a direct convolution whose sums Intel's AMX holds.

A step multiplies a block of input channels of one tap. Its left matrices are neighbouring columns
of the feature map, a row of channels each, where they lie; its right ones are the packed weights,
where they lie. Columns of which some are in the padding, and the last block of channels if it is
not full, are copied first, with zeros for what is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx.script import builder as T

from ....tir.amx import PAIR_BYTES, Step, address, split
from ....tir.bfloat16 import BOTH, FIRST, PAIR
from ....tir.emit import bind, lanes_of, loop, on_stack, shuffled, splat
from .conv2d_shape import ConvShape
from .conv2d_tile import ConvTile
from .layout import blocks
from .taps import ColumnTile, rows_inside

Expr = Any


def amx_sources(conv: ConvShape) -> frozenset[str]:
    """Return the LLVM IR of the functions that the tiles of a convolution call."""
    width, most = conv.tile.columns, conv.tile.blocks
    widths = {width, conv.columns.out % width} - {0}
    counts = {most, sum(conv.result_blocks) % most} - {0}
    steps = (Step(split(w), b, conv.in_block) for w in widths for b in counts)
    return frozenset().union(*(step.sources for step in steps))


@dataclass(frozen=True)
class _Sums:
    """The sums of a block of output channels, a vector for each column."""

    memory: Any
    block: int
    lanes: int

    def __getitem__(self, column: Expr) -> Expr:
        return self.memory[self.block, column, lanes_of(0, self.lanes)]


class AmxTile(ConvTile):
    """A register tile of up to 32 columns."""

    def accumulators(self, width: int) -> Sequence[_Sums]:
        self.step(width).begin()
        memory = on_stack([self.b, width, self.conv.lanes])
        return [_Sums(memory, k, self.conv.lanes) for k in range(self.b)]

    def store(self, registers: Sequence[_Sums], first: Expr, width: int) -> None:
        step, memory = self.step(width), registers[0].memory
        step.end([address(memory, place, "w") for place in step.sums()])
        super().store(registers, first, width)

    def step(self, width: int) -> Step:
        """Return what a step of a tile of ``width`` columns multiplies."""
        return Step(split(width), self.b, self.conv.in_block)

    def reduce(self, registers: Sequence[_Sums], first: Expr, tile: ColumnTile) -> None:
        conv = self.conv
        begin = bind(conv.columns.position(first, 0))
        ahead = self._ahead(first)
        copied = on_stack([tile.width, conv.in_block], PAIR)

        def channel_block(index: Expr, channels: Sequence[int]) -> None:
            def row_of_taps(r: Expr, row: Expr) -> None:
                if ahead:
                    ahead.step(index * conv.rows.kernel + r)
                _Row(self, tile, index, r, row, begin, channels, copied).emit()

            rows_inside(conv.rows, self.row, row_of_taps)

        whole, rest = [BOTH] * conv.in_block, self._last_channels()
        loop(blocks(conv.steps, conv.in_block) - bool(rest), lambda i: channel_block(i, whole))
        if rest:
            channel_block((conv.steps - 1) // conv.in_block, rest)

    def _last_channels(self) -> list[int]:
        """Return the bits of each pair of the last block that are channels; none if all are."""
        conv = self.conv
        steps = conv.steps % conv.in_block
        if not steps and not conv.lone:
            return []
        steps = steps or conv.in_block
        pairs = [BOTH] * (steps - 1) + [FIRST if conv.lone else BOTH]
        return pairs + [0] * (conv.in_block - steps)


@dataclass(frozen=True)
class _Row:
    """A row of taps of a block of input channels.

    Attributes
    ----------
    at : AmxTile
        The register tile.
    tile : ColumnTile
        Its columns.
    index, r, row : Expr
        The block, the row of taps, and the row of the feature map.
    begin : Expr
        The column that the first tap of the first column reads.
    channels : sequence of int
        The bits of each pair of the block that are channels.
    copied : Buffer
        Memory for the left matrices that are copied.
    """

    at: AmxTile
    tile: ColumnTile
    index: Expr
    r: Expr
    row: Expr
    begin: Expr
    channels: Sequence[int]
    copied: Any

    def emit(self) -> None:
        """Emit the products of all taps."""
        kernel = self.at.conv.columns.kernel
        readers: dict[int, list[int]] = {tap: [] for tap in range(kernel)}
        for columns, taps in self.tile.runs(range(kernel)):
            for tap in taps:
                readers[tap].extend(columns)
        everywhere = all(len(columns) == self.tile.width for columns in readers.values())
        if everywhere and self._whole:
            loop(kernel, self._direct)
            return
        for tap, inside in readers.items():
            if len(inside) == self.tile.width and self._whole:
                self._direct(tap)
            elif inside:
                self._copy(tap, inside)

    @property
    def _whole(self) -> bool:
        return all(bits == BOTH for bits in self.channels)

    def _direct(self, tap: Expr) -> None:
        """Emit the products of a tap that reads the feature map where it lies."""
        window, pairs = self.at.conv.columns, self.at.conv.in_block
        columns = [window.distance(column, tap) for column in self.at.step(self.tile.width).starts]
        left = [address(self.at.buffers.image, self._place(0, column)) for column in columns]
        self._multiply(tap, left, window.stride * pairs * PAIR_BYTES)

    def _copy(self, tap: int, columns: Sequence[int]) -> None:
        """Emit the products of a tap that only some columns read, or only some channels."""
        window, pairs = self.at.conv.columns, self.at.conv.in_block
        vector = lanes_of(0, pairs)
        for column in range(self.tile.width):
            value = splat(T.int32(0), pairs)
            if column in columns:
                place = self._place(vector, window.distance(column, tap))
                value = self._masked(self.at.buffers.image[tuple(place)])
            T.buffer_store(self.copied, value, [column, vector])
        left = [address(self.copied, [row, 0]) for row in self.at.step(self.tile.width).starts]
        self._multiply(tap, left, pairs * PAIR_BYTES)

    def _masked(self, value: Expr) -> Expr:
        """Return the pairs of a block with zero for channels that do not exist."""
        if self._whole:
            return value
        bits = shuffled([T.int32(number) for number in self.channels], range(len(self.channels)))
        return T.bitwise_and(value, bits)

    def _place(self, c: Expr, distance: Expr) -> list[Expr]:
        return self.at.place(self.index, c, self.row, self.begin + distance)

    def _multiply(self, tap: Expr, left: Sequence[Expr], left_stride: int) -> None:
        at, conv = self.at, self.at.conv
        places = ([at.block + k, self.index, self.r, 0, tap, 0] for k in range(at.b))
        right = [address(at.buffers.weights, place) for place in places]
        right_stride = conv.columns.kernel * conv.lanes * PAIR_BYTES
        at.step(self.tile.width).multiply(left, left_stride, right, right_stride)
