# SPDX-License-Identifier: Apache-2.0
"""Conversion of PyTorch's ``scaled_dot_product_attention``.

PyTorch decomposes it into some twenty operators, which hide what it is. TVM's importer knows it,
but ignores its scale, and knows neither boolean masks nor three axes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax

from ...support.errors import ModelError

if TYPE_CHECKING:
    import torch

ATTENTION = "scaled_dot_product_attention.default"
"""The name of the operator in an exported program."""

_OPTIONS = ("attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")


def attention(node: torch.fx.Node, importer: Any) -> relax.Var:
    """Convert an attention to products and a softmax.

    Raises
    ------
    ModelError
        If it drops scores out, as in training.
    """
    query, key, value, *positional = importer.retrieve_args(node)
    named = {name: importer.env.get(given, given) for name, given in node.kwargs.items()}
    options = dict(zip(_OPTIONS, positional, strict=False)) | named
    if options.get("dropout_p"):
        raise ModelError("The model drops attention scores out; export it in inference mode.")
    emit, dtype = importer.block_builder.emit, str(query.ty.dtype.dtype)
    if options.get("enable_gqa"):
        shared = int(query.ty.shape[-3]) // int(key.ty.shape[-3])
        key, value = (emit(relax.op.repeat(x, shared, axis=-3)) for x in (key, value))
    rank, depth = len(key.ty.shape), int(query.ty.shape[-1])
    factor = options.get("scale")
    scale = relax.const(1 / math.sqrt(depth) if factor is None else factor, dtype)
    transposed = emit(relax.op.permute_dims(key, [*range(rank - 2), rank - 1, rank - 2]))
    scores = emit(relax.op.multiply(emit(relax.op.matmul(query, transposed)), scale))
    mask = options.get("attn_mask")
    if options.get("is_causal"):
        scores = emit(relax.op.add(scores, _causal(scores, dtype)))
    elif mask is not None:
        scores = emit(relax.op.add(scores, _added(mask, dtype, emit)))
    weights = emit(relax.op.nn.softmax(scores, axis=-1))
    if mask is not None:
        weights = _zero_where_hidden(weights, scores, dtype, emit)
    return emit(relax.op.matmul(weights, value))


def _causal(scores: relax.Expr, dtype: str) -> relax.Expr:
    """Return what hides the keys after each query."""
    queries, keys = (int(size) for size in list(scores.ty.shape)[-2:])
    return relax.const(np.triu(np.full((queries, keys), -np.inf, dtype), 1))


def _added(mask: relax.Expr, dtype: str, emit: Any) -> relax.Expr:
    """Return what a mask adds to the scores; a boolean one is true where a key is read."""
    if str(mask.ty.dtype.dtype) != "bool":
        return mask
    shown, hidden = (relax.const(number, dtype) for number in (0.0, -math.inf))
    return emit(relax.op.where(mask, shown, hidden))


def _zero_where_hidden(
    weights: relax.Expr, scores: relax.Expr, dtype: str, emit: Any
) -> relax.Expr:
    """Return zeros for the queries that a mask hides all keys from."""
    largest = emit(relax.op.max(scores, axis=-1, keepdims=True))
    hidden = emit(relax.op.equal(largest, relax.const(-math.inf, dtype)))
    return emit(relax.op.where(hidden, relax.const(0.0, dtype), weights))
