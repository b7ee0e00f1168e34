# SPDX-License-Identifier: Apache-2.0
"""The heads of an attention, and what they read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from tvm import relax

from ....attention import attention_scores
from ....emitter import shape_of
from ...node_emitter import NodeEmitter


def rows_of_heads(emit: NodeEmitter, data: relax.Expr, heads: int, what: str) -> relax.Expr:
    """Return rows of all heads as ``[batch, rows, heads, columns]``."""
    shape = shape_of(data)
    if len(shape) != 3:
        raise emit.error(f"has {what} of {list(shape)}; it must have 3 axes.")
    if heads < 1 or shape[2] % heads:
        raise emit.error(f"has {what} of {shape[2]} columns for {heads} heads.")
    return emit.reshape(data, [*shape[:2], heads, shape[2] // heads])


def by_heads(emit: NodeEmitter, rows: relax.Expr) -> relax.Expr:
    """Return ``[batch, rows, heads, columns]`` as ``[batch, heads, rows, columns]``."""
    return emit.transpose(rows, [0, 2, 1, 3])


def join_heads(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
    """Return ``[batch, heads, rows, columns]`` as rows of all heads."""
    batch, heads, rows, columns = shape_of(data)
    return emit.reshape(by_heads(emit, data), [batch, rows, heads * columns])


def scale_of(query: relax.Expr, scale: float) -> float:
    """Return the factor of scores; 0 stands for the usual one."""
    return scale or 1 / math.sqrt(shape_of(query)[-1])


def attended(
    emit: NodeEmitter,
    query: relax.Expr,
    key: relax.Expr,
    value: relax.Expr,
    scale: float,
    added: Sequence[relax.Expr | None],
) -> tuple[relax.Expr, relax.Expr]:
    """Return an attention as rows of all heads, and the scores before the softmax.

    Parameters
    ----------
    emit : NodeEmitter
    query, key, value : relax.Expr
        ``[batch, heads, rows, columns]``
    scale : float
        As in :func:`scale_of`.
    added : sequence of relax.Expr or None
        What is added to the scores, which is summed up first: a kernel adds one tensor.
    """
    scores = attention_scores(emit, query, key, scale_of(query, scale))
    given = [x for x in added if x is not None]
    if given:
        total = reduce(lambda left, right: emit(relax.op.add(left, right)), given)
        scores = emit(relax.op.add(scores, total))
    weights = emit(relax.op.nn.softmax(scores, axis=-1))
    return join_heads(emit, emit(relax.op.matmul(weights, value))), scores


def check_bias_of_scores(emit: NodeEmitter, bias: relax.Expr | None, scores: Sequence[int]) -> None:
    """Check that a tensor can be added to scores of a shape; images and heads may share it.

    Raises
    ------
    ModelError
        If it cannot.
    """
    if bias is None:
        return
    given = shape_of(bias)
    shared = len(given) == 4 and all(
        held in (1, size) for held, size in zip(given[:2], scores[:2], strict=True)
    )
    if not shared or given[2:] != tuple(scores[2:]):
        raise emit.error(
            f"has an attention bias of {list(given)}, which cannot be added to scores of "
            f"{list(scores)}."
        )
