# SPDX-License-Identifier: Apache-2.0
"""Conversion of PyTorch's ``scaled_dot_product_attention``.

PyTorch decomposes it into some twenty operators, which hide what it is.
"""

from __future__ import annotations

import math

import numpy as np
from tvm import relax

from ....sizes.size import is_open
from ....support.errors import ModelError
from ...attention import attention_scores
from ...emitter import constant, dtype_of, shape_of
from ..node_emitter import AtenEmitter
from .table import operator


@operator("scaled_dot_product_attention.default")
def attention(
    emit: AtenEmitter,
    query: relax.Expr,
    key: relax.Expr,
    value: relax.Expr,
    mask: relax.Expr | None,
    dropout: float,
    is_causal: bool,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> relax.Expr:
    """Convert an attention to products and a softmax.

    Raises
    ------
    ModelError
        If it drops scores out, as in training.
    """
    if dropout:
        raise ModelError("The model drops attention scores out; export it in inference mode.")
    dtype = dtype_of(query)
    if enable_gqa:
        shared = shape_of(query)[-3] // shape_of(key)[-3]
        key, value = (emit(relax.op.repeat(x, shared, axis=-3)) for x in (key, value))
    factor = 1 / math.sqrt(shape_of(query)[-1]) if scale is None else scale
    scores = attention_scores(emit, query, key, factor)
    if is_causal:
        scores = emit(relax.op.add(scores, _causal(emit, scores)))
    elif mask is not None:
        scores = emit(relax.op.add(scores, _added(emit, mask, dtype)))
    weights = emit(relax.op.nn.softmax(scores, axis=-1))
    if mask is not None:
        weights = _zero_where_hidden(emit, weights, scores)
    return emit(relax.op.matmul(weights, value))


def _causal(emit: AtenEmitter, scores: relax.Expr) -> relax.Expr:
    """Return what hides the keys after each query."""
    rows, columns = shape_of(scores)[-2:]
    if not is_open((rows, columns)):
        return constant(np.triu(np.full((rows, columns), -np.inf, dtype_of(scores)), 1))
    queries = emit.reshape(emit.positions(rows, "int64"), [rows, 1])
    shown = emit(relax.op.less_equal(emit.positions(columns, "int64"), queries))
    return _added(emit, shown, dtype_of(scores))


def _added(emit: AtenEmitter, mask: relax.Expr, dtype: str) -> relax.Expr:
    """Return what a mask adds to the scores; a boolean one is true where a key is read."""
    if dtype_of(mask) != "bool":
        return emit.cast(mask, dtype)
    shown, hidden = (relax.const(number, dtype) for number in (0.0, -math.inf))
    return emit(relax.op.where(mask, shown, hidden))


def _zero_where_hidden(emit: AtenEmitter, weights: relax.Expr, scores: relax.Expr) -> relax.Expr:
    """Return zeros for the queries that a mask hides all keys from."""
    largest = emit(relax.op.max(scores, axis=-1, keepdims=True))
    hidden = emit(relax.op.equal(largest, emit.scalar(-math.inf, scores)))
    return emit(relax.op.where(hidden, emit.scalar(0.0, weights), weights))
