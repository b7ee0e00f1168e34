# SPDX-License-Identifier: Apache-2.0
"""Attentions with as many heads of keys as of queries."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from ....emitter import dtype_of, shape_of
from ...node_emitter import NodeEmitter
from ..table import Value
from .domain import check_absent, check_shape, contributed, with_bias
from .heads import attended, by_heads, check_bias_of_scores, rows_of_heads
from .masks import Scores, causal_mask, padding_mask

Heads = tuple[relax.Expr, relax.Expr, relax.Expr]
"""Queries, keys and values as ``[batch, heads, rows, columns]``."""

_HIDDEN = -10000.0
"""What is added to the scores of a key that is not read, unless an attribute says otherwise."""


@contributed("Attention")
def attention(
    emit: NodeEmitter,
    data: relax.Expr,
    weights: relax.Expr,
    bias: relax.Expr | None = None,
    mask: relax.Expr | None = None,
    past: relax.Expr | None = None,
    attention_bias: relax.Expr | None = None,
    past_sequence_length: relax.Expr | None = None,
    *,
    num_heads: int,
    do_rotary: int = 0,
    mask_filter_value: float = _HIDDEN,
    past_present_share_buffer: int = 0,
    qkv_hidden_sizes: Sequence[int] | None = None,
    rotary_embedding_dim: int = 0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> Value:
    """Project data to queries, keys and values, and attend to those and to the past ones."""
    check_absent(emit, past_sequence_length=past_sequence_length)
    if past_present_share_buffer:
        raise emit.error("keeps the past in a longer buffer, which is not supported.")
    if do_rotary:
        raise emit.error("rotates queries and keys, which is not supported.")
    heads = _projected(emit, data, weights, bias, num_heads, qkv_hidden_sizes)
    given = past, mask, attention_bias
    return attended_with_past(
        emit, heads, given, mask_filter_value, scale, causal=bool(unidirectional)
    )


def attended_with_past(
    emit: NodeEmitter,
    heads: Heads,
    given: tuple[relax.Expr | None, relax.Expr | None, relax.Expr | None],
    hidden: float,
    scale: float,
    causal: bool,
) -> Value:
    """Return an attention to keys and values, and these.

    Parameters
    ----------
    emit : NodeEmitter
    heads : tuple of relax.Expr
        Queries, keys and values.
    given : tuple of relax.Expr or None
        Keys and values of the past, stacked; the mask; what is added to the scores.
    hidden, scale : float
        As the operators' attributes.
    causal : bool
        Whether keys behind a query are hidden.
    """
    past, mask, attention_bias = given
    pair: list[relax.Expr | None] = [None, None]
    if past is not None:
        shape = shape_of(past)
        if len(shape) != 5 or shape[0] != 2:
            raise emit.error(f"has a past of {list(shape)}; its first axis must be 2.")
        pair = [emit.reshape(emit.slice(past, 0, i, i + 1), shape[1:]) for i in range(2)]
    query, key, value = _with_past(emit, heads, pair)
    scores = _scores(query, key, shape_of(heads[1])[2])
    check_bias_of_scores(emit, attention_bias, scores.shape)
    added = [
        attention_bias,
        padding_mask(emit, mask, scores, hidden),
        causal_mask(emit, scores) if causal else None,
    ]
    result, _ = attended(emit, query, key, value, scale, added)
    if not emit.wants(1):
        return (result,)
    if shape_of(key) != shape_of(value):
        raise emit.error("returns keys and values of different sizes as one tensor.")
    return result, emit(relax.op.stack([key, value], 0))


def _projected(
    emit: NodeEmitter,
    data: relax.Expr,
    weights: relax.Expr,
    bias: relax.Expr | None,
    heads: int,
    sizes: Sequence[int] | None,
) -> Heads:
    """Return products with three parts of the weights, and the bias of each added."""
    columns = shape_of(weights)[-1]
    check_shape(emit, weights, [shape_of(data)[-1], columns], "weights")
    if sizes is None:
        sizes = [columns // 3] * 3
    if len(sizes) != 3 or sizes[0] != sizes[1] or sum(sizes) != columns:
        raise emit.error(f"divides {columns} columns into {list(sizes)}.")
    if bias is not None:
        check_shape(emit, bias, [columns], "a bias")
    found: list[relax.Expr] = []
    begin = 0
    for size, what in zip(sizes, ("queries", "keys", "values"), strict=True):
        part = emit.slice(weights, 1, begin, begin + size)
        product = emit(relax.op.matmul(data, part))
        of_part = None if bias is None else emit.slice(bias, 0, begin, begin + size)
        rows = rows_of_heads(emit, with_bias(emit, product, of_part), heads, what)
        found.append(by_heads(emit, rows))
        begin += size
    return found[0], found[1], found[2]


@contributed("MultiHeadAttention")
def multi_head_attention(
    emit: NodeEmitter,
    query: relax.Expr,
    key: relax.Expr | None = None,
    value: relax.Expr | None = None,
    bias: relax.Expr | None = None,
    key_padding_mask: relax.Expr | None = None,
    attention_bias: relax.Expr | None = None,
    past_key: relax.Expr | None = None,
    past_value: relax.Expr | None = None,
    past_sequence_length: relax.Expr | None = None,
    cache_indirection: relax.Expr | None = None,
    *,
    num_heads: int,
    mask_filter_value: float = _HIDDEN,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> Value:
    """Attend to keys and values, which may be packed with each other or with the queries."""
    check_absent(
        emit, past_sequence_length=past_sequence_length, cache_indirection=cache_indirection
    )
    if key is not None and len(shape_of(key)) == 4:
        heads = _beside_heads(emit, query, key, value, bias, num_heads)
    else:
        rows = _with_biases(emit, _rows(emit, query, key, value, num_heads), bias)
        heads = by_heads(emit, rows[0]), by_heads(emit, rows[1]), by_heads(emit, rows[2])
    _check_heads(emit, *heads)
    queries, keys, values = _with_past(emit, heads, [past_key, past_value])
    scores = _scores(queries, keys, shape_of(heads[1])[2])
    check_bias_of_scores(emit, attention_bias, scores.shape)
    if unidirectional and scores.past + scores.queries != scores.keys:
        raise emit.error("hides keys of another sequence from queries, which is not supported.")
    if key_padding_mask is not None:
        _check_padding(emit, key_padding_mask, scores)
    added = [
        attention_bias,
        padding_mask(emit, key_padding_mask, scores, mask_filter_value),
        causal_mask(emit, scores) if unidirectional else None,
    ]
    result, found = attended(emit, queries, keys, values, scale, added)
    return result, keys, values, found


def _check_padding(emit: NodeEmitter, mask: relax.Expr, scores: Scores) -> None:
    """Check that a mask has an end of each image, or an element for each key."""
    batch, queries, keys = scores.batch, scores.queries, scores.keys
    if shape_of(mask) not in ((batch,), (batch, keys), (batch, queries, keys)):
        raise emit.error(
            f"has a mask of {list(shape_of(mask))} for scores of {list(scores.shape)}, which is "
            "not supported; give it one element for each key."
        )


def _beside_heads(
    emit: NodeEmitter,
    query: relax.Expr,
    key: relax.Expr,
    value: relax.Expr | None,
    bias: relax.Expr | None,
    heads: int,
) -> Heads:
    """Return queries beside keys and values by heads, in which their biases are."""
    if value is None or len(shape_of(value)) != 4:
        raise emit.error("has keys by heads, but no values by heads.")
    width = heads * shape_of(key)[3]
    if bias is not None:
        check_shape(emit, bias, [2 * width + heads * shape_of(value)[3]], "a bias")
        bias = emit.slice(bias, 0, 0, width)
    rows = rows_of_heads(emit, with_bias(emit, query, bias), heads, "a query")
    return by_heads(emit, rows), key, value


def _rows(
    emit: NodeEmitter,
    query: relax.Expr,
    key: relax.Expr | None,
    value: relax.Expr | None,
    heads: int,
) -> Heads:
    """Return queries, keys and values as ``[batch, rows, heads, columns]``."""
    if len(shape_of(query)) == 5:
        if key is not None or value is not None:
            raise emit.error("has keys or values beside those that are packed with the queries.")
        first, second, third = _unpacked(emit, query, 3, heads)
        return first, second, third
    queries = rows_of_heads(emit, query, heads, "a query")
    if key is None:
        raise emit.error("has neither keys nor queries that are packed with them.")
    if len(shape_of(key)) == 5:
        if value is not None:
            raise emit.error("has values beside those that are packed with the keys.")
        keys, values = _unpacked(emit, key, 2, heads)
        return queries, keys, values
    if value is None:
        raise emit.error("has keys, but no values.")
    keys = rows_of_heads(emit, key, heads, "a key")
    return queries, keys, rows_of_heads(emit, value, heads, "a value")


def _unpacked(emit: NodeEmitter, packed: relax.Expr, count: int, heads: int) -> list[relax.Expr]:
    """Return the parts of ``[batch, rows, heads, count, columns]``."""
    batch, rows, _, _, columns = shape_of(packed)
    check_shape(emit, packed, [batch, rows, heads, count, columns], "packed heads")
    parts = [emit.slice(packed, 3, part, part + 1) for part in range(count)]
    return [emit.reshape(part, [batch, rows, heads, columns]) for part in parts]


def _check_heads(emit: NodeEmitter, query: relax.Expr, key: relax.Expr, value: relax.Expr) -> None:
    batch, heads, _, depth = shape_of(query)
    rows = shape_of(key)[2]
    check_shape(emit, key, [batch, heads, rows, depth], "keys by heads")
    check_shape(emit, value, [batch, heads, rows, shape_of(value)[3]], "values by heads")


def _with_biases(emit: NodeEmitter, rows: Heads, bias: relax.Expr | None) -> Heads:
    """Add a bias to queries, keys and values, whose columns it has one after the other."""
    if bias is None:
        return rows
    sizes = [shape_of(part)[2] * shape_of(part)[3] for part in rows]
    check_shape(emit, bias, [sum(sizes)], "a bias")
    found: list[relax.Expr] = []
    begin = 0
    for part, size in zip(rows, sizes, strict=True):
        vector = emit.reshape(emit.slice(bias, 0, begin, begin + size), shape_of(part)[2:])
        found.append(emit(relax.op.add(part, vector)))
        begin += size
    return found[0], found[1], found[2]


def _with_past(emit: NodeEmitter, heads: Heads, past: Sequence[relax.Expr | None]) -> Heads:
    """Return keys and values behind those of the past."""
    query, *new = heads
    if past[0] is None and past[1] is None:
        return heads
    joined = []
    for before, now, what in zip(past, new, ("keys", "values"), strict=True):
        if before is None:
            raise emit.error(f"has no past {what}, but the other ones.")
        shape, rows = list(shape_of(now)), shape_of(before)[2:3]
        check_shape(emit, before, [*shape[:2], *rows, shape[3]], f"past {what}")
        joined.append(emit(relax.op.concat([before, now], 2)) if rows[0] else now)
    key, value = joined
    if shape_of(key)[2] != shape_of(value)[2]:
        raise emit.error("has fewer past keys or values than the other ones.")
    return query, key, value


def _scores(query: relax.Expr, key: relax.Expr, new: int) -> Scores:
    """Return the sizes of scores, of which the last ``new`` keys are not of the past."""
    batch, heads, queries, _ = shape_of(query)
    keys = shape_of(key)[2]
    return Scores(batch, heads, queries, keys, keys - new, dtype_of(query))


@contributed("DecoderMaskedMultiHeadAttention")
def decoder_masked_multi_head_attention(
    emit: NodeEmitter,
    query: relax.Expr,
    key: relax.Expr | None = None,
    value: relax.Expr | None = None,
    mask: relax.Expr | None = None,
    attention_bias: relax.Expr | None = None,
    past_key: relax.Expr | None = None,
    past_value: relax.Expr | None = None,
    past_sequence_length: relax.Expr | None = None,
    beam_width: relax.Expr | None = None,
    cache_indirection: relax.Expr | None = None,
    bias: relax.Expr | None = None,
    *,
    num_heads: int,
    mask_filter_value: float = _HIDDEN,
    output_qk: int = 0,
    past_present_share_buffer: int = 0,
    scale: float = 0.0,
) -> Value:
    """Attend with one query to past keys and values, and to one more."""
    if past_present_share_buffer:
        raise emit.error("keeps the past in a longer buffer, which is not supported.")
    check_absent(emit, beam_width=beam_width, cache_indirection=cache_indirection)
    if shape_of(query)[1:2] != (1,):
        raise emit.error(f"has queries of {list(shape_of(query))}; there must be one.")
    return multi_head_attention(
        emit,
        query,
        key,
        value,
        bias,
        mask,
        attention_bias,
        past_key,
        past_value,
        num_heads=num_heads,
        mask_filter_value=mask_filter_value,
        scale=scale,
    )
