# SPDX-License-Identifier: Apache-2.0
"""Register-tiled matrix products ``[M, K] x [K, N]`` of row-major matrices.

The right matrix is read in vectors along ``N``, and so is the result stored. Weights are packed at
compile time so that ``b`` neighbouring columns lie together, as a convolution's output channels
do. A right matrix that is computed is read where it lies, but for one so deep that the addresses
of its rows are too many to be held: that one is packed in a phase of its own.
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

_PACK_WORK = 50.0  # packing a number takes as long as multiplying it with so many
_MAX_STRIDED_DEPTH = 2048  # rows of a wide matrix, each in a page of memory of its own
_MIN_PACKED_ROWS = 64


@dataclass(frozen=True)
class Matmul:
    """``rows`` x ``depth`` times ``depth`` x ``columns``, then ``program``; ``batch`` of them.

    A ``last`` argument of the program has one value a column.

    Attributes
    ----------
    rows, depth, columns : int
    program : Program
    batch : int
    weights : bool
        The right matrix is known at compile time, and packed; it is the same for the whole batch.
    left_batch, right_batch : bool
        Whether the left and the computed right side are a matrix for each of the batch, or one.
    """

    rows: int
    depth: int
    columns: int
    program: Program = NOTHING
    batch: int = 1
    weights: bool = True
    left_batch: bool = True
    right_batch: bool = True

    @property
    def left(self) -> TensorSpec:
        return TensorSpec((self.batch if self.left_batch else 1, self.rows, self.depth))

    @property
    def right(self) -> TensorSpec:
        return TensorSpec((self.batch if self.right_batch else 1, self.depth, self.columns))

    def packed(self, lanes: int) -> TensorSpec:
        """The right side with ``lanes`` columns together."""
        shape = (blocks(self.columns, lanes), self.depth, lanes)
        return TensorSpec(shape if self.weights else (*self.right.shape[:1], *shape))


def pack_matrix(weights: np.ndarray, lanes: int) -> np.ndarray:
    """``[K, N]`` as ``[ceil(N / lanes), K, lanes]``, zero-padded."""
    depth, columns = weights.shape
    padded = np.zeros((depth, blocks(columns, lanes) * lanes), weights.dtype)
    padded[:, :columns] = weights
    return np.ascontiguousarray(padded.reshape(depth, -1, lanes).transpose(1, 0, 2))


def matmul_kernel(matmul: Matmul, core: Core) -> Kernel:
    """The kernel of a matrix product; inputs are the left and the right side, the arguments."""
    m, emitter = matmul, _MatmulEmitter(matmul, core)
    result = TensorSpec((m.batch, m.rows, m.columns))
    specs = {"full": result, "last": TensorSpec((m.columns,))}
    right, scratch, phases = m.right, (), (Phase(emitter.tiles, emitter.emit),)
    if m.weights:
        right = m.packed(core.lanes)
    elif emitter.packs:
        pack = _Packing(m, core.lanes)
        scratch = (m.packed(core.lanes),)
        phases = (Phase(pack.tiles, pack.emit, work=_PACK_WORK / m.rows), *phases)
    return Kernel(
        name="matmul",
        key=("matmul", matmul, core),
        inputs=(m.left, right, *(specs[kind] for kind in m.program.arguments)),
        outputs=(result,),
        scratch=scratch,
        phases=phases,
    )


class _Packing:
    """The right side packed; a tile is a block of columns. Lanes beyond the last are left alone."""

    def __init__(self, matmul: Matmul, lanes: int) -> None:
        self.matmul, self.lanes = matmul, lanes
        self.blocks = blocks(matmul.columns, lanes)
        self.tiles = matmul.right.shape[0] * self.blocks

    def emit(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        right, packed = buffers[1], buffers[-1]
        full, rest = divmod(self.matmul.columns, self.lanes)
        with T.serial(begin, begin + extent) as t:
            block, matrix = t % self.blocks, t // self.blocks

            def copy(first: Expr, width: int) -> None:
                with T.serial(self.matmul.depth) as k:
                    value = right[matrix, k, lanes_of(first * self.lanes, width)]
                    T.buffer_store(packed, value, [matrix, first, k, lanes_of(0, width)])

            select(
                block,
                [
                    (full, lambda i: copy(i, self.lanes)),
                    (1 if rest else 0, lambda _: copy(full, rest)),
                ],
            )


class _MatmulEmitter:
    """A tile is (matrix, chunk of column blocks, group of rows); the part block goes last.

    All rows meet a chunk of columns before the next chunk comes, so that its weights, which are
    read for every group of rows, stay in the second cache.
    """

    def __init__(self, matmul: Matmul, core: Core) -> None:
        self.matmul, self.lanes = matmul, core.lanes
        full, self.tail = divmod(matmul.columns, core.lanes)
        self.tile = choose_tile(core, matmul.rows, max(full, 1))
        self.full_chunks, self.rest_blocks = divmod(full, self.tile.blocks)
        self.chunks = self.full_chunks + (self.rest_blocks > 0) + (self.tail > 0)
        self.row_tiles = blocks(matmul.rows, self.tile.columns)
        self.tiles = matmul.batch * self.chunks * self.row_tiles
        self.packs = (
            not matmul.weights
            and matmul.depth > _MAX_STRIDED_DEPTH
            and matmul.rows >= _MIN_PACKED_ROWS
        )

    def emit(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        step, lanes = self.tile.blocks, self.lanes
        rest = self.full_chunks * step
        tail = rest + self.rest_blocks
        with T.serial(begin, begin + extent) as t:
            place, chunk = t % self.row_tiles, t // self.row_tiles % self.chunks
            rows = _Tile(self, buffers, t // (self.row_tiles * self.chunks))

            def columns(first: Expr, count: int, width: int) -> None:
                full, last = divmod(self.matmul.rows, self.tile.columns)
                height = self.tile.columns
                select(
                    place,
                    [
                        (full, lambda i: rows.emit(i * height, height, first, count, width)),
                        (
                            1 if last else 0,
                            lambda i: rows.emit(full * height, last, first, count, width),
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


class _Tile:
    """The registers of one matrix's tile: what they read, and where they are stored."""

    def __init__(self, emitter: _MatmulEmitter, buffers: Sequence[Any], matrix: Expr) -> None:
        self.matmul, self.lanes, self.packs = emitter.matmul, emitter.lanes, emitter.packs
        self.buffers, self.matrix = buffers, matrix

    def emit(self, row: Expr, height: int, first: Expr, count: int, width: int) -> None:
        """``height`` rows from ``row`` x ``count`` blocks of ``width`` columns from ``first``."""
        left = self.matrix if self.matmul.left_batch else 0
        with tile_scope():
            registers = Accumulators(height * count, width, zeros(width))

            def multiply_add(k: Expr, i: Expr, j: Expr) -> None:
                at = i * height + j
                value = splat(self.buffers[0][left, row + j, k], width)
                registers[at] = registers[at] + value * self._right(first + i, k, width)

            def finish(i: Expr, j: Expr) -> None:
                column = lanes_of((first + i) * self.lanes, width)
                self._store(registers[i * height + j], row + j, column, width)

            def outer(body: Callable[[Expr, Expr], None]) -> None:
                unroll(0, height, lambda j: unroll(0, count, lambda i: body(i, j)))

            loop(self.matmul.depth, lambda k: outer(lambda i, j: multiply_add(k, i, j)))
            outer(finish)

    def _right(self, block: Expr, k: Expr, width: int) -> Expr:
        """Row ``k`` of a block of columns."""
        matrix = self.matrix if self.matmul.right_batch else 0
        if self.matmul.weights:
            return self.buffers[1][block, k, lanes_of(0, width)]
        if self.packs:
            return self.buffers[-1][matrix, block, k, lanes_of(0, width)]
        return self.buffers[1][matrix, k, lanes_of(block * self.lanes, width)]

    def _store(self, value: Expr, row: Expr, column: Expr, width: int) -> None:
        program = self.matmul.program
        result = self.buffers[2 + len(program.arguments)]

        def load(a: int) -> Expr:
            argument = self.buffers[2 + a]
            last = program.arguments[a] == "last"
            return argument[column] if last else argument[self.matrix, row, column]

        T.buffer_store(result, program.apply(value, load, width), [self.matrix, row, column])
