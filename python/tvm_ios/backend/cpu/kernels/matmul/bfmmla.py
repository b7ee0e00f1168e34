# SPDX-License-Identifier: Apache-2.0
"""Register tiles of a matrix product whose sums AArch64's ``bfmmla`` adds up.

Vectors of sums are those of a convolution, with rows for columns; see
:mod:`~tvm_ios.backend.cpu.kernels.conv.bfmmla`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .....ops.tir_function import tile_scope
from ...isa import bfmmla
from ...isa.emit import Accumulators, lanes_of, unroll, zeros
from ..layout import blocks
from .shape import MatmulShape
from .tile import Columns, MatmulTile

Expr = Any


class BfmmlaTile(MatmulTile):
    """A register tile, a step of which multiplies two pairs of the depth."""

    @staticmethod
    def sources(shape: MatmulShape) -> frozenset[str]:
        return bfmmla.sources()

    def emit(self, row: Expr, height: int, columns: Columns) -> None:
        lanes, even = self.lanes, 2 * blocks(height, 2)
        with tile_scope():
            sums = [Accumulators(even, lanes, zeros(lanes)) for _ in range(columns.count)]
            self._reduce(
                lambda k: self._multiply(sums, row, k, height, columns), columns, bfmmla.PAIRS
            )
            for i, block in enumerate(sums):
                bfmmla.transpose(block, even)

                def finish(j: Expr, i: int = i, block: Accumulators = block) -> None:
                    self._store(block.first(j, columns.width), row + j, i, columns)

                unroll(0, height, finish)

    def _multiply(
        self, sums: Sequence[Accumulators], row: Expr, k: Expr, height: int, columns: Columns
    ) -> None:
        """Emit the step of the depth that begins with pair ``k``."""
        left, right = self.buffers[:2]
        matrix = self.matrix if self.matmul.left_batch else 0
        pairs = [left[matrix, row + j, lanes_of(k, bfmmla.PAIRS)] for j in range(height)]
        vector = lanes_of(0, self.lanes)

        def weights(i: int, k: Expr) -> Expr:
            return right[columns.first + i, k, vector]

        factors = [(weights(i, k), weights(i, k + 1)) for i in range(columns.count)]
        bfmmla.multiply(
            sums, [bfmmla.rows(*pairs[j : j + 2]) for j in range(0, height, 2)], factors
        )
