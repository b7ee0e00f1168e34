# SPDX-License-Identifier: Apache-2.0
"""Biases of scores by how far a key is from a query."""

from __future__ import annotations

import numpy as np
from tvm import relax

from ....emitter import constant, shape_of
from ...node_emitter import NodeEmitter
from .domain import check_absent, check_shape, contributed, with_bias
from .heads import by_heads, rows_of_heads


@contributed("RelativePositionBias")
def relative_position_bias(
    emit: NodeEmitter,
    table: relax.Expr,
    query_length: relax.Expr,
    key_length: relax.Expr,
    *,
    is_bidirectional: int = 0,
    max_distance: int,
) -> relax.Expr:
    """Take the bias of each head for the bucket of each distance.

    The table has the axes ``[buckets, heads]``, but its elements are in the order of
    ``[heads, buckets]``: so it is written, and read.
    """
    lengths = [
        int(emit.number(length, what))
        for length, what in ((query_length, "its query_length"), (key_length, "its key_length"))
    ]
    if lengths[0] != lengths[1] or lengths[0] < 1:
        raise emit.error(f"has {lengths[0]} queries and {lengths[1]} keys; they must be as many.")
    if len(shape_of(table)) != 2:
        raise emit.error(f"has a table of {list(shape_of(table))}; it must have 2 axes.")
    buckets, heads = shape_of(table)
    emit.allocate([*lengths], "int64")
    distances = np.arange(lengths[1]) - np.arange(lengths[0])[:, np.newaxis]
    places = _buckets(emit, distances, buckets, max_distance, bool(is_bidirectional))
    by_head = emit.reshape(table, [heads, buckets])
    found = emit(relax.op.take(by_head, constant(places), 1))
    return emit.reshape(found, [1, heads, *lengths])


def _buckets(
    emit: NodeEmitter, distances: np.ndarray, count: int, farthest: int, bidirectional: bool
) -> np.ndarray:
    """Return the bucket of each distance: one for each short one, then some by its logarithm."""
    half = count // 2 if bidirectional else count
    first = np.where(distances > 0, half, 0) if bidirectional else np.zeros_like(distances)
    sizes = abs(distances) if bidirectional else np.maximum(-distances, 0)
    exact = half // 2
    if exact < 1 or farthest <= exact:
        raise emit.error(f"has {count} buckets for distances up to {farthest}.")
    far = np.log(np.maximum(sizes, 1).astype("float32") / np.float32(exact))
    scale = np.float32(half - exact) / np.log(np.float32(farthest) / np.float32(exact))
    places = np.minimum(exact + (far * scale).astype("int64"), half - 1)
    return first + np.where(sizes < exact, sizes, places)


@contributed("GatedRelativePositionBias")
def gated_relative_position_bias(
    emit: NodeEmitter,
    query: relax.Expr,
    query_bias: relax.Expr,
    positions: relax.Expr,
    weight: relax.Expr,
    bias: relax.Expr,
    factor: relax.Expr,
    token_offset: relax.Expr | None = None,
    *,
    num_heads: int,
) -> relax.Expr:
    """Multiply the biases of positions by gates that are computed from the queries."""
    check_absent(emit, token_offset=token_offset)
    rows = rows_of_heads(emit, with_bias(emit, query, query_bias), num_heads, "a query")
    heads = by_heads(emit, rows)
    batch, _, count, depth = shape_of(heads)
    size = shape_of(weight)[-1]
    check_shape(emit, weight, [depth, size], "weights")
    check_shape(emit, positions, [1, num_heads, count, count], "a bias of positions")
    check_shape(emit, factor, [1, num_heads, 1, 1], "a factor")
    if size % 2:
        raise emit.error(f"halves {size} columns, which are an odd number.")
    products = with_bias(emit, emit(relax.op.matmul(heads, weight)), bias)
    halves = emit.reshape(products, [batch, num_heads, count, 2, size // 2])
    gates = emit(relax.op.sigmoid(emit(relax.op.sum(halves, [4]))))
    outer, inner = (emit.slice(gates, 3, part, part + 1) for part in range(2))
    one, two = emit.scalar(1, gates), emit.scalar(2, gates)
    less = emit(relax.op.subtract(emit(relax.op.multiply(inner, factor)), one))
    gate = emit(relax.op.add(emit(relax.op.multiply(outer, less)), two))
    return emit(relax.op.multiply(gate, positions))
