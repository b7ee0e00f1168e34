# SPDX-License-Identifier: Apache-2.0
"""Running extremes and sums along an axis, of which each step combines twice as many elements."""

from __future__ import annotations

import math

from tvm import relax

from ...emitter import dtype_of, shape_of
from ...onnx.operators.formula import Term
from ...onnx.operators.table import Value
from ..node_emitter import AtenEmitter
from .formula import is_nan
from .table import Converter, operator


def cumulative_maximum(emit: AtenEmitter, data: relax.Expr, axis: int) -> relax.Expr:
    """Return the largest of the elements up to each along an axis, which is not negative."""
    for step in _steps(shape_of(data)[axis]):
        data = emit(relax.op.maximum(data, _delayed(emit, data, axis, step, data)))
    return data


def _steps(length: int) -> list[int]:
    return [1 << i for i in range((length - 1).bit_length())]


def _delayed(
    emit: AtenEmitter, data: relax.Expr, axis: int, step: int, begin: relax.Expr
) -> relax.Expr:
    """Return the elements some steps before; those that have none are of ``begin``."""
    length = shape_of(data)[axis]
    parts = [emit.slice(begin, axis, 0, step), emit.slice(data, axis, 0, length - step)]
    return emit(relax.op.concat(parts, axis))


def _running(largest: bool) -> Converter:
    def convert(emit: AtenEmitter, data: relax.Expr, axis: int) -> Value:
        """Return running extremes and their last places; the first NaN ends them."""
        shape = shape_of(data)
        if not shape:
            return data, emit.full([], 0, "int64")
        axis = emit.axis(axis, len(shape))
        given = emit.cast(data, "uint8") if dtype_of(data) == "bool" else data
        x = Term(emit, given)
        grid = emit.along(emit.positions(shape[axis], "int64"), axis, len(shape))
        places = Term(emit, emit.broadcast(grid, shape))
        for step in _steps(shape[axis]):
            earlier, place = (
                Term(emit, _delayed(emit, each.expr, axis, step, each.expr)) for each in (x, places)
            )
            later = (x >= earlier if largest else x <= earlier) | is_nan(x)
            x, places = x.where(later, earlier), places.where(later, place)
        return emit.operand(x.expr, dtype_of(data)), places.expr

    return convert


operator("cummax.default")(_running(largest=True))
operator("cummin.default")(_running(largest=False))


@operator("logcumsumexp.default")
def log_cumulative_sum_exp(emit: AtenEmitter, data: relax.Expr, axis: int) -> relax.Expr:
    """Return the logarithm of running sums of exponentials, which cannot overflow."""
    shape = list(shape_of(data))
    if not shape:
        return data
    axis = emit.axis(axis, len(shape))
    x = Term(emit, data)
    for step in _steps(shape[axis]):
        begin = emit.filled([*shape[:axis], step, *shape[axis + 1 :]], -math.inf, dtype_of(data))
        earlier = Term(emit, _delayed(emit, x.expr, axis, step, begin))
        largest, least = x.maximum(earlier), x.minimum(earlier)
        added = (1 + (least - largest).of(relax.op.exp)).of(relax.op.log)
        # Infinities of one sign have no difference, and are their own sum.
        same = largest.equals(least) & largest.of(relax.op.isinf)
        x = largest.where(same, largest + added)
    return x.expr
