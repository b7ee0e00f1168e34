# SPDX-License-Identifier: Apache-2.0
"""Matrix products."""

from __future__ import annotations

import math

import numpy as np

from ...graph.fold import constant_array
from ...graph.operators import Operator
from ...graph.recognise import is_float32
from ...kernels.layout import PLAIN
from ...kernels.matmul import Matmul, matmul_kernel, pack_matrix
from ..feeds import Feeder, NoRule
from .base import Choice, Preferences, program_feeds, row_major, shape_of


def matmul(op: Operator, feeder: Feeder, preferences: Preferences) -> Choice:
    """Products of matrices, vectors and batches of them; the right side may be constant weights."""
    core = preferences.core
    left, right = op.anchor.args
    product = product_of(op)
    array = constant_array(right)
    if product.weights:
        matrix = array.reshape(product.depth, product.columns)
        right_feed = feeder.constant(right, lambda _: pack_matrix(matrix, core.lanes))
    else:
        right_feed = feeder.plain(right)
    feeds = (feeder.plain(left), right_feed, *program_feeds(op, feeder, PLAIN))
    return row_major(matmul_kernel(product, core), feeds, op)


def product_of(op: Operator) -> Matmul:
    """The operator as a batch of equal products.

    A right side without a batch meets all matrices on the left as the rows of one.

    Raises
    ------
    NoRule
        When it is of another type than float32, or its batches do not meet one by one.
    """
    if not all(map(is_float32, op.anchor.args)):
        raise NoRule
    left, right = (shape_of(argument) for argument in op.anchor.args)
    matrices, rows = (left[:-2], left[-2]) if len(left) > 1 else ((), 1)
    depth, columns = right[-2:] if len(right) > 1 else (right[0], 1)
    if math.prod(right[:-2]) == 1:
        weights = constant_array(op.anchor.args[1]) is not None
        rows *= math.prod(matrices)
        return Matmul(rows, depth, columns, op.program, weights=weights)
    batch = math.prod(np.broadcast_shapes(matrices, right[:-2]))
    sizes = [math.prod(matrices), math.prod(right[:-2])]
    if any(size not in (1, batch) for size in sizes):
        raise NoRule
    return Matmul(rows, depth, columns, op.program, batch, False, sizes[0] > 1, sizes[1] > 1)
