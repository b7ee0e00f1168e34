# SPDX-License-Identifier: Apache-2.0
"""Attention as importers write it: products and a softmax, which back ends find again."""

from __future__ import annotations

from tvm import relax

from .emitter import Emitter, dtype_of, shape_of


def attention_scores(emit: Emitter, query: relax.Expr, key: relax.Expr, scale: float) -> relax.Expr:
    """Return the scores of each query and each key.

    Parameters
    ----------
    emit : Emitter
    query, key : relax.Expr
        Matrices of rows, the last two axes.
    scale : float
        What the products are multiplied by.
    """
    rank = len(shape_of(key))
    transposed = emit.transpose(key, [*range(rank - 2), rank - 1, rank - 2])
    factor = emit.literal(scale, dtype_of(query))
    return emit(relax.op.multiply(emit(relax.op.matmul(query, transposed)), factor))
