# SPDX-License-Identifier: Apache-2.0
"""Elements by their rank: medians, k-th smallest and most frequent ones; NaN is the largest."""

from __future__ import annotations

import math

from tvm import relax

from ...emitter import dtype_of, shape_of
from ...onnx.numbers import is_float
from ...onnx.operators.formula import Term
from ...onnx.operators.table import Value
from ..node_emitter import AtenEmitter
from .formula import is_nan
from .scan import cumulative_maximum
from .table import operator


@operator("kthvalue.default")
def kth_value(
    emit: AtenEmitter, data: relax.Expr, number: int, axis: int, keep: bool = False
) -> Value:
    if not shape_of(data):
        return data, emit.full([], 0, "int64")
    return _of_rank(emit, data, number - 1, emit.axis(axis, len(shape_of(data))))


@operator("median.dim")
def median_along(emit: AtenEmitter, data: relax.Expr, axis: int, keep: bool = False) -> Value:
    """Return the lower median along an axis, or NaN where there is one, and its place."""
    if not shape_of(data):
        return data, emit.full([], 0, "int64")
    axis = emit.axis(axis, len(shape_of(data)))
    middle = (shape_of(data)[axis] - 1) // 2
    found = value, place = _of_rank(emit, data, middle, axis)
    if not is_float(dtype_of(data)):
        return found
    missing = is_nan(Term(emit, data)).to("int32").expr
    any_missing = Term(emit, emit.reshape(emit(relax.op.max(missing, [axis])), emit.shape)) > 0
    first = emit.cast(emit(relax.op.argmax(missing, axis)), "int64")
    chosen = Term(emit, emit.reshape(first, emit.shape)).where(any_missing, Term(emit, place))
    return Term(emit, value).filled(any_missing, math.nan).expr, chosen.expr


@operator("nanmedian.dim")
def median_of_numbers_along(
    emit: AtenEmitter, data: relax.Expr, axis: int, keep: bool = False
) -> Value:
    """Return the lower median of what is no NaN along an axis, and its place."""
    if not is_float(dtype_of(data)) or not shape_of(data):
        return median_along(emit, data, axis, keep)
    axis = emit.axis(axis, len(shape_of(data)))
    length = shape_of(data)[axis]
    present = emit.cast((~is_nan(Term(emit, data))).expr, "int64")
    count = Term(emit, emit(relax.op.sum(present, [axis], True)))
    # Where there are NaN alone, the first of them is the median.
    rank = (count - 1).maximum(0).to("float64") / 2
    places = rank.of(relax.op.floor).to("int64").expr
    return tuple(
        emit.reshape(emit(relax.op.gather_elements(each, places, axis)), emit.shape)
        for each in _sorted(emit, data, axis, length)
    )


@operator("median.default")
def median(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
    return _of_all(emit, data, median_along)


@operator("nanmedian.default")
def median_of_numbers(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
    return _of_all(emit, data, median_of_numbers_along)


def _of_all(emit: AtenEmitter, data: relax.Expr, along: object) -> relax.Expr:
    count = math.prod(shape_of(data))
    if not count:
        if not is_float(dtype_of(data)):
            raise emit.error("is the median of no integers, which is not supported.")
        return emit.full([], math.nan, dtype_of(data))
    return along(emit, emit.reshape(data, [count]), 0)[0]  # type: ignore[operator]


@operator("mode.default")
def mode(emit: AtenEmitter, data: relax.Expr, axis: int = -1, keep: bool = False) -> Value:
    """Return the most frequent elements, of several the least, and the last place of each.

    Among sorted elements, the count of each is how far it is from the first of its kind; each NaN
    is the only one of its kind.
    """
    shape = list(shape_of(data))
    if not shape:
        return data, emit.full([], 0, "int64")
    axis = emit.axis(axis, len(shape))
    values, order = _sorted(emit, data, axis, shape[axis])
    positions = Term(emit, emit.along(emit.positions(shape[axis], "int64"), axis, len(shape)))
    if shape[axis] == 1:
        return emit.reshape(values, emit.shape), emit.reshape(order, emit.shape)
    rest = Term(emit, emit.slice(values, axis, 1, shape[axis]))
    before = Term(emit, emit.slice(values, axis, 0, shape[axis] - 1))
    begins = (~rest.equals(before)).to("int64").expr
    one = emit.filled([*shape[:axis], 1, *shape[axis + 1 :]], 0, "int64")
    marked = Term(emit, emit(relax.op.concat([one, begins], axis)))
    first = cumulative_maximum(emit, (marked * positions).expr, axis)
    best = emit(relax.op.argmax((positions - Term(emit, first)).expr, axis, True))
    places = emit.cast(best, "int64")
    value, place = (
        emit.reshape(emit(relax.op.gather_elements(each, places, axis)), emit.shape)
        for each in (values, order)
    )
    return value, place


def _of_rank(
    emit: AtenEmitter, data: relax.Expr, rank: int, axis: int
) -> tuple[relax.Expr, relax.Expr]:
    value, place = (
        emit.reshape(emit.slice(each, axis, rank, rank + 1), emit.shape)
        for each in _sorted(emit, data, axis, rank + 1)
    )
    return value, place


def _sorted(emit: AtenEmitter, data: relax.Expr, axis: int, count: int) -> list[relax.Expr]:
    """Return the smallest elements in their order, NaN last, and their places."""
    if dtype_of(data) == "bool":
        values, places = _sorted(emit, emit.cast(data, "uint8"), axis, count)
        return [emit.cast(values, "bool"), places]
    found = emit(relax.op.topk(data, count, axis, "both", False, "int64"))
    return [emit(relax.TupleGetItem(found, i)) for i in range(2)]
