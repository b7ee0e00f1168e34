# SPDX-License-Identifier: Apache-2.0
"""Register tiles of a direct convolution whose sums Intel's AMX holds.

The left matrices are read where they lie in the feature map, or copied if parts of them do not
exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx.script import builder as T

from .....ops.tir_function import on_stack
from ...isa.amx import DOT2_BYTES, Step, address, split
from ...isa.bfloat16 import DOT2
from ...isa.emit import lanes_of
from .shape import ConvShape
from .tile_matmul import MatrixTile, TapRow

Expr = Any


@dataclass(frozen=True)
class _Sums:
    """The sums of a block of output channels, a vector for each column."""

    memory: Any
    block: int
    lanes: int

    def __getitem__(self, column: Expr) -> Expr:
        return self.memory[self.block, column, lanes_of(0, self.lanes)]


class AmxTile(MatrixTile):
    """A register tile of up to 32 columns."""

    @staticmethod
    def sources(conv: ConvShape) -> frozenset[str]:
        width, most = conv.tile.mr, conv.tile.nr
        widths = {width, conv.columns.out % width} - {0}
        counts = {most, sum(conv.result_blocks) % most} - {0}
        steps = (Step(split(w), b, conv.in_block) for w in widths for b in counts)
        return frozenset().union(*(step.sources for step in steps))

    def accumulators(self, width: int) -> Sequence[_Sums]:
        self._step(width).begin()
        memory = on_stack([self.b, width, self.conv.lanes])
        return [_Sums(memory, k, self.conv.lanes) for k in range(self.b)]

    def memory(self, width: int) -> Any:
        return on_stack([width, self.conv.in_block], DOT2)

    def store(self, registers: Sequence[_Sums], first: Expr, width: int) -> None:
        step, memory = self._step(width), registers[0].memory
        step.end([address(memory, place, "w") for place in step.sums()])
        super().store(registers, first, width)

    def _step(self, width: int) -> Step:
        """Return what a step of a tile of ``width`` columns multiplies."""
        return Step(split(width), self.b, self.conv.in_block)

    def direct(self, row: TapRow, tap: Expr) -> None:
        columns = self._step(row.tile.width).starts
        left = [address(self.buffers.image, row.place(0, column, tap)) for column in columns]
        self._multiply(row, tap, left, self.conv.columns.stride)

    def partial(self, row: TapRow, tap: int, columns: Sequence[int]) -> None:
        width = row.tile.width
        for column in range(width):
            place = [column, lanes_of(0, self.conv.in_block)]
            T.buffer_store(row.memory, row.pairs(column, tap, columns), place)
        left = [address(row.memory, [start, 0]) for start in self._step(width).starts]
        self._multiply(row, tap, left, 1)

    def _multiply(self, row: TapRow, tap: Expr, left: Sequence[Expr], stride: int) -> None:
        """Multiply left matrices, of which every ``stride``-th column is a row."""
        conv = self.conv
        right = [address(self.buffers.weights, row.weights(k, 0, tap)) for k in range(self.b)]
        left_bytes = stride * conv.in_block * DOT2_BYTES
        right_bytes = conv.columns.kernel * conv.lanes * DOT2_BYTES
        self._step(row.tile.width).multiply(left, left_bytes, right, right_bytes)
