# SPDX-License-Identifier: Apache-2.0
"""Reductions over some axes, or over all except some."""

from __future__ import annotations

import math
from collections.abc import Callable

from tvm import relax

from ...frontend.emitter import Emitter, dtype_of, shape_of
from .table import Converter, operator

_REDUCTIONS = {
    "max": relax.op.max,
    "mean": relax.op.mean,
    "min": relax.op.min,
    "prod": relax.op.prod,
    "sum": relax.op.sum,
}
_OF_BOOL = {"all": relax.op.min, "any": relax.op.max}
_POSITIONS = {"argmax": relax.op.argmax, "argmin": relax.op.argmin}


def reduced_axes(
    emit: Emitter, ndim: int, axis: int | tuple[int, ...] | None, exclude: bool
) -> list[int]:
    """Return the reduced axes as non-negative numbers.

    Parameters
    ----------
    emit : Emitter
        The emitter.
    ndim : int
        The number of axes.
    axis : int, tuple of int or None
        The attribute; None or empty means all axes.
    exclude : bool
        Whether to reduce all other axes instead.
    """
    given = axis if isinstance(axis, tuple) else () if axis is None else (axis,)
    axes = sorted({emit.axis(int(i), ndim) for i in given})
    if exclude and not axes:
        raise emit.error("excludes axes, but names none; give axis.")
    if not axes:
        return list(range(ndim))
    return [i for i in range(ndim) if i not in axes] if exclude else axes


def _reduction(build: Callable[..., relax.Expr], *, of_bool: bool = False) -> Converter:
    """Convert a reduction; one of booleans uses the minimum or maximum of numbers."""

    def convert(
        emit: Emitter,
        data: relax.Expr,
        *,
        axis: int | tuple[int, ...] | None = None,
        keepdims: bool = False,
        exclude: bool = False,
    ) -> relax.Expr:
        axes = reduced_axes(emit, len(shape_of(data)), axis, exclude)
        numbers = emit.cast(data, "int8") if of_bool else data
        result = emit(build(numbers, axes, bool(keepdims))) if axes else numbers
        return emit.cast(result, "bool") if of_bool else result

    return convert


def _position(build: Callable[..., relax.Expr]) -> Converter:
    def convert(
        emit: Emitter,
        data: relax.Expr,
        *,
        axis: int | tuple[int, ...] | None = None,
        keepdims: bool = False,
        select_last_index: bool = False,
        exclude: bool = False,
    ) -> relax.Expr:
        """Return positions counted through all reduced axes; Relax reduces one axis, to int64."""
        shape = shape_of(data)
        axes = reduced_axes(emit, len(shape), axis, exclude)
        if not axes:
            raise emit.error("reduces no axis; give axis without exclude.")
        kept = [i for i in range(len(shape)) if i not in axes]
        count = math.prod(shape[i] for i in axes)
        rows = emit.transpose(data, kept + axes)
        rows = emit.reshape(rows, (*[shape[i] for i in kept], count))
        if select_last_index:
            rows = emit(relax.op.flip(rows, len(kept)))
        result = emit.cast(emit(build(rows, len(kept))), "int32")
        if select_last_index:
            result = emit(relax.op.subtract(relax.const(count - 1, "int32"), result))
        ones = [1 if i in axes else size for i, size in enumerate(shape)]
        return emit.reshape(result, ones) if keepdims else result

    return convert


for _name, _build in _REDUCTIONS.items():
    operator(_name)(_reduction(_build))
for _name, _build in _OF_BOOL.items():
    operator(_name)(_reduction(_build, of_bool=True))
for _name, _build in _POSITIONS.items():
    operator(_name)(_position(_build))


@operator("variance")
def variance(
    emit: Emitter,
    data: relax.Expr,
    mean: relax.Expr,
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
) -> relax.Expr:
    """Return the mean square distance from a given mean, which keeps the reduced axes."""
    shape = shape_of(data)
    axes = reduced_axes(emit, len(shape), axis, exclude)
    distance = emit(relax.op.subtract(data, mean))
    total = emit(relax.op.sum(relax.op.multiply(distance, distance), axes, bool(keepdims)))
    count = math.prod(shape[i] for i in axes) - bool(unbiased)
    return emit(relax.op.divide(total, relax.const(float(count), dtype_of(data))))
