# SPDX-License-Identifier: Apache-2.0
"""Reductions over axes, positions of extremes, and cumulative sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tvm import relax

from ....sizes.size import AnySize
from ...emitter import dtype_of, shape_of
from ...onnx.numbers import is_float
from ...onnx.operators.table import Value
from ..node_emitter import AtenEmitter
from .table import Converter, operator

Axes = int | Sequence[int] | None


def _axes(emit: AtenEmitter, data: relax.Expr, axes: Axes) -> list[int]:
    """Return axes as non-negative numbers; none are all."""
    ndim = len(shape_of(data))
    given = [axes] if isinstance(axes, int) else list(axes or range(ndim))
    return sorted(emit.axes(given, ndim)) if ndim else []


@operator("sum.default", "sum.dim_IntList")
def total(emit: AtenEmitter, data: relax.Expr, axes: Axes = None, keep: bool = False) -> relax.Expr:
    return _reduced(emit, relax.op.sum, emit.operand(data), axes, keep)


@operator("mean.default", "mean.dim")
def mean(emit: AtenEmitter, data: relax.Expr, axes: Axes = None, keep: bool = False) -> relax.Expr:
    return _reduced(emit, relax.op.mean, emit.operand(data), axes, keep)


@operator("prod.default", "prod.dim_int")
def product(
    emit: AtenEmitter, data: relax.Expr, axes: Axes = None, keep: bool = False
) -> relax.Expr:
    return _reduced(emit, relax.op.prod, emit.operand(data), axes, keep)


@operator("amax.default", "max.default")
def amax(emit: AtenEmitter, data: relax.Expr, axes: Axes = None, keep: bool = False) -> relax.Expr:
    return _extreme(emit, relax.op.max, data, axes, keep)


@operator("amin.default", "min.default")
def amin(emit: AtenEmitter, data: relax.Expr, axes: Axes = None, keep: bool = False) -> relax.Expr:
    return _extreme(emit, relax.op.min, data, axes, keep)


@operator("prims.sum.default")
def total_of_axes(emit: AtenEmitter, data: relax.Expr, axes: Sequence[int] | None) -> relax.Expr:
    """Return the sum over axes, of which an empty list is none."""
    return data if axes is not None and not len(axes) else total(emit, data, axes)


def _reduced(
    emit: AtenEmitter, build: Callable[..., relax.Expr], data: relax.Expr, axes: Axes, keep: bool
) -> relax.Expr:
    chosen = _axes(emit, data, axes)
    return emit(build(data, chosen, keep)) if chosen else data


def _extreme(
    emit: AtenEmitter, build: Callable[..., relax.Expr], data: relax.Expr, axes: Axes, keep: bool
) -> relax.Expr:
    if dtype_of(data) != "bool":
        return _reduced(emit, build, data, axes, keep)
    return emit.operand(_reduced(emit, build, emit.cast(data, "uint8"), axes, keep), "bool")


def _logical(build: Callable[..., relax.Expr]) -> Converter:
    def convert(
        emit: AtenEmitter, data: relax.Expr, axes: Axes = None, keep: bool = False
    ) -> relax.Expr:
        truth = emit.operand(data, "bool")
        none = axes is not None and not isinstance(axes, int) and not len(axes)
        result = truth if none else _extreme(emit, build, truth, axes, keep)
        return emit.operand(result)

    return convert


for _name, _build in (("any", relax.op.max), ("all", relax.op.min)):
    operator(f"{_name}.default", f"{_name}.dim", f"{_name}.dims")(_logical(_build))


@operator("var.correction", "prims.var.default")
def variance(
    emit: AtenEmitter,
    data: relax.Expr,
    axes: Axes = None,
    correction: float | None = None,
    keepdim: bool = False,
) -> relax.Expr:
    """Return the mean square of the distances from the mean, of one element fewer by default."""
    chosen = _axes(emit, data, axes)
    centred = emit(relax.op.subtract(data, emit(relax.op.mean(data, chosen, True))))
    squares = emit(relax.op.multiply(centred, centred))
    count = math.prod(shape_of(data)[axis] for axis in chosen)
    fewer = 1 if correction is None else correction
    if fewer == 0:
        return emit(relax.op.mean(squares, chosen, keepdim))
    sums = emit(relax.op.sum(squares, chosen, keepdim))
    return emit(relax.op.divide(sums, _divisor(emit, count, fewer, dtype_of(sums))))


def _divisor(emit: AtenEmitter, count: AnySize, fewer: float, dtype: str) -> relax.Expr:
    """Return some elements fewer than there are, but not fewer than none."""
    if isinstance(count, int):
        return emit.literal(max(count - fewer, 0), dtype)
    rest = emit.difference(emit.operand(count, dtype), emit.literal(fewer, dtype))
    return emit(relax.op.maximum(rest, emit.literal(0, dtype)))


@operator("std.correction")
def deviation(
    emit: AtenEmitter,
    data: relax.Expr,
    axes: Axes = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> relax.Expr:
    squared = variance(emit, data, axes, correction=correction, keepdim=keepdim)
    return emit(relax.op.sqrt(squared))


def _position(build: Callable[..., relax.Expr]) -> Converter:
    def convert(
        emit: AtenEmitter, data: relax.Expr, axis: int | None = None, keep: bool = False
    ) -> relax.Expr:
        shape = shape_of(data)
        if not shape:
            return emit.full([], 0, "int64")
        if dtype_of(data) == "bool":
            data = emit.cast(data, "uint8")
        if axis is None:
            data, axis = emit.reshape(data, [math.prod(shape)]), 0
        place = emit(build(data, emit.axis(axis, len(shape_of(data))), bool(keep)))
        return emit.reshape(emit.cast(place, "int64"), emit.shape)

    return convert


_argmax, _argmin = _position(relax.op.argmax), _position(relax.op.argmin)
operator("argmax.default")(_argmax)
operator("argmin.default")(_argmin)


def _with_places(extreme: Converter, position: Converter) -> Converter:
    def convert(emit: AtenEmitter, data: relax.Expr, axis: int, keep: bool = False) -> Value:
        values = extreme(emit, data, axis, keep)
        return values, position(emit, data, axis, keep) if emit.wants(1) else None

    return convert


operator("max.dim")(_with_places(amax, _argmax))
operator("min.dim")(_with_places(amin, _argmin))


def _cumulative(build: Callable[..., relax.Expr]) -> Converter:
    def convert(emit: AtenEmitter, data: relax.Expr, axis: int) -> relax.Expr:
        x = emit.operand(data)
        if not shape_of(x):
            return x
        return emit(build(x, emit.axis(axis, len(shape_of(x))), emit.dtype))

    return convert


operator("cumsum.default")(_cumulative(relax.op.cumsum))
operator("cumprod.default")(_cumulative(relax.op.cumprod))


@operator("linalg_vector_norm.default")
def vector_norm(
    emit: AtenEmitter, data: relax.Expr, order: float, axes: Axes, keep: bool
) -> relax.Expr:
    x = emit.operand(data)
    if not is_float(dtype_of(x)):
        raise emit.error("is the norm of integers, which is not supported.")
    return norm(emit, x, order, axes, keep)


def norm(emit: AtenEmitter, x: relax.Expr, order: float, axes: Axes, keep: bool) -> relax.Expr:
    """Return a norm of vectors along axes; of order 0, how many elements are not 0."""
    size = emit(relax.op.abs(x))
    if math.isinf(order):
        return _reduced(emit, relax.op.max if order > 0 else relax.op.min, size, axes, keep)
    if order == 0:
        present = emit.cast(emit(relax.op.not_equal(x, emit.scalar(0, x))), dtype_of(x))
        return _reduced(emit, relax.op.sum, present, axes, keep)
    if order == 1:
        return _reduced(emit, relax.op.sum, size, axes, keep)
    if order == 2:
        squares = emit(relax.op.multiply(x, x))
        return emit(relax.op.sqrt(_reduced(emit, relax.op.sum, squares, axes, keep)))
    powers = emit(relax.op.power(size, emit.scalar(order, x)))
    sums = _reduced(emit, relax.op.sum, powers, axes, keep)
    return emit(relax.op.power(sums, emit.scalar(1 / order, sums)))
