# SPDX-License-Identifier: Apache-2.0
"""Elementwise arithmetic, with the broadcasting of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
from tvm import relax

from ...emitter import constant_array, dtype_of, shape_of
from ..narrow import Narrow, numbers
from ..node_emitter import NodeEmitter
from ..numbers import is_float, is_integer, is_signed
from .table import TAKES, Converter, operator

_UNARY = {
    "Abs": relax.op.abs,
    "Acos": relax.op.acos,
    "Acosh": relax.op.acosh,
    "Asin": relax.op.asin,
    "Asinh": relax.op.asinh,
    "Atan": relax.op.atan,
    "Atanh": relax.op.atanh,
    "BitwiseNot": relax.op.bitwise_not,
    "Ceil": relax.op.ceil,
    "Cos": relax.op.cos,
    "Cosh": relax.op.cosh,
    "Erf": relax.op.erf,
    "Exp": relax.op.exp,
    "Floor": relax.op.floor,
    "Log": relax.op.log,
    "Neg": relax.op.negative,
    "Not": relax.op.logical_not,
    "Sin": relax.op.sin,
    "Sinh": relax.op.sinh,
    "Sqrt": relax.op.sqrt,
    "Tan": relax.op.tan,
}

_BINARY = {
    "Add": relax.op.add,
    "And": relax.op.logical_and,
    "BitwiseAnd": relax.op.bitwise_and,
    "BitwiseOr": relax.op.bitwise_or,
    "BitwiseXor": relax.op.bitwise_xor,
    "Greater": relax.op.greater,
    "GreaterOrEqual": relax.op.greater_equal,
    "Less": relax.op.less,
    "LessOrEqual": relax.op.less_equal,
    "Mul": relax.op.multiply,
    "Or": relax.op.logical_or,
    "Sub": relax.op.subtract,
    "Xor": relax.op.logical_xor,
}

_OF_SEVERAL = {
    "Max": relax.op.maximum,
    "Min": relax.op.minimum,
    "Sum": relax.op.add,
}


def _unary(build: Callable[..., relax.Expr]) -> Converter:
    def convert(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
        return emit(build(data))

    return convert


def _binary(build: Callable[..., relax.Expr]) -> Converter:
    def convert(emit: NodeEmitter, left: relax.Expr, right: relax.Expr) -> relax.Expr:
        return emit(build(left, right))

    return convert


def _of_several(build: Callable[..., relax.Expr]) -> Converter:
    def convert(emit: NodeEmitter, *tensors: relax.Expr) -> relax.Expr:
        return reduce(lambda left, right: emit(build(left, right)), tensors)

    return convert


for _name, _build in _UNARY.items():
    operator(_name)(_unary(_build))
for _name, _build in _BINARY.items():
    operator(_name)(_binary(_build))
for _name, _build in _OF_SEVERAL.items():
    operator(_name)(_of_several(_build))


@operator("Equal")
def equal(emit: NodeEmitter, left: relax.Expr, right: relax.Expr) -> relax.Expr:
    if dtype_of(left) == "bool":
        return emit(relax.op.logical_not(emit(relax.op.logical_xor(left, right))))
    return emit(relax.op.equal(left, right))


@operator("Sign")
def sign(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
    if is_signed(dtype_of(data)) or is_float(dtype_of(data)):
        return emit(relax.op.sign(data))
    return emit(relax.op.minimum(data, emit.scalar(1, data)))


@operator("Mean")
def mean(emit: NodeEmitter, *tensors: relax.Expr) -> relax.Expr:
    total = reduce(lambda left, right: emit(relax.op.add(left, right)), tensors)
    return emit(relax.op.divide(total, emit.scalar(len(tensors), total)))


@operator("Reciprocal")
def reciprocal(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
    return emit(relax.op.divide(emit.scalar(1, data), data))


@operator("Round")
def round_(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
    """Round halves to even."""
    return emit(relax.op.round(data))


@operator("Div")
def divide(emit: NodeEmitter, left: relax.Expr, right: relax.Expr) -> relax.Expr:
    """Divide; the quotient of integers is rounded towards zero."""
    return emit(relax.op.divide(left, right))


@operator("Mod")
def mod(emit: NodeEmitter, left: relax.Expr, right: relax.Expr, *, fmod: int = 0) -> relax.Expr:
    """Return the remainder, with the sign of the divisor or, by ``fmod``, of the dividend."""
    if is_float(dtype_of(left)):
        if not fmod:
            return _floored_remainder(emit, left, right)
        return emit(relax.op.mod(left, right))
    if fmod or not is_signed(dtype_of(left)):
        return emit(relax.op.mod(left, right))
    return emit(relax.op.floor_mod(left, right))


def _floored_remainder(emit: NodeEmitter, left: relax.Expr, right: relax.Expr) -> relax.Expr:
    """Give the remainder of C the sign of the divisor, as Python does."""
    rest = emit(relax.op.mod(left, right))
    zero = emit.scalar(0, left)
    opposite = relax.op.logical_xor(relax.op.less(rest, zero), relax.op.less(right, zero))
    moves = relax.op.logical_and(opposite, relax.op.not_equal(rest, zero))
    return emit(relax.op.where(emit(moves), emit(relax.op.add(rest, right)), rest))


@operator("Pow")
def power(emit: NodeEmitter, base: relax.Expr, exponent: relax.Expr) -> relax.Expr:
    """Raise to a power in the type of the base; integers in float64."""
    dtype = dtype_of(base)
    if is_integer(dtype):
        wide = emit(relax.op.power(emit.cast(base, "float64"), emit.cast(exponent, "float64")))
        return emit.cast(wide, dtype)
    return emit(relax.op.power(base, emit.cast(exponent, dtype)))


@operator("BitShift")
def bit_shift(
    emit: NodeEmitter, data: relax.Expr, places: relax.Expr, *, direction: str
) -> relax.Expr:
    if direction not in ("LEFT", "RIGHT"):
        raise emit.error(f"has the direction {direction!r}, which is neither LEFT nor RIGHT.")
    build = relax.op.left_shift if direction == "LEFT" else relax.op.right_shift
    return emit(build(data, places))


@operator("IsNaN", narrow=TAKES)
def is_nan(emit: NodeEmitter, data: relax.Expr | Narrow) -> relax.Expr:
    return emit(relax.op.isnan(numbers(emit, data)))


@operator("IsInf", narrow=TAKES)
def is_inf(
    emit: NodeEmitter,
    data: relax.Expr | Narrow,
    *,
    detect_negative: int = 1,
    detect_positive: int = 1,
) -> relax.Expr:
    data = numbers(emit, data)
    if detect_negative and detect_positive:
        return emit(relax.op.isinf(data))
    if not (detect_negative or detect_positive):
        return emit.broadcast(relax.const(False, "bool"), shape_of(data))
    wanted = np.inf if detect_positive else -np.inf
    return emit(relax.op.equal(data, emit.scalar(wanted, data)))


@operator("Where")
def where(
    emit: NodeEmitter, condition: relax.Expr, chosen: relax.Expr, other: relax.Expr
) -> relax.Expr:
    return emit(relax.op.where(condition, chosen, other))


@operator("Clip")
def clip(
    emit: NodeEmitter,
    data: relax.Expr,
    min: relax.Expr | None = None,
    max: relax.Expr | None = None,
) -> relax.Expr:
    """Limit to a range; a bound that is NaN is none."""
    for bound, build in ((min, relax.op.maximum), (max, relax.op.minimum)):
        if bound is None:
            continue
        known = constant_array(bound)
        if known is None or not np.isnan(known.astype("float64")).any():
            data = emit(build(data, emit.cast(bound, dtype_of(data))))
    return data
