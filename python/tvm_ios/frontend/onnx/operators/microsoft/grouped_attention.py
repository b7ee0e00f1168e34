# SPDX-License-Identifier: Apache-2.0
"""Attention whose queries share heads of keys, with keys and values in a cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tvm import relax

from ....attention import attention_scores
from ....emitter import dtype_of, shape_of
from ...node_emitter import NodeEmitter
from ..table import Value
from .cache import Cache
from .domain import check_absent, check_shape, contributed
from .heads import by_heads, check_bias_of_scores, join_heads, rows_of_heads, scale_of
from .rotary import RotaryTable

Heads = tuple[relax.Expr, relax.Expr, relax.Expr]
"""Queries, keys and values as ``[batch, heads, rows, columns]``."""


@contributed("GroupQueryAttention", shared=frozenset(("k_norm_epsilon", "q_norm_epsilon")))
def group_query_attention(
    emit: NodeEmitter,
    query: relax.Expr,
    key: relax.Expr | None,
    value: relax.Expr | None,
    past_key: relax.Expr | None,
    past_value: relax.Expr | None,
    seqlens_k: relax.Expr,
    total_sequence_length: relax.Expr,
    cos_cache: relax.Expr | None = None,
    sin_cache: relax.Expr | None = None,
    position_ids: relax.Expr | None = None,
    attention_bias: relax.Expr | None = None,
    head_sink: relax.Expr | None = None,
    k_scale: relax.Expr | None = None,
    v_scale: relax.Expr | None = None,
    q_norm_weight: relax.Expr | None = None,
    k_norm_weight: relax.Expr | None = None,
    query_seqlens: relax.Expr | None = None,
    *,
    num_heads: int,
    kv_num_heads: int,
    causal: int = 1,
    do_rotary: int = 0,
    k_quant_type: str = "NONE",
    kv_cache_bit_width: int = 0,
    local_window_size: int = -1,
    qk_norm_epsilon: float = 1e-6,
    qk_output: int = 0,
    rotary_interleaved: int = 0,
    scale: float = 0.0,
    sliding_window_cache: int = 0,
    smooth_softmax: int = -1,
    softcap: float = 0.0,
    v_quant_type: str = "NONE",
) -> Value:
    """Write keys and values into a cache, and attend to what is in it."""
    check_absent(
        emit,
        k_scale=k_scale,
        v_scale=v_scale,
        q_norm_weight=q_norm_weight,
        k_norm_weight=k_norm_weight,
        query_seqlens=query_seqlens,
        position_ids=position_ids,
    )
    _check_supported(
        emit,
        quantised=bool(kv_cache_bit_width) or {k_quant_type, v_quant_type} != {"NONE"},
        sliding=bool(sliding_window_cache),
        returning=bool(qk_output),
        bidirectional=not causal,
    )
    if kv_num_heads < 1 or num_heads % kv_num_heads:
        raise emit.error(f"has {num_heads} heads of queries, which share {kv_num_heads}.")
    heads = _split(emit, query, key, value, num_heads, kv_num_heads)
    total = int(emit.number(total_sequence_length, "its total_sequence_length"))
    cache = Cache.of(emit, heads[1], past_key, seqlens_k, total)
    if do_rotary:
        heads = _rotated(emit, heads, cos_cache, sin_cache, cache, bool(rotary_interleaved))
    keys = cache.written(emit, past_key, heads[1], "keys")
    values = cache.written(emit, past_value, heads[2], "values")
    batch, _, queries, _ = shape_of(heads[0])
    scores = _Scores(batch, num_heads, queries, kv_num_heads, cache.length)
    added = [
        _bias(emit, attention_bias, scores, total),
        scores.grouped(emit, cache.mask(emit, queries, local_window_size, dtype_of(query))),
    ]
    column = _sink(emit, head_sink, scores, smooth_softmax, dtype_of(query))
    result = _attended(emit, (heads[0], keys, values), scores, scale, softcap, added, column)
    return result, keys, values


def _check_supported(
    emit: NodeEmitter, *, quantised: bool, sliding: bool, returning: bool, bidirectional: bool
) -> None:
    for is_wanted, what in (
        (quantised, "has a cache of integers"),
        (sliding, "has a cache that is shorter than the sequence"),
        (returning, "returns scores"),
        (bidirectional, "reads keys behind a query"),
    ):
        if is_wanted:
            raise emit.error(f"{what}, which is not supported.")


class _Scores(NamedTuple):
    """The sizes of scores, of which the heads of queries that share one of keys are rows."""

    batch: int
    heads: int
    queries: int
    shared: int
    keys: int

    @property
    def grouped_rows(self) -> int:
        return self.heads // self.shared * self.queries

    def grouped(self, emit: NodeEmitter, x: relax.Expr | None) -> relax.Expr | None:
        """Return ``[batch, heads, queries, keys]`` with rows of the heads that share one.

        Any of the sizes may be 1.
        """
        if x is None:
            return None
        batch, heads, queries, keys = shape_of(x)
        if heads == 1 and (queries == 1 or self.heads == self.shared):
            return x
        if heads == 1:
            x = emit.reshape(x, [batch, 1, 1, queries, keys])
            x = emit.broadcast(x, [batch, 1, self.heads // self.shared, queries, keys])
            return emit.reshape(x, [batch, 1, self.grouped_rows, keys])
        x = emit.broadcast(x, [batch, heads, self.queries, keys])
        return emit.reshape(x, [batch, self.shared, self.grouped_rows, keys])


def _split(
    emit: NodeEmitter,
    query: relax.Expr,
    key: relax.Expr | None,
    value: relax.Expr | None,
    heads: int,
    shared: int,
) -> Heads:
    """Return queries, keys and values, which may be packed with the queries, by heads."""
    if (key is None) != (value is None):
        raise emit.error("has keys without values, or values without keys.")
    if key is None or value is None:
        packed = by_heads(emit, rows_of_heads(emit, query, heads + 2 * shared, "a query"))
        ends = (0, heads, heads + shared, heads + 2 * shared)
        parts = [emit.slice(packed, 1, *ends[i : i + 2]) for i in range(3)]
        return parts[0], parts[1], parts[2]
    queries = by_heads(emit, rows_of_heads(emit, query, heads, "a query"))
    keys = by_heads(emit, rows_of_heads(emit, key, shared, "a key"))
    values = by_heads(emit, rows_of_heads(emit, value, shared, "a value"))
    batch, _, rows, depth = shape_of(queries)
    check_shape(emit, keys, [batch, shared, rows, depth], "keys by heads")
    check_shape(emit, values, [batch, shared, rows, depth], "values by heads")
    return queries, keys, values


def _rotated(
    emit: NodeEmitter,
    heads: Heads,
    cosines: relax.Expr | None,
    sines: relax.Expr | None,
    cache: Cache,
    interleaved: bool,
) -> Heads:
    if cosines is None or sines is None:
        raise emit.error("rotates heads, but has no cosines and sines.")
    table = RotaryTable(emit, cosines, sines, interleaved)
    query, key, value = heads
    positions = cache.positions(emit, shape_of(query)[2])
    return table.rotated(emit, query, positions), table.rotated(emit, key, positions), value


def _bias(
    emit: NodeEmitter, bias: relax.Expr | None, scores: _Scores, total: int
) -> relax.Expr | None:
    """Return a bias of all rows of the cache; a mask hides those that are not filled."""
    if bias is None:
        return None
    check_bias_of_scores(emit, bias, [scores.batch, scores.heads, scores.queries, total])
    if total < scores.keys:
        zeros = emit.filled([*shape_of(bias)[:3], scores.keys - total], 0, dtype_of(bias))
        bias = emit(relax.op.concat([bias, zeros], 3))
    return scores.grouped(emit, bias)


def _sink(
    emit: NodeEmitter, sink: relax.Expr | None, scores: _Scores, smooth: int, dtype: str
) -> relax.Expr | None:
    """Return the score of a key without a value, by which softmax is smooth."""
    if sink is None:
        if smooth != 1:
            return None
        sink = emit.full([scores.heads], 0, dtype)
    check_shape(emit, sink, [scores.heads], "a head_sink")
    column = emit.broadcast(
        emit.reshape(sink, [1, scores.heads, 1, 1]), [scores.batch, scores.heads, 1, 1]
    )
    return scores.grouped(emit, column)


def _attended(
    emit: NodeEmitter,
    heads: Heads,
    scores: _Scores,
    scale: float,
    cap: float,
    added: Sequence[relax.Expr | None],
    column: relax.Expr | None,
) -> relax.Expr:
    """Return an attention as rows of all heads."""
    query, key, value = heads
    depth = shape_of(query)[3]
    rows = [scores.batch, scores.shared, scores.grouped_rows, depth]
    found = attention_scores(emit, emit.reshape(query, rows), key, scale_of(query, scale))
    if cap:
        bounded = relax.op.tanh(relax.op.divide(found, emit.scalar(cap, found)))
        found = emit(relax.op.multiply(emit(bounded), emit.scalar(cap, found)))
    for x in added:
        if x is not None:
            found = emit(relax.op.add(found, x))
    if column is not None:
        found = emit(relax.op.concat([found, column], 3))
    weights = emit.slice(emit(relax.op.nn.softmax(found, axis=-1)), 3, 0, scores.keys)
    result = emit(relax.op.matmul(weights, value))
    return join_heads(
        emit, emit.reshape(result, [scores.batch, scores.heads, scores.queries, depth])
    )
