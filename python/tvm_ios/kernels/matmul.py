# SPDX-License-Identifier: Apache-2.0
"""Register-tiled matrix product ``[M, K] x [K, N]`` of row-major matrices.

The weights are packed so that ``b`` neighbouring output columns lie together, as a convolution's
output channels do; the result stays row-major because its vectors are stored along ``N``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.tirx.script import builder as T

from ..target import Core
from .elementwise import NOTHING, Program
from .emit import Accumulators, lanes_of, loop, select, splat, tile_scope, unroll, zeros
from .kernel import Kernel, Phase, TensorSpec
from .layout import blocks
from .tiling import choose_tile

Expr = Any


@dataclass(frozen=True)
class Matmul:
    """``rows`` x ``depth`` times ``depth`` x ``columns``, then ``program``.

    A ``channel`` argument of the program has one value a column.
    """

    rows: int
    depth: int
    columns: int
    program: Program = NOTHING


def pack_matrix(weights: np.ndarray, lanes: int) -> np.ndarray:
    """``[K, N]`` as ``[ceil(N / lanes), K, lanes]``, zero-padded."""
    depth, columns = weights.shape
    padded = np.zeros((depth, blocks(columns, lanes) * lanes), weights.dtype)
    padded[:, :columns] = weights
    return np.ascontiguousarray(padded.reshape(depth, -1, lanes).transpose(1, 0, 2))


def matmul_kernel(matmul: Matmul, core: Core) -> Kernel:
    """The kernel of a matrix product; inputs are the matrix, packed weights, the arguments."""
    emitter = _MatmulEmitter(matmul, core)
    m = matmul
    shapes = {"full": (m.rows, m.columns), "channel": (m.columns,)}
    return Kernel(
        name="matmul",
        key=("matmul", matmul, core),
        inputs=(
            TensorSpec((m.rows, m.depth)),
            TensorSpec((blocks(m.columns, core.lanes), m.depth, core.lanes)),
            *(TensorSpec(shapes[kind]) for kind in m.program.arguments),
        ),
        outputs=(TensorSpec((m.rows, m.columns)),),
        phases=(Phase(emitter.tiles, emitter.emit),),
    )


class _MatmulEmitter:
    """A tile is (chunk of column blocks, group of rows); the partly filled block goes last."""

    def __init__(self, matmul: Matmul, core: Core) -> None:
        self.matmul, self.lanes = matmul, core.lanes
        full, self.tail = divmod(matmul.columns, core.lanes)
        self.tile = choose_tile(core, matmul.rows, max(full, 1))
        self.full_chunks, self.rest_blocks = divmod(full, self.tile.blocks)
        self.chunks = self.full_chunks + (self.rest_blocks > 0) + (self.tail > 0)
        self.row_tiles = blocks(matmul.rows, self.tile.columns)
        self.tiles = self.chunks * self.row_tiles

    def emit(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        step, lanes = self.tile.blocks, self.lanes
        rest = self.full_chunks * step
        tail = rest + self.rest_blocks
        with T.serial(begin, begin + extent) as t:
            place, chunk = t % self.row_tiles, t // self.row_tiles

            def columns(first: Expr, count: int, width: int) -> None:
                full, last = divmod(self.matmul.rows, self.tile.columns)
                height = self.tile.columns
                body = self._emit_tile
                select(
                    place,
                    [
                        (full, lambda i: body(buffers, i * height, height, first, count, width)),
                        (
                            1 if last else 0,
                            lambda i: body(buffers, full * height, last, first, count, width),
                        ),
                    ],
                )

            select(
                chunk,
                [
                    (self.full_chunks, lambda i: columns(i * step, step, lanes)),
                    (
                        1 if self.rest_blocks else 0,
                        lambda i: columns(rest, self.rest_blocks, lanes),
                    ),
                    (1 if self.tail else 0, lambda i: columns(tail, 1, self.tail)),
                ],
            )

    def _emit_tile(
        self, buffers: Sequence[Any], row: Expr, height: int, first: Expr, count: int, width: int
    ) -> None:
        """``height`` rows from ``row`` x ``count`` blocks of ``width`` columns from ``first``."""
        matrix, weights = buffers[:2]
        with tile_scope():
            registers = Accumulators(height * count, width, zeros(width))

            def multiply_add(k: Expr, i: Expr, j: Expr) -> None:
                at = i * height + j
                loaded = weights[first + i, k, lanes_of(0, width)]
                registers[at] = registers[at] + splat(matrix[row + j, k], width) * loaded

            def finish(i: Expr, j: Expr) -> None:
                column = lanes_of((first + i) * self.lanes, width)
                self._store(buffers, registers[i * height + j], row + j, column, width)

            def outer(body: Callable[[Expr, Expr], None]) -> None:
                unroll(0, count, lambda i: unroll(0, height, lambda j: body(i, j)))

            loop(self.matmul.depth, lambda k: outer(lambda i, j: multiply_add(k, i, j)))
            outer(finish)

    def _store(
        self, buffers: Sequence[Any], value: Expr, row: Expr, column: Expr, width: int
    ) -> None:
        program = self.matmul.program

        def load(a: int) -> Expr:
            argument = buffers[2 + a]
            return argument[column] if program.arguments[a] == "channel" else argument[row, column]

        T.buffer_store(buffers[-1], program.apply(value, load, width), [row, column])
