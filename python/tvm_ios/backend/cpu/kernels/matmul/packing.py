# SPDX-License-Identifier: Apache-2.0
"""Packed right sides of matrix products: neighbouring columns lie together, block by block.

Constant weights are packed at compile time, and computed matrices in a phase of the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm.tirx.script import builder as T

from .....lowering.product import Matmul
from ...isa.emit import lanes_of, select
from ..layout import blocks

Expr = Any

PACK_WORK = 50.0
"""Packing an element takes as long as this many multiply-adds."""


def pack_matrix(weights: np.ndarray, lanes: int) -> np.ndarray:
    """Pack ``[K, N]`` as ``[ceil(N / lanes), K, lanes]``, padded with zeros."""
    depth, columns = weights.shape
    padded = np.zeros((depth, blocks(columns, lanes) * lanes), weights.dtype)
    padded[:, :columns] = weights
    return np.ascontiguousarray(padded.reshape(depth, -1, lanes).transpose(1, 0, 2))


def pack_side_by_side(matrices: Sequence[np.ndarray], lanes: int) -> np.ndarray:
    """Pack several ``[K, N]`` as :func:`pack_matrix` does, partly filled blocks at the end.

    A row of biases, one value per column, is such a matrix, too.
    """
    packed = [pack_matrix(matrix, lanes) for matrix in matrices]
    full = [matrix.shape[1] // lanes for matrix in matrices]
    pairs = list(zip(packed, full, strict=True))
    return np.concatenate([p[:n] for p, n in pairs] + [p[n:] for p, n in pairs])


class Packing:
    """The phase that packs a computed right side; a tile is a block of columns.

    Lanes beyond the last column are not written.
    """

    def __init__(self, matmul: Matmul, lanes: int) -> None:
        self.matmul, self.lanes = matmul, lanes
        self.blocks = blocks(matmul.columns, lanes)
        self.num_tiles = matmul.right.shape[0] * self.blocks

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
