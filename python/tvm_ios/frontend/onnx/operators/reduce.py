# SPDX-License-Identifier: Apache-2.0
"""Reductions over axes, positions of extremes, and cumulative sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from tvm import relax

from ....sizes.arithmetic import is_empty
from ....sizes.size import AnySize
from ...emitter import dtype_of, is_constant, shape_of
from ..node_emitter import NodeEmitter
from ..numbers import is_float, is_integer
from .index import counted_from_the_begin
from .table import Converter, operator

Reduce = Callable[[NodeEmitter, relax.Expr, list[int], bool], relax.Expr]
"""Reduces axes, which may be none, and keeps them with one element or not."""


def _reduction(reduce: Reduce) -> Converter:
    def convert(
        emit: NodeEmitter,
        data: relax.Expr,
        axes: relax.Expr | None = None,
        *,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> relax.Expr:
        ndim = len(shape_of(data))
        given = [] if axes is None else emit.integers(axes, "its axes")
        if not given and noop_with_empty_axes:
            return reduce(emit, data, [], True)
        chosen = sorted(emit.axes(given, ndim)) if given else list(range(ndim))
        return reduce(emit, data, chosen, bool(keepdims))

    return convert


def _total(emit: NodeEmitter, data: relax.Expr, axes: list[int], keep: bool) -> relax.Expr:
    return emit(relax.op.sum(data, axes, keep)) if axes else data


def _mean(emit: NodeEmitter, data: relax.Expr, axes: list[int], keep: bool) -> relax.Expr:
    if not axes:
        return data
    if is_float(dtype_of(data)):
        return emit(relax.op.mean(data, axes, keep))
    count = math.prod(shape_of(data)[axis] for axis in axes)
    return emit(relax.op.divide(_total(emit, data, axes, keep), emit.scalar(count, data)))


def _extreme(build: Callable[..., relax.Expr], of_none: float) -> Reduce:
    def reduce(emit: NodeEmitter, data: relax.Expr, axes: list[int], keep: bool) -> relax.Expr:
        shape, dtype = shape_of(data), dtype_of(data)
        if not axes:
            return data
        if is_empty(shape):
            sizes = _reduced(shape, axes, keep)
            return emit.filled(sizes, _extreme_of_none(dtype, of_none), dtype)
        if dtype == "bool":
            return emit.cast(emit(build(emit.cast(data, "uint8"), axes, keep)), "bool")
        return emit(build(data, axes, keep))

    return reduce


def _reduced(shape: Sequence[AnySize], axes: list[int], keep: bool) -> list[AnySize]:
    sizes = [1 if axis in axes else size for axis, size in enumerate(shape)]
    return sizes if keep else [size for axis, size in enumerate(sizes) if axis not in axes]


def _extreme_of_none(dtype: str, of_none: float) -> float:
    """Return the largest or smallest value of a type, by the sign of infinity."""
    if not is_integer(dtype):
        return of_none if dtype != "bool" else of_none > 0
    limits = np.iinfo(dtype)
    return int(limits.max if of_none > 0 else limits.min)


def _product(emit: NodeEmitter, data: relax.Expr, axes: list[int], keep: bool) -> relax.Expr:
    return emit(relax.op.prod(data, axes, keep)) if axes else data


def _sum_square(emit: NodeEmitter, data: relax.Expr, axes: list[int], keep: bool) -> relax.Expr:
    return _total(emit, emit(relax.op.multiply(data, data)), axes, keep)


def _l1(emit: NodeEmitter, data: relax.Expr, axes: list[int], keep: bool) -> relax.Expr:
    return _total(emit, emit(relax.op.abs(data)), axes, keep)


def _l2(emit: NodeEmitter, data: relax.Expr, axes: list[int], keep: bool) -> relax.Expr:
    total = _sum_square(emit, data, axes, keep)
    if is_float(dtype_of(data)):
        return emit(relax.op.sqrt(total))
    root = emit(relax.op.sqrt(emit.cast(total, "float64")))
    return emit.cast(root, dtype_of(data))


def _log_sum(emit: NodeEmitter, data: relax.Expr, axes: list[int], keep: bool) -> relax.Expr:
    _expect_floats(emit, data)
    return emit(relax.op.log(_total(emit, data, axes, keep)))


def _log_sum_exp(emit: NodeEmitter, data: relax.Expr, axes: list[int], keep: bool) -> relax.Expr:
    """Add exponentials of what the largest element exceeds, which cannot overflow."""
    _expect_floats(emit, data)
    if is_empty(shape_of(data)):
        return _log_sum(emit, emit(relax.op.exp(data)), axes, keep)
    largest = _largest(emit, data, axes, True)
    finite = emit(relax.op.isfinite(largest))
    largest = emit(relax.op.where(finite, largest, emit.scalar(0, data)))
    terms = emit(relax.op.exp(relax.op.subtract(data, largest)))
    total = _log_sum(emit, terms, axes, keep)
    return emit(relax.op.add(total, emit.reshape(largest, shape_of(total))))


def _expect_floats(emit: NodeEmitter, data: relax.Expr) -> None:
    if not is_float(dtype_of(data)):  # implementations do not agree on what is rounded
        raise emit.error("of integers is not supported.")


_largest = _extreme(relax.op.max, -math.inf)

for _name, _reduce in {
    "ReduceL1": _l1,
    "ReduceL2": _l2,
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceMax": _largest,
    "ReduceMean": _mean,
    "ReduceMin": _extreme(relax.op.min, math.inf),
    "ReduceProd": _product,
    "ReduceSum": _total,
    "ReduceSumSquare": _sum_square,
}.items():
    operator(_name)(_reduction(_reduce))


def _position(build: Callable[..., relax.Expr]) -> Converter:
    def convert(
        emit: NodeEmitter,
        data: relax.Expr,
        *,
        axis: int = 0,
        keepdims: int = 1,
        select_last_index: int = 0,
    ) -> relax.Expr:
        shape = shape_of(data)
        axis = emit.axis(axis, len(shape))
        if select_last_index:
            data = emit(relax.op.flip(data, axis))
        place = emit.cast(emit(build(data, axis, bool(keepdims))), "int64")
        if not select_last_index:
            return place
        return emit(relax.op.subtract(emit.scalar(shape[axis] - 1, place), place))

    return convert


operator("ArgMax")(_position(relax.op.argmax))
operator("ArgMin")(_position(relax.op.argmin))


def _cumulative(build: Callable[..., relax.Expr]) -> Converter:
    def convert(
        emit: NodeEmitter,
        data: relax.Expr,
        axis: relax.Expr,
        *,
        exclusive: int = 0,
        reverse: int = 0,
    ) -> relax.Expr:
        def along(place: int) -> relax.Expr:
            ahead = emit(relax.op.flip(data, place)) if reverse else data
            result = emit(build(ahead, place, dtype_of(data), bool(exclusive)))
            return emit(relax.op.flip(result, place)) if reverse else result

        ndim = len(shape_of(data))
        if is_constant(axis):
            return along(emit.axis(int(emit.number(axis, "its axis")), ndim))
        return _along_computed(emit, axis, [along(place) for place in range(ndim)])

    return convert


def _along_computed(emit: NodeEmitter, axis: relax.Expr, results: list[relax.Expr]) -> relax.Expr:
    """Choose among results along all axes by an axis that is computed."""
    counted = counted_from_the_begin(emit, emit.reshape(axis, []), [len(results)])
    # What is taken is the axis itself, which is checked by it.
    places = emit.positions(len(results), "int64")
    chosen = emit(relax.op.take(places, counted, 0))
    result = results[0]
    for place, other in enumerate(results[1:], 1):
        is_it = emit(relax.op.equal(chosen, emit.scalar(place, chosen)))
        result = emit(relax.op.where(is_it, other, result))
    return result


operator("CumSum")(_cumulative(relax.op.cumsum))
operator("CumProd")(_cumulative(relax.op.cumprod))
