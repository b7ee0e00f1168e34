# SPDX-License-Identifier: Apache-2.0
"""What attentions add to scores of keys that a query must not read."""

from __future__ import annotations

from typing import NamedTuple

import ml_dtypes
import numpy as np
from tvm import relax

from ....emitter import constant, shape_of
from ...node_emitter import NodeEmitter


class Scores(NamedTuple):
    """The sizes of an attention's scores, and their type.

    ``past`` is how many of the keys come before those of the first query.
    """

    batch: int
    heads: int
    queries: int
    keys: int
    past: int
    dtype: str

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.batch, self.heads, self.queries, self.keys


def causal_mask(emit: NodeEmitter, scores: Scores) -> relax.Expr | None:
    """Return what hides the keys behind each query; a single query reads all."""
    if scores.queries == 1:
        return None
    emit.allocate([scores.queries, scores.keys], scores.dtype)
    least = ml_dtypes.finfo(scores.dtype).min
    hidden = np.full((scores.queries, scores.keys), least, scores.dtype)
    return constant(np.triu(hidden, scores.past + 1))


def padding_mask(
    emit: NodeEmitter, mask: relax.Expr | None, scores: Scores, hidden: float
) -> relax.Expr | None:
    """Return what a mask of keys adds to scores.

    Parameters
    ----------
    emit : NodeEmitter
    mask : relax.Expr or None
        Whether each key is read: by images ``[batch, keys]``, by queries
        ``[batch, queries, keys]``, or ``[batch, 1, size, size]`` by places of a longer sequence. A
        vector has the ends of the keys that are read, and may have their begins behind these.
        ``[batch, 1]`` and ``[1, 1]`` hide nothing.
    scores : Scores
    hidden : float
        What is added for a key that is not read.

    Raises
    ------
    ModelError
        If the mask has none of these shapes.
    """
    if mask is None:
        return None
    shape, (batch, _, queries, keys, past, _) = shape_of(mask), scores
    if shape in ((batch,), (2 * batch,)):
        return _added(emit, _between(emit, mask, scores), scores, hidden)
    longer = len(shape) == 4 and shape[:2] == (batch, 1) and shape[2] == shape[3] >= keys
    if shape == (batch, keys):
        mask = emit.reshape(mask, [batch, 1, 1, keys])
    elif shape in ((batch, 1), (1, 1)):
        return None
    elif shape == (batch, queries, keys):
        mask = emit.reshape(mask, [batch, 1, queries, keys])
    elif longer and past + queries <= shape[2]:
        mask = emit.slice(emit.slice(mask, 2, past, past + queries), 3, 0, keys)
    else:
        raise emit.error(
            f"has a mask of {list(shape)} for scores of {list(scores.shape)}, which is not "
            "supported; give it one element for each key."
        )
    read = emit(relax.op.greater(mask, emit.scalar(0, mask)))
    return _added(emit, read, scores, hidden)


def _between(emit: NodeEmitter, ends: relax.Expr, scores: Scores) -> relax.Expr:
    """Return whether a key is before the end of its image, and not before the begin."""
    places = emit.positions(scores.keys, "int32")
    size = [scores.batch, 1, 1, 1]
    end = emit.reshape(emit.slice(ends, 0, 0, scores.batch), size)
    read = emit(relax.op.less(places, end))
    if shape_of(ends)[0] == scores.batch:
        return read
    begin = emit.reshape(emit.slice(ends, 0, scores.batch, 2 * scores.batch), size)
    return emit(relax.op.logical_and(read, emit(relax.op.greater_equal(places, begin))))


def _added(emit: NodeEmitter, read: relax.Expr, scores: Scores, hidden: float) -> relax.Expr:
    shown, least = (emit.literal(number, scores.dtype) for number in (0.0, hidden))
    return emit(relax.op.where(read, shown, least))
