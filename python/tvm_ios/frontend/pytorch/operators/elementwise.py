# SPDX-License-Identifier: Apache-2.0
"""Elementwise arithmetic, with PyTorch's rules of types."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax

from ...emitter import dtype_of
from ...onnx.numbers import is_float, is_integer
from ...onnx.operators.elementwise import mod
from ..node_emitter import AtenEmitter
from .table import Converter, operator

Build = Callable[..., relax.Expr]

_OF_NUMBERS: dict[str, Build] = {
    "acos": relax.op.acos,
    "acosh": relax.op.acosh,
    "asin": relax.op.asin,
    "atan": relax.op.atan,
    "atanh": relax.op.atanh,
    "cos": relax.op.cos,
    "cosh": relax.op.cosh,
    "erf": relax.op.erf,
    "exp": relax.op.exp,
    "log": relax.op.log,
    "rsqrt": relax.op.rsqrt,
    "sigmoid": relax.op.sigmoid,
    "sin": relax.op.sin,
    "sinh": relax.op.sinh,
    "sqrt": relax.op.sqrt,
    "tan": relax.op.tan,
    "tanh": relax.op.tanh,
}
"""Functions that are computed in floating point."""

_OF_SAME_TYPE: dict[str, Build] = {
    "abs": relax.op.abs,
    "neg": relax.op.negative,
    "sign": relax.op.sign,
}

_ROUNDINGS: dict[str, Build] = {
    "ceil": relax.op.ceil,
    "floor": relax.op.floor,
    "round": relax.op.round,
    "trunc": relax.op.trunc,
}
"""Functions that leave integers as they are."""

_COMPARISONS: dict[str, Build] = {
    "eq": relax.op.equal,
    "ge": relax.op.greater_equal,
    "gt": relax.op.greater,
    "le": relax.op.less_equal,
    "lt": relax.op.less,
    "ne": relax.op.not_equal,
}

_LOGICAL: dict[str, Build] = {
    "and": relax.op.logical_and,
    "or": relax.op.logical_or,
    "xor": relax.op.logical_xor,
}

_BITWISE: dict[str, Build] = {
    "and": relax.op.bitwise_and,
    "or": relax.op.bitwise_or,
    "xor": relax.op.bitwise_xor,
}


def _unary(build: Build) -> Converter:
    def convert(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
        return emit(build(emit.operand(data)))

    return convert


def _rounding(build: Build) -> Converter:
    def convert(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
        return emit(build(data)) if is_float(dtype_of(data)) else data

    return convert


def _comparison(build: Build) -> Converter:
    def convert(emit: AtenEmitter, left: Any, right: Any) -> relax.Expr:
        dtype = emit.common_dtype()
        return emit(build(emit.operand(left, dtype), emit.operand(right, dtype)))

    return convert


def _logical(build: Build) -> Converter:
    def convert(emit: AtenEmitter, left: Any, right: Any) -> relax.Expr:
        return emit(build(emit.operand(left, "bool"), emit.operand(right, "bool")))

    return convert


def _bitwise(build: Build, logical: Build) -> Converter:
    def convert(emit: AtenEmitter, left: Any, right: Any) -> relax.Expr:
        operands = emit.operand(left), emit.operand(right)
        return emit((logical if emit.dtype == "bool" else build)(*operands))

    return convert


for _name, _build in (_OF_NUMBERS | _OF_SAME_TYPE).items():
    operator(f"{_name}.default", f"prims.{_name}.default")(_unary(_build))
for _name, _build in _ROUNDINGS.items():
    operator(f"{_name}.default")(_rounding(_build))
for _name, _build in _COMPARISONS.items():
    operator(f"{_name}.Tensor", f"{_name}.Scalar")(_comparison(_build))
for _name, _build in _LOGICAL.items():
    operator(f"logical_{_name}.default")(_logical(_build))
    _both = _bitwise(_BITWISE[_name], _build)
    operator(f"bitwise_{_name}.Tensor", f"bitwise_{_name}.Scalar")(_both)


@operator("logical_not.default")
def logical_not(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
    return emit(relax.op.logical_not(emit.operand(data, "bool")))


@operator("bitwise_not.default")
def bitwise_not(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
    build = relax.op.logical_not if emit.dtype == "bool" else relax.op.bitwise_not
    return emit(build(data))


@operator(
    "bitwise_left_shift.Tensor",
    "bitwise_left_shift.Tensor_Scalar",
    "__lshift__.Tensor",
    "__lshift__.Scalar",
)
def left_shift(emit: AtenEmitter, data: relax.Expr, places: Any) -> relax.Expr:
    return emit(relax.op.left_shift(emit.operand(data), emit.operand(places)))


@operator(
    "bitwise_right_shift.Tensor",
    "bitwise_right_shift.Tensor_Scalar",
    "__rshift__.Tensor",
    "__rshift__.Scalar",
)
def right_shift(emit: AtenEmitter, data: relax.Expr, places: Any) -> relax.Expr:
    return emit(relax.op.right_shift(emit.operand(data), emit.operand(places)))


@operator("isnan.default")
def isnan(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
    if not is_float(dtype_of(data)):
        return emit.filled(emit.shape, False, "bool")
    return emit(relax.op.isnan(data))


@operator("isinf.default")
def isinf(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
    if not is_float(dtype_of(data)):
        return emit.filled(emit.shape, False, "bool")
    return emit(relax.op.isinf(data))


@operator("log2.default")
def log2(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
    return _times(emit, emit(relax.op.log(emit.operand(data))), 1 / math.log(2))


@operator("log10.default")
def log10(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
    return _times(emit, emit(relax.op.log(emit.operand(data))), 1 / math.log(10))


@operator("exp2.default")
def exp2(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
    return emit(relax.op.power(emit.operand(2.0), emit.operand(data)))


@operator("expm1.default")
def expm1(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
    """Return ``exp(x) - 1``; near 0 by the series of the exponential."""
    x = emit.operand(data)
    terms = 17 if dtype_of(x) == "float64" else 9
    series = _series(emit, x, [1 / math.factorial(n + 1) for n in range(terms)])
    near = emit(relax.op.multiply(x, series))
    far = emit(relax.op.subtract(emit(relax.op.exp(x)), emit.scalar(1, x)))
    return _near_zero(emit, x, near, far)


@operator("log1p.default")
def log1p(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
    """Return ``log(1 + x)``; near 0 by the series of ``s = x / (2 + x)``."""
    x = emit.operand(data)
    ratio = emit(relax.op.divide(x, emit(relax.op.add(x, emit.scalar(2, x)))))
    square = emit(relax.op.multiply(ratio, ratio))
    terms = 16 if dtype_of(x) == "float64" else 8
    series = _series(emit, square, [2 / (2 * n + 1) for n in range(terms)])
    near = emit(relax.op.multiply(ratio, series))
    far = emit(relax.op.log(emit(relax.op.add(x, emit.scalar(1, x)))))
    return _near_zero(emit, x, near, far)


def _series(emit: AtenEmitter, x: relax.Expr, factors: Sequence[float]) -> relax.Expr:
    """Return a polynomial, whose constant is first."""
    result = emit.scalar(factors[-1], x)
    for factor in reversed(factors[:-1]):
        result = emit(relax.op.multiply(result, x))
        result = emit(relax.op.add(result, emit.scalar(factor, x)))
    return result


def _near_zero(emit: AtenEmitter, x: relax.Expr, near: relax.Expr, far: relax.Expr) -> relax.Expr:
    small = emit(relax.op.less(emit(relax.op.abs(x)), emit.scalar(0.5, x)))
    return emit(relax.op.where(small, near, far))


@operator("asinh.default")
def asinh(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
    """Return the function of the size, with the sign; the sum of its logarithm does not cancel."""
    x = emit.operand(data)
    size = emit(relax.op.abs(x))
    return emit(relax.op.multiply(emit(relax.op.sign(x)), emit(relax.op.asinh(size))))


@operator("reciprocal.default")
def reciprocal(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
    return emit(relax.op.divide(emit.operand(1.0), emit.operand(data)))


@operator("round.decimals")
def round_decimals(emit: AtenEmitter, data: relax.Expr, *, decimals: int = 0) -> relax.Expr:
    if not is_float(dtype_of(data)):
        raise emit.error("rounds integers to a place, which is not supported.")
    factor = emit.scalar(10.0 ** abs(decimals), data)
    to, back = relax.op.multiply, relax.op.divide
    if decimals < 0:
        to, back = back, to
    return emit(back(emit(relax.op.round(emit(to(data, factor)))), factor))


@operator("add.Tensor", "add.Scalar")
def add(emit: AtenEmitter, left: Any, right: Any, alpha: float = 1) -> relax.Expr:
    operands = emit.operand(left), _scaled(emit, right, alpha)
    return emit((relax.op.logical_or if emit.dtype == "bool" else relax.op.add)(*operands))


@operator("sub.Tensor", "sub.Scalar")
def sub(emit: AtenEmitter, left: Any, right: Any, alpha: float = 1) -> relax.Expr:
    return emit(relax.op.subtract(emit.operand(left), _scaled(emit, right, alpha)))


def _scaled(emit: AtenEmitter, value: Any, alpha: float) -> relax.Expr:
    if not isinstance(value, relax.Expr):
        return emit.operand(value * alpha)
    operand = emit.operand(value)
    return operand if alpha == 1 else _times(emit, operand, alpha)


def _times(emit: AtenEmitter, x: relax.Expr, factor: float) -> relax.Expr:
    return emit(relax.op.multiply(x, emit.scalar(factor, x)))


@operator("mul.Tensor", "mul.Scalar")
def mul(emit: AtenEmitter, left: Any, right: Any) -> relax.Expr:
    operands = emit.operand(left), emit.operand(right)
    return emit((relax.op.logical_and if emit.dtype == "bool" else relax.op.multiply)(*operands))


@operator("maximum.default")
def maximum(emit: AtenEmitter, left: Any, right: Any) -> relax.Expr:
    operands = emit.operand(left), emit.operand(right)
    return emit((relax.op.logical_or if emit.dtype == "bool" else relax.op.maximum)(*operands))


@operator("minimum.default")
def minimum(emit: AtenEmitter, left: Any, right: Any) -> relax.Expr:
    operands = emit.operand(left), emit.operand(right)
    return emit((relax.op.logical_and if emit.dtype == "bool" else relax.op.minimum)(*operands))


@operator("atan2.default")
def atan2(emit: AtenEmitter, left: Any, right: Any) -> relax.Expr:
    return emit(relax.op.atan2(emit.operand(left), emit.operand(right)))


@operator("div.Tensor", "div.Scalar", "prims.div.default")
def div(emit: AtenEmitter, left: Any, right: Any) -> relax.Expr:
    return emit(relax.op.divide(emit.operand(left), emit.operand(right)))


@operator("div.Tensor_mode", "div.Scalar_mode")
def div_mode(
    emit: AtenEmitter, left: Any, right: Any, *, rounding_mode: str | None = None
) -> relax.Expr:
    """Divide; the quotient is rounded down, towards zero, or not."""
    a, b = emit.operand(left), emit.operand(right)
    if rounding_mode is None:
        return emit(relax.op.divide(a, b))
    if is_integer(emit.dtype):
        floors = rounding_mode == "floor"
        return emit((relax.op.floor_divide if floors else relax.op.divide)(a, b))
    quotient = emit(relax.op.divide(a, b))
    if rounding_mode == "trunc":
        return emit(relax.op.trunc(quotient))
    return _floored_quotient(emit, a, b, quotient)


@operator("floor_divide.default")
def floor_divide(emit: AtenEmitter, left: Any, right: Any) -> relax.Expr:
    return div_mode(emit, left, right, rounding_mode="floor")


def _floored_quotient(
    emit: AtenEmitter, a: relax.Expr, b: relax.Expr, quotient: relax.Expr
) -> relax.Expr:
    """Return what the division leaves after the remainder is taken off, as Python does.

    A quotient just below an integer may be rounded to it.
    """
    rest = mod(emit, a, b)
    exact = emit(relax.op.divide(emit(relax.op.subtract(a, rest)), b))
    finite = emit(relax.op.isfinite(quotient))
    return emit(relax.op.where(finite, emit(relax.op.round(exact)), quotient))


@operator("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(emit: AtenEmitter, left: Any, right: Any) -> relax.Expr:
    """Return the remainder with the sign of the divisor."""
    return mod(emit, emit.operand(left), emit.operand(right))


@operator("fmod.Tensor", "fmod.Scalar")
def fmod(emit: AtenEmitter, left: Any, right: Any) -> relax.Expr:
    """Return the remainder with the sign of the dividend."""
    return mod(emit, emit.operand(left), emit.operand(right), fmod=1)


@operator("pow.Tensor_Tensor", "pow.Scalar")
def power(emit: AtenEmitter, base: Any, exponent: Any) -> relax.Expr:
    if is_integer(emit.dtype):
        wide = relax.op.power(emit.operand(base, "float64"), emit.operand(exponent, "float64"))
        return emit.cast(emit(wide), emit.dtype)
    return emit(relax.op.power(emit.operand(base), emit.operand(exponent)))


@operator("pow.Tensor_Scalar")
def power_of_number(emit: AtenEmitter, base: relax.Expr, exponent: float) -> relax.Expr:
    x = emit.operand(base)
    if exponent == 2:
        return emit(relax.op.multiply(x, x))
    if exponent == 3:
        return emit(relax.op.multiply(emit(relax.op.multiply(x, x)), x))
    if exponent == 0.5:
        return emit(relax.op.sqrt(x))
    if exponent == -0.5:
        return emit(relax.op.rsqrt(x))
    return power(emit, base, exponent)


@operator("where.self", "prims.where.default")
def where(emit: AtenEmitter, condition: relax.Expr, chosen: Any, other: Any) -> relax.Expr:
    condition = emit.operand(condition, "bool")
    return emit(relax.op.where(condition, emit.operand(chosen), emit.operand(other)))


@operator("clamp.default", "clamp.Tensor")
def clamp(emit: AtenEmitter, data: relax.Expr, low: Any = None, high: Any = None) -> relax.Expr:
    x = emit.operand(data)
    numbers = [bound for bound in (low, high) if not isinstance(bound, relax.Expr)]
    if is_float(emit.dtype) and len(numbers) == 2 and None not in numbers:
        return emit(relax.op.clip(x, float(min(low, high)), float(high)))
    if low is not None:
        x = emit(relax.op.maximum(x, emit.operand(low)))
    return x if high is None else emit(relax.op.minimum(x, emit.operand(high)))


@operator("_to_copy.default", "prims.convert_element_type.default")
def to_copy(emit: AtenEmitter, data: relax.Expr, *_: Any) -> relax.Expr:
    return emit.operand(data)
