# SPDX-License-Identifier: Apache-2.0
"""Register tiles of a matrix product whose sums Intel's AMX holds.

Both sides are read where they lie: a left matrix is some rows of the left side, and a right one a
part of a block of packed weights.
"""

from __future__ import annotations

from typing import Any

from .....ops.tir_function import on_stack, tile_scope
from ...isa.amx import COLUMNS, DOT2_BYTES, Step, address, split
from ...isa.emit import lanes_of, unroll
from .shape import MatmulShape
from .tile import Columns, MatmulTile

Expr = Any


class AmxTile(MatmulTile):
    """A register tile of up to 32 rows."""

    @staticmethod
    def sources(shape: MatmulShape) -> frozenset[str]:
        heights = set(shape.heights)
        if not shape.open_rows:
            heights = {shape.tile.mr, shape.matmul.rows % shape.tile.mr} - {0}
        counts = {shape.tile.nr, shape.rest_blocks, 1} - {0}
        steps = (Step(split(h), b, shape.tile_matmul_pairs) for h in heights for b in counts)
        return frozenset().union(*(step.sources for step in steps))

    def emit(self, row: Expr, height: int, columns: Columns) -> None:
        step = Step(split(height), columns.count, self.shape.tile_matmul_pairs)
        with tile_scope():
            sums = on_stack([columns.count, height, COLUMNS])
            step.begin()
            self._reduce(lambda k: self._multiply(step, row, k, columns), columns, step.pairs)
            step.end([address(sums, place, "w") for place in step.sums()])
            vector = lanes_of(0, columns.width)

            def finish(i: Expr, j: Expr) -> None:
                self._store(sums[i, j, vector], row + j, i, columns)

            unroll(0, height, lambda j: unroll(0, columns.count, lambda i: finish(i, j)))

    def _multiply(self, step: Step, row: Expr, k: Expr, columns: Columns) -> None:
        """Emit the step of the depth that begins with pair ``k``."""
        left, right = self.buffers[:2]
        matrix = self.matrix if self.matmul.left_batch else 0
        rows = [address(left, [matrix, row + start, k]) for start in step.starts]
        blocks = [address(right, [columns.first + i, k, 0]) for i in range(columns.count)]
        step.multiply(rows, self.matmul.depth * DOT2_BYTES, blocks, COLUMNS * DOT2_BYTES)
