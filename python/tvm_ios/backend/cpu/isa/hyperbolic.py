# SPDX-License-Identifier: Apache-2.0
"""Hyperbolic functions of float32 vectors and their inverses, which are logarithms in float64."""

from __future__ import annotations

import math
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from .functions import BIAS, absolute, exp_less_power, keep, like, polynomial, with_sign
from .near_zero import SMALL_TANH, TANH
from .wide import log2, narrowed, widened

Expr = Any

# sinh(x) = x + x^3 * polynomial(x^2) for |x| <= 1, relative error 3e-10.
_SINH = (0.16666667, 0.0083333105, 0.00019842896, 2.7822132e-06)
_TINY = 2.0**-16  # up to which asinh(x) and atanh(x) are x in float32


def tanh(x: Expr) -> Expr:
    """Compute ``tanh(x)`` with an error of 1.5 units in the last place."""
    x = keep(x)
    size, one = keep(absolute(x)), like(x, 1.0)
    power, difference = exp_less_power(T.min(like(x, 18.2), size + size))
    large = one - like(x, 2.0) / ((difference + one) + power)
    small = _odd(TANH, size)
    return with_sign(tirx.Select(size < like(x, SMALL_TANH), small, large), x)


def sinh(x: Expr) -> Expr:
    """Compute ``sinh(x)`` with an error of 1.5 units in the last place."""
    x = keep(x)
    size = keep(absolute(x))
    power, difference, inverse = _quarters(size)
    large = (power - inverse) + difference
    return with_sign(tirx.Select(size < like(x, 1.0), _odd(_SINH, size), large + large), x)


def cosh(x: Expr) -> Expr:
    """Compute ``cosh(x)`` with an error of 1.5 units in the last place."""
    power, difference, inverse = _quarters(absolute(x))
    half = keep(power + (difference + inverse))
    return half + half


def asinh(x: Expr) -> Expr:
    """Compute ``asinh(x)`` with an error of 0.6 units in the last place."""
    x = keep(x)
    size = keep(absolute(x))
    wide = widened(size)
    value = _logarithm(wide + tirx.sqrt(wide * wide + like(wide, 1.0)))
    return with_sign(tirx.Select(size < like(x, _TINY), size, value), x)


def acosh(x: Expr) -> Expr:
    """Compute ``acosh(x)`` with an error of 0.6 units in the last place; NaN below 1."""
    x = keep(x)
    wide = widened(x)
    value = _logarithm(wide + tirx.sqrt(wide * wide - like(wide, 1.0)))
    return tirx.Select(x >= like(x, 1.0), value, like(x, math.nan))


def atanh(x: Expr) -> Expr:
    """Compute ``atanh(x)`` with an error of 0.6 units in the last place; NaN beyond 1."""
    x = keep(x)
    size = keep(absolute(x))
    wide, one = widened(size), like(widened(size), 1.0)
    value = _logarithm((one + wide) / (one - wide)) * like(x, 0.5)
    value = tirx.Select(size <= like(x, 1.0), value, like(x, math.nan))
    return with_sign(tirx.Select(size < like(x, _TINY), size, value), x)


def _odd(coefficients: tuple[float, ...], x: Expr) -> Expr:
    """Return ``x + x^3 * polynomial(x^2)``."""
    square = keep(x * x)
    return x + x * square * polynomial(coefficients, square)


def _quarters(size: Expr) -> tuple[Expr, Expr, Expr]:
    """Return quarters of a power of two, of ``exp(size)`` minus it, and of ``exp(-size)``.

    The whole power would overflow before the hyperbolic functions do.
    """
    power, difference = exp_less_power(T.min(like(size, 89.5), size), bias=BIAS - 2)
    return power, difference, keep(like(size, 0.0625) / (power + difference))


def _logarithm(wide: Expr) -> Expr:
    """Return the natural logarithm of float64 numbers in float32."""
    wide = keep(wide)
    return narrowed(log2(wide) * like(wide, math.log(2)))
