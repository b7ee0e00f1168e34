# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of signs, exponents and NaN."""

from __future__ import annotations

import math
from typing import Any

from tvm import relax

from ...emitter import dtype_of
from ...onnx.numbers import is_float, is_signed
from ...onnx.operators.formula import Term
from ...onnx.operators.table import Value
from ..node_emitter import AtenEmitter
from .formula import is_nan, terms
from .table import Converter, operator

_DIGITS, _LEAST = 24, -149
"""The binary digits of float32's numbers, and the exponent of the least that is not 0."""


def _of_numbers(largest: bool) -> Converter:
    def convert(emit: AtenEmitter, left: Any, right: Any) -> relax.Expr:
        """Return the larger or smaller number; NaN only where there is no number."""
        a, b = terms(emit, left, right)
        found = a.maximum(b) if largest else a.minimum(b)
        return b.where(is_nan(a), a.where(is_nan(b), found)).expr

    return convert


operator("fmax.default", "prims.fmax.default")(_of_numbers(largest=True))
operator("fmin.default", "prims.fmin.default")(_of_numbers(largest=False))


@operator("signbit.default", "prims.signbit.default")
def signbit(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
    """Return where numbers are negative, also zeros; NaN is not, whatever its sign."""
    if is_float(dtype_of(data)):
        return _is_negative(Term(emit, data)).expr
    if not is_signed(dtype_of(data)):
        return emit.filled(emit.shape, False, "bool")
    return emit(relax.op.less(data, emit.scalar(0, data)))


@operator("angle.default")
def angle(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
    """Return pi for negative numbers, which zeros are not, and 0 for others."""
    (x,) = terms(emit, data)
    return (x * 0).filled(~is_nan(x), 0).filled(x < 0, math.pi).expr


def _is_negative(x: Term) -> Term:
    """Return where the sign is negative; a zero has that of the infinity that is its inverse."""
    return (x < 0) | (x.equals(0) & (1 / x < 0))


@operator("hypot.default", "prims.hypot.default")
def hypot(emit: AtenEmitter, left: Any, right: Any) -> relax.Expr:
    return hypotenuse(*terms(emit, left, right)).expr


def hypotenuse(left: Term, right: Term) -> Term:
    """Return the root of the sum of squares, which cannot overflow; an infinity outweighs NaN."""
    a, b = abs(left), abs(right)
    largest = a.maximum(b)
    ratio = a.minimum(b) / largest
    root = largest * (1 + ratio * ratio).of(relax.op.sqrt)
    root = root.filled(largest.equals(0), 0)
    return root.filled(a.equals(math.inf) | b.equals(math.inf), math.inf)


@operator("frexp.Tensor", "prims.frexp.default")
def frexp(emit: AtenEmitter, data: relax.Expr) -> Value:
    """Return mantissas from 0.5 to 1 and exponents; what is not finite has an exponent of 0."""
    if dtype_of(data) == "float64":
        raise emit.error("reads exponents of float64, which is not supported.")
    (x,) = terms(emit, data, dtype="float64")
    exponent = _exponent(x)
    plain = ~x.of(relax.op.isfinite) | x.equals(0)
    mantissa = x.where(plain, x / _power_of_2(exponent))
    return mantissa.to(dtype_of(data)).expr, exponent.filled(plain, 0).to("int32").expr


def _power_of_2(exponent: Term) -> Term:
    return exponent._from(relax.op.power, 2.0)


def _exponent(x: Term) -> Term:
    """Return the least exponent of 2 whose power exceeds the size of a number that is not 0.

    Where the logarithm is rounded to an integer, the exponent may be off by one.
    """
    size = abs(x)
    logarithm = size.of(relax.op.log) * (1 / math.log(2))
    near = logarithm.of(relax.op.floor) + 1
    power = _power_of_2(near)
    near = (near + 1).where(size >= power, near)
    return (near - 1).where(size < power * 0.5, near)


@operator("nextafter.default", "prims.nextafter.default")
def nextafter(emit: AtenEmitter, data: relax.Expr, toward: relax.Expr) -> relax.Expr:
    """Return the next number of float32 in the direction of another, computed in float64."""
    if emit.dtype != "float32":
        raise emit.error(f"is the neighbour of {emit.dtype}, which is not supported.")
    x, y = terms(emit, data, toward, dtype="float64")
    up, positive = x < y, x > 0
    away = (up & positive) | ~(up | positive)
    exponent = _exponent(x)
    # Towards 0, the neighbours of a power of 2 are half as far.
    is_power = abs(x).equals(_power_of_2(exponent - 1))
    digits = (exponent - 1).where(is_power & ~away, exponent) - _DIGITS
    step = _power_of_2(digits.maximum(_LEAST).filled(x.equals(0), _LEAST))
    moved = (x + step).where(up, x - step)
    largest = 2.0**128 - 2.0 ** (128 - _DIGITS)
    moved = moved.filled(x.equals(math.inf), largest).filled(x.equals(-math.inf), -largest)
    moved = y.where(x.equals(y), moved)
    return (x + y).where(is_nan(x) | is_nan(y), moved).to("float32").expr
