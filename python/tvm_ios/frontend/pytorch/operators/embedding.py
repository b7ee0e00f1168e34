# SPDX-License-Identifier: Apache-2.0
"""Rows of a table, and sums of several of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import relax

from ...emitter import constant, constant_array, dtype_of, shape_of
from ...onnx.operators.table import Value
from ..node_emitter import AtenEmitter
from .table import operator

_SUM, _MEAN, _MAXIMUM = range(3)


@operator("embedding.default")
def embedding(emit: AtenEmitter, weight: relax.Expr, indices: relax.Expr, *_: Any) -> relax.Expr:
    return emit(relax.op.take(weight, indices, 0))


@operator("_embedding_bag_forward_only.default", "_embedding_bag.default")
def embedding_bag(
    emit: AtenEmitter,
    weight: relax.Expr,
    indices: relax.Expr,
    offsets: relax.Expr,
    _scales: bool,
    mode: int,
    _sparse: bool,
    factors: relax.Expr | None,
    _with_end: bool,
    padding: int,
) -> Value:
    """Return the sum, mean or maximum of the rows of each bag, and 0 for empty bags.

    A bag begins at each offset, and ends where the next begins.
    """
    if any(map(emit.wants, range(1, emit.num_outputs))):
        raise emit.error("returns the sizes of bags, which is not supported.")
    rows = emit(relax.op.take(weight, indices, 0))
    count = shape_of(indices)[0]
    counted = None if padding < 0 else emit.cast(
        emit(relax.op.not_equal(indices, emit.scalar(padding, indices))), dtype_of(weight)
    )  # fmt: skip
    if factors is not None:
        rows = emit(relax.op.multiply(rows, emit.along(factors, 0, 2)))
    bags = _bags(emit, offsets, count)
    result = _of_bags(emit, rows, bags, mode, counted)
    return (result, *[None] * (emit.num_outputs - 1))


def _bags(emit: AtenEmitter, offsets: relax.Expr, count: int) -> relax.Expr:
    """Return the number of the bag of each row: how many bags begin before it."""
    known = constant_array(offsets)
    emit.allocate([count], "int64")
    if known is not None:
        return constant(np.searchsorted(known, np.arange(count), side="right") - 1)
    begins = emit.reshape(emit.cast(offsets, "int64"), [1, shape_of(offsets)[0]])
    places = emit.reshape(emit.positions(count, "int64"), [count, 1])
    begun = emit.cast(emit(relax.op.less_equal(begins, places)), "int64")
    total = emit(relax.op.sum(begun, [1]))
    return emit(relax.op.subtract(total, emit.scalar(1, total)))


def _of_bags(
    emit: AtenEmitter, rows: relax.Expr, bags: relax.Expr, mode: int, counted: relax.Expr | None
) -> relax.Expr:
    shape, dtype = emit.shape, emit.dtype
    if counted is None:
        counted = emit.filled([shape_of(rows)[0]], 1, dtype)
    numbers = _combined(emit, emit.along(counted, 0, 2), bags, [shape[0], 1], "add")
    present = emit(relax.op.greater(emit.along(counted, 0, 2), emit.scalar(0, counted)))
    neutral = -math.inf if mode == _MAXIMUM else 0
    rows = emit(relax.op.where(present, rows, emit.scalar(neutral, rows)))
    result = _combined(emit, rows, bags, shape, "max" if mode == _MAXIMUM else "add")
    if mode == _MEAN:
        divisor = emit(relax.op.maximum(numbers, emit.scalar(1, numbers)))
        return emit(relax.op.divide(result, divisor))
    if mode == _MAXIMUM:
        some = emit(relax.op.greater(numbers, emit.scalar(0, numbers)))
        return emit(relax.op.where(some, result, emit.scalar(0, result)))
    return result


def _combined(
    emit: AtenEmitter, rows: relax.Expr, bags: relax.Expr, shape: list[int], kind: str
) -> relax.Expr:
    start = -math.inf if kind == "max" else 0
    begin = emit.filled(shape, start, dtype_of(rows))
    places = emit.reshape(bags, [shape_of(bags)[0], 1])
    return emit(relax.op.scatter_nd(begin, places, rows, kind))
