# SPDX-License-Identifier: Apache-2.0
"""Register tiles of a matrix product whose sums Intel's AMX holds.

Both sides are read where they lie: a left matrix is some rows of the left side, and a right one a
part of a block of packed weights.
"""

from __future__ import annotations

from typing import Any

from ....tir.amx import COLUMNS, PAIR_BYTES, Step, address, split
from ....tir.emit import lanes_of, loop, on_stack, tile_scope, unroll
from .matmul_shape import MatmulShape
from .matmul_tile import Columns, MatmulTile

Expr = Any


def amx_sources(shape: MatmulShape) -> frozenset[str]:
    """Return the LLVM IR of the functions that the tiles of a product call."""
    height = shape.tile.columns
    heights = {height, shape.matmul.rows % height} - {0}
    counts = {shape.tile.blocks, shape.rest_blocks, 1} - {0}
    steps = (Step(split(h), b, shape.amx_pairs) for h in heights for b in counts)
    return frozenset().union(*(step.sources for step in steps))


class AmxTile(MatmulTile):
    """A register tile of up to 32 rows."""

    def emit(self, row: Expr, height: int, columns: Columns) -> None:
        """Emit ``height`` rows from ``row`` for these columns."""
        step = Step(split(height), columns.count, self.shape.amx_pairs)
        with tile_scope():
            sums = on_stack([columns.count, height, COLUMNS])
            step.begin()
            self._multiply(step, row, columns)
            step.end([address(sums, place, "w") for place in step.sums()])
            vector = lanes_of(0, columns.width)

            def finish(i: Expr, j: Expr) -> None:
                self._store(sums[i, j, vector], row + j, i, columns)

            unroll(0, height, lambda j: unroll(0, columns.count, lambda i: finish(i, j)))

    def _multiply(self, step: Step, row: Expr, columns: Columns) -> None:
        """Emit the steps of the whole depth."""
        depth, (left, right) = self.matmul.depth, self.buffers[:2]
        count = depth // step.pairs
        matrix = self.matrix if self.matmul.left_batch else 0
        ahead = list(self._ahead(columns, count)) if self.shape.prefetches else []

        def part(index: Expr) -> None:
            for weights in ahead:
                weights.step(index)
            k = index * step.pairs
            rows = [address(left, [matrix, row + start, k]) for start in step.starts]
            blocks = [address(right, [columns.first + i, k, 0]) for i in range(columns.count)]
            step.multiply(rows, depth * PAIR_BYTES, blocks, COLUMNS * PAIR_BYTES)

        loop(count, part)
