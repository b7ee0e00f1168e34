# SPDX-License-Identifier: Apache-2.0
"""How many limits are below elements, and how many elements between limits."""

from __future__ import annotations

import math

import numpy as np
from tvm import relax

from ...emitter import dtype_of, shape_of
from ...onnx.operators.formula import Term
from ..node_emitter import AtenEmitter
from .table import operator


@operator("bucketize.Tensor")
def bucketize(
    emit: AtenEmitter,
    data: relax.Expr,
    limits: relax.Expr,
    *,
    right: bool = False,
    out_int32: bool = False,
) -> relax.Expr:
    """Return how many limits are below each element, or not above it."""
    return _count_below(emit, data, limits, right)


@operator("searchsorted.Tensor")
def searchsorted(
    emit: AtenEmitter,
    limits: relax.Expr,
    data: relax.Expr,
    *,
    right: bool = False,
    side: str | None = None,
    sorter: relax.Expr | None = None,
    out_int32: bool = False,
) -> relax.Expr:
    """Return how many limits are below, or not above; a sorter says where they are in order."""
    if sorter is not None:
        axis = len(shape_of(limits)) - 1
        limits = emit(relax.op.gather_elements(limits, emit.cast(sorter, "int64"), axis))
    return _count_below(emit, data, limits, right or side == "right")


def _count_below(
    emit: AtenEmitter, data: relax.Expr, limits: relax.Expr, right: bool
) -> relax.Expr:
    shape, rows = list(shape_of(data)), list(shape_of(limits))
    if len(rows) > 1:
        limits = emit.reshape(limits, [*rows[:-1], 1, rows[-1]])
    dtype = emit.common_dtype()
    column = emit.reshape(emit.operand(data, dtype), [*shape, 1])
    build = relax.op.less_equal if right else relax.op.less
    below = emit(build(emit.operand(limits, dtype), column))
    total = emit(relax.op.sum(emit.cast(below, "int64"), [len(shape_of(below)) - 1]))
    return emit.cast(total, emit.dtype)


@operator("histc.default")
def histogram(
    emit: AtenEmitter, data: relax.Expr, bins: int, low: float, high: float
) -> relax.Expr:
    """Count the elements in intervals of the same length, of which the last has its end, too.

    Where the ends are equal, they are those of the data, or one away where these are equal, too.
    """
    if dtype_of(data) != "float32":
        raise emit.error(f"counts elements of {dtype_of(data)}, which is not supported.")
    flat = emit.reshape(data, [math.prod(shape_of(data))])
    if low == high and 0 in shape_of(flat):
        return emit.filled([bins], 0, emit.dtype)
    x = Term(emit, flat)
    begin, end = _ends(emit, x, low, high)
    place = ((x - begin) * bins / (end - begin)).of(relax.op.floor)
    inside = (x >= begin) & (x <= end)
    place = place.minimum(bins - 1).filled(~inside, 0)
    zeros = emit.filled([bins], 0, emit.dtype)
    places, ones = emit.cast(place.expr, "int64"), emit.cast(inside.expr, emit.dtype)
    return emit(relax.op.scatter_elements(zeros, places, ones, 0, "add"))


def _ends(emit: AtenEmitter, x: Term, low: float, high: float) -> tuple[Term, Term]:
    if low != high:
        begin, end = (Term(emit, emit.operand(float(np.float32(n)))) for n in (low, high))
        return begin, end
    begin, end = (
        Term(emit, emit(build(x.expr, [0], True))) for build in (relax.op.min, relax.op.max)
    )
    same = begin.equals(end)
    return (begin - 1).where(same, begin), (end + 1).where(same, end)
