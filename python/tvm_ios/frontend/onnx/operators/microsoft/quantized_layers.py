# SPDX-License-Identifier: Apache-2.0
"""Layers of ONNX Runtime whose weights are 8-bit integers."""

from __future__ import annotations

from typing import Any

from tvm import relax

from ....emitter import dtype_of, shape_of
from ...node_emitter import NodeEmitter
from ..quantization import check_scale
from ..recurrent import lstm
from ..table import Value
from .attention import attended_with_past
from .domain import check_shape, contributed
from .embedding import embed_layer_normalization
from .heads import by_heads, rows_of_heads
from .quantized import real
from .quantized_products import scaled_product

_HIDDEN = -10000.0  # what is added to the scores of a key that is not read

_GATES = frozenset((
    "activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size",
    "input_forget",
))  # fmt: skip


@contributed("DynamicQuantizeLSTM", shared=_GATES)
def dynamic_quantize_lstm(
    emit: NodeEmitter,
    data: relax.Expr,
    weights: relax.Expr,
    recurrent: relax.Expr,
    biases: relax.Expr | None,
    sequence_lens: relax.Expr | None,
    initial_h: relax.Expr | None,
    initial_c: relax.Expr | None,
    peepholes: relax.Expr | None,
    w_scale: relax.Expr,
    w_zero_point: relax.Expr,
    r_scale: relax.Expr,
    r_zero_point: relax.Expr,
    **attributes: Any,
) -> Value:
    """Convert a layer whose weights are quantised; what it multiplies by them is not rounded."""
    grids = (weights, w_scale, w_zero_point), (recurrent, r_scale, r_zero_point)
    factors = [emit.transpose(_of_directions(emit, *grid), [0, 2, 1]) for grid in grids]
    optional = biases, sequence_lens, initial_h, initial_c, peepholes
    return lstm(emit, data, *factors, *optional, **attributes)


def _of_directions(
    emit: NodeEmitter, data: relax.Expr, scale: relax.Expr, zero_point: relax.Expr
) -> relax.Expr:
    """Dequantise ``[directions, inputs, gates]``, by direction or by direction and gate."""
    check_scale(emit, scale)
    shape = shape_of(data)
    for part, what in ((scale, "scales"), (zero_point, "zero points")):
        if len(shape) != 3 or shape_of(part) not in (shape[:1], (shape[0], shape[2])):
            raise emit.error(f"has {what} of {list(shape_of(part))} for {list(shape)} weights.")
    if dtype_of(zero_point) != dtype_of(data):
        raise emit.error(f"has zero points of {dtype_of(zero_point)} for {dtype_of(data)}.")
    scale, zero_point = (
        emit.reshape(part, [shape[0], 1, *(shape_of(part)[1:] or (1,))])
        for part in (scale, zero_point)
    )
    wide, zero = emit.cast(data, "float32"), emit.cast(zero_point, "float32")
    return emit.product(emit.difference(wide, zero), scale)


@contributed("QAttention")
def qattention(
    emit: NodeEmitter,
    data: relax.Expr,
    weights: relax.Expr,
    bias: relax.Expr,
    input_scale: relax.Expr,
    weight_scale: relax.Expr,
    mask_index: relax.Expr | None = None,
    input_zero_point: relax.Expr | None = None,
    weight_zero_point: relax.Expr | None = None,
    past: relax.Expr | None = None,
    *,
    num_heads: int,
    do_rotary: int = 0,
    mask_filter_value: float = _HIDDEN,
    past_present_share_buffer: int = 0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> Value:
    """Project 8-bit integers to queries, keys and values, and attend to these in float32."""
    if do_rotary or past_present_share_buffer:
        raise emit.error("rotates queries, or shares the past's buffer, which is not supported.")
    check_shape(emit, weights, [shape_of(data)[-1], *shape_of(weights)[-1:]], "weights")
    columns = shape_of(weights)[1]
    if columns % 3:
        raise emit.error(f"divides {columns} columns into queries, keys and values.")
    grids = input_scale, weight_scale, input_zero_point, weight_zero_point
    products = scaled_product(emit, data, weights, grids, bias)
    size = columns // 3
    query, key, value = (
        by_heads(emit, rows_of_heads(emit, part, num_heads, "a product"))
        for part in (emit.slice(products, 2, n * size, (n + 1) * size) for n in range(3))
    )
    given = past, mask_index, None
    causal = bool(unidirectional)
    return attended_with_past(emit, (query, key, value), given, mask_filter_value, scale, causal)


@contributed("QEmbedLayerNormalization")
def qembed_layer_normalization(
    emit: NodeEmitter,
    input_ids: relax.Expr,
    segment_ids: relax.Expr | None,
    words: relax.Expr,
    positions: relax.Expr,
    segments: relax.Expr | None,
    gamma: relax.Expr,
    beta: relax.Expr,
    mask: relax.Expr | None,
    *grids: relax.Expr | None,
    epsilon: float = 1e-12,
) -> Value:
    """Normalise the sum of embeddings that are 8-bit integers; see EmbedLayerNormalization."""
    tables = [words, positions, segments, gamma, beta]
    if len(grids) != 2 * len(tables):
        raise emit.error(f"has {len(grids)} scales and zero points instead of {2 * len(tables)}.")
    embeddings = [
        None if table is None else real(emit, table, scale, zero_point)
        for table, scale, zero_point in zip(tables, grids[:5], grids[5:], strict=True)
    ]
    results = embed_layer_normalization(
        emit, input_ids, segment_ids, *embeddings, mask, epsilon=epsilon
    )
    assert isinstance(results, tuple), "it has several"
    return results[:2]
