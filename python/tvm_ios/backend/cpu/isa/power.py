# SPDX-License-Identifier: Apache-2.0
"""Powers of float32 vectors, as IEEE 754 defines them for zeros, infinities and NaN."""

from __future__ import annotations

import math
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from .emit import splat
from .functions import absolute, constant_of, keep, lanes_in, like
from .wide import exp2, log2, narrowed, widened

Expr = Any

_MOST_FACTORS = 64  # up to which a power is a product
_SIGN = -(1 << 31)  # its bit


def power(x: Expr, y: Expr) -> Expr:
    """Compute ``x`` to the power of ``y`` with an error of 0.6 units in the last place.

    The fourth power, which is a product in float32, has one of at most 1.9. Single numbers are left
    to the C library: LLVM would turn selections that depend on each other into branches, and emit
    every way through them.
    """
    exponent = constant_of(y)
    if exponent is not None and abs(exponent) == 0.5:
        return _root(keep(x), inverse=exponent < 0)
    if exponent is not None and exponent.is_integer() and abs(exponent) <= _MOST_FACTORS:
        return _product(x, int(exponent))
    if lanes_in(x) == 1:
        return tirx.call_pure_extern("float32", "powf", x, y)
    return _general(keep(x), keep(y) if exponent is None else y)


def _root(x: Expr, *, inverse: bool) -> Expr:
    """Compute ``sqrt(x)`` or its reciprocal; the root of minus infinity is infinite, not NaN."""
    root = tirx.sqrt(tirx.Select(tirx.EQ(x, like(x, -math.inf)), like(x, math.inf), x))
    root = keep(tirx.Select(tirx.EQ(x, like(x, 0.0)), like(x, 0.0), root))  # of -0, too
    return like(x, 1.0) / root if inverse else root


def _product(x: Expr, count: int) -> Expr:
    """Multiply ``x`` by itself; in float64 if roundings would add up, or inverses overflow."""
    if count == 0:
        return like(x, 1.0)
    if -1 <= count <= 4:
        product = _multiplied(x, abs(count))
        return like(x, 1.0) / product if count < 0 else product
    product = _multiplied(widened(x), abs(count))
    return narrowed(like(product, 1.0) / product if count < 0 else product)


def _multiplied(x: Expr, count: int) -> Expr:
    """Return the product of ``count`` factors by repeated squaring."""
    if count == 1:
        return x
    x = keep(x)
    square = _multiplied(x * x, count // 2)
    return x * square if count % 2 else square


def _general(x: Expr, y: Expr) -> Expr:
    zero, one = like(x, 0.0), like(x, 1.0)
    size = absolute(x)
    value = narrowed(exp2(log2(widened(size)) * widened(y)))
    value = tirx.Select(tirx.Or(tirx.EQ(size, one), tirx.EQ(y, zero)), one, value)
    whole = tirx.EQ(y, tirx.trunc(y))
    real = tirx.Or(whole, tirx.Or(tirx.Not(x < zero), tirx.EQ(x, like(x, -math.inf))))
    return _signed(tirx.Select(real, value, like(x, math.nan)), x, y)


def _signed(size: Expr, x: Expr, y: Expr) -> Expr:
    """Return ``size`` with the sign of ``x`` if ``y`` is odd."""
    integer = x.ty.dtype.replace("float", "int")

    def whole(number: int) -> Expr:
        return splat(T.int32(number), lanes_in(x))

    half = keep(y * like(y, 0.5))
    odd = tirx.And(tirx.EQ(y, tirx.trunc(y)), tirx.NE(half, tirx.trunc(half)))
    sign = T.bitwise_and(T.reinterpret(integer, x), whole(_SIGN))
    moved = tirx.Select(odd, sign, whole(0))
    return T.reinterpret(x.ty.dtype, T.bitwise_xor(T.reinterpret(integer, size), moved))
