# SPDX-License-Identifier: Apache-2.0
"""Register tiles of a direct convolution whose sums AArch64's ``bfmmla`` adds up.

While they are added up, vector ``j`` of a block of four output channels has the sums of columns
``j`` and ``j + 1`` for its first two channels, and vector ``j + 1`` those for the others, where
``j`` is even. At the end, each vector gets the sums of one column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...isa import bfmmla
from ...isa.emit import Accumulators, lanes_of, zeros
from ..layout import blocks
from .shape import ConvShape
from .tile_matmul import MatrixTile, TapRow

Expr = Any


class BfmmlaTile(MatrixTile):
    """A register tile, a step of which multiplies the two pairs of a block of input channels."""

    @staticmethod
    def sources(conv: ConvShape) -> frozenset[str]:
        return bfmmla.sources()

    def accumulators(self, width: int) -> Sequence[Accumulators]:
        lanes = self.conv.lanes
        return [Accumulators(2 * blocks(width, 2), lanes, zeros(lanes)) for _ in range(self.b)]

    def store(self, registers: Sequence[Accumulators], first: Expr, width: int) -> None:
        for sums in registers:
            bfmmla.transpose(sums, 2 * blocks(width, 2))
        super().store(registers, first, width)

    def direct(self, row: TapRow, tap: Expr) -> None:
        width, image = row.tile.width, self.buffers.image

        def read(column: int, pairs: int) -> Expr:
            return image[tuple(row.place(lanes_of(0, pairs), column, tap))]

        def rows(column: int) -> Expr:
            if column + 1 == width:
                return bfmmla.rows(read(column, bfmmla.PAIRS))
            if self.conv.columns.stride == 1:  # they lie side by side
                return read(column, 2 * bfmmla.PAIRS)
            return bfmmla.rows(*(read(c, bfmmla.PAIRS) for c in (column, column + 1)))

        self._multiply(row, tap, [rows(column) for column in range(0, width, 2)])

    def partial(self, row: TapRow, tap: int, columns: Sequence[int]) -> None:
        pairs = [row.pairs(column, tap, columns) for column in range(row.tile.width)]
        self._multiply(row, tap, [bfmmla.rows(*pairs[j : j + 2]) for j in range(0, len(pairs), 2)])

    def _multiply(self, row: TapRow, tap: Expr, left: Sequence[Expr]) -> None:
        """Multiply what pairs of columns read by the weights of all blocks."""
        vector = lanes_of(0, self.conv.lanes)

        def weights(k: int, c: int) -> Expr:
            return self.buffers.weights[(*row.weights(k, c, tap)[:-1], vector)]

        bfmmla.multiply(row.sums, left, [(weights(k, 0), weights(k, 1)) for k in range(self.b)])
