# SPDX-License-Identifier: Apache-2.0
"""Matrix products."""

from __future__ import annotations

from ....graph.fold import held_array
from ....graph.operators import Operator
from ...shared.product import product_of
from ..kernels.layout import PLAIN
from ..kernels.matmul import matmul_kernel, pack_matrix
from .base import Choice, Preferences, program_feeds, row_major
from .feeds import Feeder


def matmul(op: Operator, feeder: Feeder, preferences: Preferences) -> Choice:
    """Multiply matrices, vectors or batches of them; the right side may be constant weights.

    Parameters
    ----------
    op : Operator
        A matrix product with an epilogue.
    feeder : Feeder
        Makes the input bindings.
    preferences : Preferences
        The lowering config.

    Returns
    -------
    Choice
        A kernel with a row-major result.

    Raises
    ------
    NoRule
        If the product is not of float32, or its batches do not match.
    """
    core = preferences.core
    left, right = op.call.args
    product = product_of(op)
    if product.weights:
        matrix = held_array(right).reshape(product.depth, product.columns)
        right_feed = feeder.constant(right, lambda _: pack_matrix(matrix, core.lanes))
    else:
        right_feed = feeder.plain(right)
    feeds = (feeder.plain(left), right_feed, *program_feeds(op, feeder, PLAIN))
    return row_major(matmul_kernel(product, core), feeds, op)
