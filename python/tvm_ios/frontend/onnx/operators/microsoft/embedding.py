# SPDX-License-Identifier: Apache-2.0
"""Sums of embeddings."""

from __future__ import annotations

from tvm import relax

from ....emitter import shape_of
from ...node_emitter import NodeEmitter
from ..table import Value
from .domain import check_shape, contributed
from .normalization import layer_normalised


@contributed("EmbedLayerNormalization")
def embed_layer_normalization(
    emit: NodeEmitter,
    words: relax.Expr,
    segments: relax.Expr | None,
    word_embedding: relax.Expr,
    position_embedding: relax.Expr,
    segment_embedding: relax.Expr | None,
    gamma: relax.Expr,
    beta: relax.Expr,
    mask: relax.Expr | None = None,
    positions: relax.Expr | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
) -> Value:
    """Normalise the sum of embeddings of words, their places and their segments.

    The other results are how many words of each row the mask has, and the sum.
    """
    batch, length = shape_of(words)
    total = emit(relax.op.take(word_embedding, words, 0))
    total = emit(relax.op.add(total, _of_positions(emit, position_embedding, positions, words)))
    if (segments is None) != (segment_embedding is None):
        raise emit.error("has segments without embeddings of them, or these without segments.")
    if segments is not None:
        check_shape(emit, segments, [batch, length], "segments")
        total = emit(relax.op.add(total, emit(relax.op.take(segment_embedding, segments, 0))))
    result = layer_normalised(emit, total, gamma, beta, epsilon)
    if not emit.wants(1):
        return result, None, total
    return result, _counted(emit, mask, batch, length), total


def _of_positions(
    emit: NodeEmitter, table: relax.Expr, positions: relax.Expr | None, words: relax.Expr
) -> relax.Expr:
    """Return the embeddings of positions, which are those in the row unless they are given."""
    batch, length = shape_of(words)
    if positions is not None:
        if shape_of(positions) not in ((batch, length), (1, length)):
            raise emit.error(
                f"has positions of {list(shape_of(positions))} for words of {[batch, length]}."
            )
        return emit(relax.op.take(table, positions, 0))
    if shape_of(table)[0] < length:
        raise emit.error(f"has {shape_of(table)[0]} positions for rows of {length} words.")
    return emit.slice(table, 0, 0, length)


def _counted(emit: NodeEmitter, mask: relax.Expr | None, batch: int, length: int) -> relax.Expr:
    if mask is None:
        return emit.full([batch], 0, "int32")
    check_shape(emit, mask, [batch, length], "a mask")
    ones = emit(relax.op.equal(mask, emit.scalar(1, mask)))
    return emit(relax.op.sum(emit.cast(ones, "int32"), [1]))
