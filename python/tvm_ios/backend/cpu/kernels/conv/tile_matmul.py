# SPDX-License-Identifier: Apache-2.0
"""Register tiles of a direct convolution, a step of which multiplies matrices of bfloat16.

A step multiplies a block of input channels of one tap. Its left matrix is neighbouring columns of
the feature map, a row of channels each; its right one is the packed weights, where they lie. What a
left matrix has of columns in the padding, and of channels behind the last one, is zero.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx.script import builder as T

from ...isa.bfloat16 import BOTH, FIRST
from ...isa.emit import bind, lanes_of, loop, shuffled, splat
from ..layout import blocks
from ..taps import ColumnTile, rows_inside
from .tile import ConvTile, Sums

Expr = Any


class MatrixTile(ConvTile):
    """A register tile whose sums a processor's instructions for matrices add up."""

    @abstractmethod
    def direct(self, row: TapRow, tap: Expr) -> None:
        """Emit the products of a tap of which all columns read whole blocks of channels."""

    @abstractmethod
    def partial(self, row: TapRow, tap: int, columns: Sequence[int]) -> None:
        """Emit the products of a tap that only some columns read, or only some channels."""

    def memory(self, width: int) -> Any:
        """Allocate what the reduction of a tile of ``width`` columns needs beside its sums."""

    def reduce(self, registers: Sequence[Sums], first: Expr, tile: ColumnTile) -> None:
        conv = self.conv
        begin = bind(conv.columns.position(first, 0))
        ahead, memory = self._ahead(first), self.memory(tile.width)

        def channel_block(index: Expr, channels: Sequence[int]) -> None:
            def row_of_taps(r: Expr, row: Expr) -> None:
                if ahead:
                    ahead.step(index * conv.rows.kernel + r)
                TapRow(self, registers, tile, index, r, row, begin, channels, memory).emit()

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
class TapRow:
    """A row of taps of a block of input channels.

    Attributes
    ----------
    at : MatrixTile
        The register tile.
    sums : sequence of Sums
        Its sums.
    tile : ColumnTile
        Its columns.
    index, r, row : Expr
        The block, the row of taps, and the row of the feature map.
    begin : Expr
        The column that the first tap of the first column reads.
    channels : sequence of int
        The bits of each pair of the block that are channels.
    memory : object
        What the tile allocated.
    """

    at: MatrixTile
    sums: Sequence[Sums]
    tile: ColumnTile
    index: Expr
    r: Expr
    row: Expr
    begin: Expr
    channels: Sequence[int]
    memory: Any

    def emit(self) -> None:
        """Emit the products of all taps."""
        kernel, width = self.at.conv.columns.kernel, self.tile.width
        readers: dict[int, list[int]] = {tap: [] for tap in range(kernel)}
        for columns, taps in self.tile.runs(range(kernel)):
            for tap in taps:
                readers[tap].extend(columns)
        if self._whole and all(len(inside) == width for inside in readers.values()):
            loop(kernel, lambda tap: self.at.direct(self, tap))
            return
        for tap, inside in readers.items():
            if self._whole and len(inside) == width:
                self.at.direct(self, tap)
            elif inside:
                self.at.partial(self, tap, inside)

    @property
    def _whole(self) -> bool:
        return all(bits == BOTH for bits in self.channels)

    def place(self, c: Expr, column: int, tap: Expr) -> list[Expr]:
        """Return where pair ``c`` of what ``column`` of the tile reads through ``tap`` lies."""
        distance = self.at.conv.columns.distance(column, tap)
        return self.at.place(self.index, c, self.row, self.begin + distance)

    def pairs(self, column: int, tap: int, inside: Sequence[int]) -> Expr:
        """Return what a column reads through a tap, with zero for what does not exist."""
        count = len(self.channels)
        if column not in inside:
            return splat(T.int32(0), count)
        value = self.at.buffers.image[tuple(self.place(lanes_of(0, count), column, tap))]
        if self._whole:
            return value
        bits = shuffled([T.int32(number) for number in self.channels], range(count))
        return T.bitwise_and(value, bits)

    def weights(self, k: int, c: Expr, tap: Expr) -> list[Expr]:
        """Return where the weights of pair ``c`` of block ``k`` of the tile lie."""
        return [self.at.block + k, self.index, self.r, c, tap, 0]
