# SPDX-License-Identifier: Apache-2.0
"""Tensors that are made of numbers alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tvm import relax

from ....sizes.arithmetic import ceil_div, require_least
from ....sizes.ratio import SingleRatio
from ....sizes.size import AnySize, is_open, known_equal
from ...emitter import constant, constant_array, dtype_of, shape_of
from ..narrow import Narrow
from ..node_emitter import NodeEmitter
from ..numbers import is_integer
from ..tensors import name_of_type
from .table import TAKES, Converter, Value, operator


@operator("Constant", narrow=TAKES)
def constant_node(
    emit: NodeEmitter,
    *,
    value: Value = None,
    value_float: float | None = None,
    value_floats: Sequence[float] | None = None,
    value_int: int | None = None,
    value_ints: Sequence[int] | None = None,
) -> Value:
    if value is not None:
        return value
    whole = value_ints if value_int is None else value_int
    if whole is not None:
        return constant(np.array(whole, "int64"))
    real = value_floats if value_float is None else value_float
    if real is not None:
        return constant(np.array(real, "float32"))
    raise emit.error("has no value.")


@operator("ConstantOfShape", narrow=TAKES)
def constant_of_shape(
    emit: NodeEmitter, shape: relax.Expr, *, value: relax.Expr | Narrow | None = None
) -> Value:
    if isinstance(value, Narrow):
        held = constant_of_shape(emit, shape, value=value.stored)
        return Narrow(held, value.dtype)
    number = np.zeros(1, "float32") if value is None else emit.array(value, "its value")
    sizes = emit.integers(shape, "its shape")
    return emit.filled(sizes, number.reshape(-1)[0].item(), str(number.dtype))


@operator("Range")
def range_(
    emit: NodeEmitter,
    start: relax.Expr,
    limit: relax.Expr,
    delta: relax.Expr,
    *,
    stash_type: int = 1,
) -> relax.Expr:
    dtype = dtype_of(start)
    begin, end, step = (
        emit.number(number, what)
        for number, what in ((start, "its start"), (limit, "its limit"), (delta, "its step"))
    )
    if step == 0:
        raise emit.error("has a step of 0.")
    if is_open((begin, end, step)):
        return _open_range(emit, begin, end, step, dtype)
    if any(isinstance(number, SingleRatio) for number in (begin, end, step)):
        first, last, by = map(SingleRatio.of, (begin, end, step))
        return _range_of_ratios(emit, first, last, by, dtype)
    count = max(math.ceil((end - begin) / step), 0)
    emit.allocate([count], "int64")
    if is_integer(dtype):
        return constant((int(begin) + int(step) * np.arange(count)).astype(dtype))
    return constant((begin + step * np.arange(count)).astype(dtype))


def _open_range(
    emit: NodeEmitter, begin: AnySize, end: AnySize, step: AnySize, dtype: str
) -> relax.Expr:
    """Return numbers from open sizes, or to them."""
    if is_open([step]) or not is_integer(dtype):
        raise emit.error("counts to a size that is open in steps that are open, or by fractions.")
    way = end - begin if step > 0 else begin - end
    if not require_least(way, 1):
        return emit.full([0], 0, dtype)
    numbers = emit.positions(ceil_div(way, abs(int(step))), dtype)
    if step != 1:
        numbers = emit(relax.op.multiply(numbers, emit.scalar(int(step), numbers)))
    if known_equal(begin, 0):
        return numbers
    return emit(relax.op.add(numbers, emit.sizes(begin, dtype)))


def _range_of_ratios(
    emit: NodeEmitter, begin: SingleRatio, end: SingleRatio, step: SingleRatio, dtype: str
) -> relax.Expr:
    """Return floating-point numbers from, or to, what is computed from open sizes."""
    count = ((end - begin) / step).ceil().whole()
    if not require_least(count, 1):
        return emit.full([0], 0, dtype)
    numbers = emit.positions(count, dtype)
    if step != SingleRatio(1):
        factor = emit.scalar(step.above / step.below, numbers)
        numbers = emit(relax.op.multiply(numbers, factor))
    if begin == SingleRatio(0):
        return numbers
    return emit(relax.op.add(numbers, emit.sizes(np.array(begin, object), dtype)))


@operator("EyeLike")
def eye_like(
    emit: NodeEmitter, data: relax.Expr, *, dtype: int | None = None, k: int = 0
) -> relax.Expr:
    name = dtype_of(data) if dtype is None else name_of_type(emit, dtype)
    rows, columns = shape_of(data)
    if is_open((rows, columns)):
        return _open_eye(emit, rows, columns, k, name)
    emit.allocate([rows, columns], name)
    return constant(np.eye(rows, columns, k).astype(name))


def _open_eye(emit: NodeEmitter, rows: AnySize, columns: AnySize, k: int, dtype: str) -> relax.Expr:
    below = emit.reshape(emit.positions(rows, "int64"), [rows, 1])
    diagonals = emit(relax.op.subtract(emit.positions(columns, "int64"), below))
    return emit.cast(emit(relax.op.equal(diagonals, relax.const(k, "int64"))), dtype)


@operator("Dropout")
def dropout(
    emit: NodeEmitter,
    data: relax.Expr,
    ratio: relax.Expr | None = None,
    training_mode: relax.Expr | None = None,
    *,
    seed: int | None = None,
    is_test: int = 1,
) -> tuple[relax.Expr, ...]:
    """Pass the data on, and a mask that drops nothing."""
    drops = ratio is None or constant_array(ratio) is None or emit.number(ratio, "its ratio") != 0
    if training_mode is not None and drops:
        switch = constant_array(training_mode)
        if switch is None or switch.any():
            raise emit.error("is in training mode; export the model in inference mode.")
    if not emit.wants(1):
        return (data,)
    return data, emit.filled(shape_of(data), True, "bool")


def _window(a: float, b: float, c: float) -> Converter:
    """Return the converter of a window of two cosines."""

    def convert(
        emit: NodeEmitter, size: relax.Expr, *, output_datatype: int = 1, periodic: int = 1
    ) -> relax.Expr:
        count = int(emit.number(size, "its size"))
        emit.allocate([count], "float64")
        angle = 2 * np.pi * np.arange(count) / (count if periodic else max(count - 1, 1))
        values = a - b * np.cos(angle) + c * np.cos(2 * angle)
        return constant(values.astype(name_of_type(emit, output_datatype)))

    return convert


operator("BlackmanWindow")(_window(0.42, 0.5, 0.08))
operator("HammingWindow")(_window(25 / 46, 21 / 46, 0.0))
operator("HannWindow")(_window(0.5, 0.5, 0.0))
