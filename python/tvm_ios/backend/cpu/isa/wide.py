# SPDX-License-Identifier: Apache-2.0
"""Logarithms and powers of two in float64, whose results are rounded to float32 once.

Every float32, also one below the least normal number, is a normal float64. The coefficients are
minimax fits of our own.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from .emit import splat
from .functions import keep, lanes_in, like, polynomial

Expr = Any

# log2(1 + f) = f * polynomial(f) from sqrt(1/2) to sqrt(2), relative error 1.7e-11.
_LOG2 = (
    1.4426950408687087, -0.7213475208688431, 0.4808983613949763, -0.3606736748181211,
    0.2885372934822383, -0.2404531659483831, 0.2061753596788076, -0.18030059612744462,
    0.15876979407265268, -0.14315648973417058, 0.14474850592886082, -0.14283929227531172,
    0.07737028534669668,
)  # fmt: skip
# 2^r for |r| <= 1/2, relative error 2.6e-9; powers of whole numbers are exact.
_EXP2 = (
    1.0, 0.6931472149679987, 0.2402265278288851, 0.05550310550806303,
    0.009617692969868825, 0.0013406644096376908, 0.0001559468149748168,
)  # fmt: skip

_MANTISSA_BITS, _BIAS = 52, 1023
_ROUND = 1.5 * 2**52  # adding it rounds a float64 to an integer, which its lowest bits hold
_EXPONENT = 0xFFF << _MANTISSA_BITS
_ONE = _BIAS << _MANTISSA_BITS  # the bits of 1
_ROOT_OF_HALF = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
_INTEGER = 0x433 << _MANTISSA_BITS  # with n in the lowest bits, the bits of 2^52 + n
_LARGEST = 1e300  # its products with any float32 but 0 are beyond what float32 holds
_LOWEST_POWER, _HIGHEST_POWER = -200.0, 200.0  # they are zero and infinite in float32


def widened(x: Expr) -> Expr:
    """Return float32 numbers in float64."""
    return keep(T.cast(x, x.ty.dtype.replace("32", "64")))


def narrowed(x: Expr) -> Expr:
    """Round float64 numbers to float32."""
    return keep(T.cast(x, x.ty.dtype.replace("64", "32")))


def log2(x: Expr) -> Expr:
    """Compute the logarithm of float64 numbers of at least 0 with relative error 1.7e-11.

    Those of 0 and infinity are huge, but finite: their products with 0 are 0.
    """
    lanes = lanes_in(x)

    def whole(number: int) -> Expr:
        return splat(tirx.const(number, "uint64"), lanes)

    bits = keep(T.reinterpret(_unsigned(x), x))
    # The exponent of a number from sqrt(1/2) to sqrt(2) is that of 1.
    shifted = keep(bits + whole(_ONE - _ROOT_OF_HALF))
    field = T.bitwise_and(shifted, whole(_EXPONENT))
    count = T.bitwise_or(T.shift_right(shifted, whole(_MANTISSA_BITS)), whole(_INTEGER))
    exponent = T.reinterpret(x.ty.dtype, count) - like(x, float(2**_MANTISSA_BITS + _BIAS))
    f = keep(T.reinterpret(x.ty.dtype, bits - field + whole(_ONE)) - like(x, 1.0))
    value = tirx.Select(x > like(x, 0.0), exponent + f * polynomial(_LOG2, f), like(x, -_LARGEST))
    return tirx.Select(x <= like(x, _LARGEST), value, T.min(like(x, _LARGEST), x))


def exp2(x: Expr) -> Expr:
    """Compute the power of two of float64 numbers, right where it is in the range of float32."""
    x = keep(T.max(like(x, _LOWEST_POWER), T.min(like(x, _HIGHEST_POWER), x)))
    origin = like(x, _ROUND)
    shifted = keep(x + origin)
    power = polynomial(_EXP2, keep(x - keep(shifted - origin)))
    places = splat(tirx.const(_MANTISSA_BITS, "uint64"), lanes_in(x))
    moved = T.shift_left(T.reinterpret(_unsigned(x), shifted), places)
    return T.reinterpret(x.ty.dtype, T.reinterpret(_unsigned(x), power) + moved)


def _unsigned(x: Expr) -> Any:
    return x.ty.dtype.replace("float", "uint")
