# SPDX-License-Identifier: Apache-2.0
"""Matrix products."""

from __future__ import annotations

from ....graph.fold import held_array
from ....graph.operators import Operator
from ...shared.product import product_of
from ..kernels.layout import PLAIN
from ..kernels.matmul import matmul_kernel, pack_matrix
from .base import Choice, LoweringConfig, epilogue_inputs, row_major
from .bindings import InputBinder


def matmul(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Multiply matrices, vectors or batches of them; the right side may be constant weights.

    Raises
    ------
    NoRule
        If the product is not of float32, or its batches do not match.
    """
    core = config.core
    left, right = op.call.args
    product = product_of(op)
    if product.weights:
        matrix = held_array(right).reshape(product.depth, product.columns)
        right_feed = binder.constant(right, lambda _: pack_matrix(matrix, core.lanes))
    else:
        right_feed = binder.plain(right)
    bindings = (binder.plain(left), right_feed, *epilogue_inputs(op, binder, PLAIN))
    return row_major(matmul_kernel(product, core), bindings, op)
