# SPDX-License-Identifier: Apache-2.0
"""The inverse functions of sine, cosine and tangent, of float32 vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T

from .functions import absolute, keep, like, polynomial, with_sign

Expr = Any

# asin(s) = s + s^3 * polynomial(s^2) for |s| <= 1/2, relative error 4.9e-9.
_ARCSINE = (0.16666752, 0.074953094, 0.04546915, 0.024184776, 0.042158313)
# atan(t) = t + t^3 * polynomial(t^2) for |t| <= 1, relative error 2.7e-9.
_ARCTANGENT = (
    -0.333333, 0.1999853, -0.14264014, 0.10950861, -0.08399208,
    0.05787887, -0.031093534, 0.010866271, -0.0017821442,
)  # fmt: skip


def asin(x: Expr) -> Expr:
    """Compute ``asin(x)`` with an error of 1.7 units in the last place; NaN beyond 1."""
    x = keep(x)
    size, small = _halves(x)
    angle, rest = _arc(size, small)
    value = tirx.Select(small, angle + rest, _less(math.pi / 2, angle + angle, rest + rest))
    return with_sign(value, x)


def acos(x: Expr) -> Expr:
    """Compute ``acos(x)`` with an error of 1.7 units in the last place; NaN beyond 1."""
    x = keep(x)
    size, small = _halves(x)
    angle, rest = _arc(size, small)
    of_small = _less(math.pi / 2, with_sign(angle, x), with_sign(rest, x))
    twice, rest = keep(angle + angle), keep(rest + rest)
    of_large = tirx.Select(x < like(x, 0.0), _less(math.pi, twice, rest), twice + rest)
    return tirx.Select(small, of_small, of_large)


def atan(x: Expr) -> Expr:
    """Compute ``atan(x)`` with an error of 1.5 units in the last place."""
    x = keep(x)
    size, one = keep(absolute(x)), like(x, 1.0)
    t = keep(T.min(one, size) / T.max(one, size))
    square = keep(t * t)
    rest = keep(t * square * polynomial(_ARCTANGENT, square))
    value = tirx.Select(size > one, _less(math.pi / 2, t, rest), t + rest)
    return with_sign(value, x)


def _halves(x: Expr) -> tuple[Expr, Expr]:
    """Return the size of ``x``, and whether it is at most a half."""
    size = keep(absolute(x))
    return size, size <= like(x, 0.5)


def _arc(size: Expr, small: Expr) -> tuple[Expr, Expr]:
    """Return the arcsine in two parts; of a large size that of half the angle to 1."""
    half = keep((like(size, 1.0) - size) * like(size, 0.5))
    square = keep(tirx.Select(small, size * size, half))
    sine = keep(tirx.Select(small, size, tirx.sqrt(half)))
    return sine, keep(sine * square * polynomial(_ARCSINE, square))


def _less(angle: float, first: Expr, rest: Expr) -> Expr:
    """Subtract two parts from an angle, whose rounding is made up for.

    Half of the angle is near the first part, so that their difference is hardly rounded.
    """
    half = float(np.float32(angle / 2))
    near = like(first, half) - first
    return like(first, half) + (near + (like(first, angle - 2 * half) - rest))
