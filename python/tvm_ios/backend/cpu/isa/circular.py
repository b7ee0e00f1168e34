# SPDX-License-Identifier: Apache-2.0
"""Sine, cosine and tangent of float32 vectors.

The angle is reduced to at most an eighth of a circle by four parts of pi / 2, of few bits, so that
their products with up to 8191 quarters are exact. What rounding takes off it is added to the
results. Vectors with a larger angle are left to the C library, lane by lane.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from .emit import lanes_of, splat
from .functions import absolute, keep, lanes_in, like, polynomial, register

Expr = Any
Function = Callable[[Expr], Expr]

# sin(r) = r + r^3 * polynomial(r^2) for |r| <= pi / 4, relative error 4e-9.
_SINE = (-0.16666655, 0.0083321892, -0.00019518292)
# cos(r) = 1 - r^2 / 2 + r^4 * polynomial(r^2), relative error 1.2e-10.
_COSINE = (0.041666646, -0.0013887309, 2.4432327e-05)
# tan(r) = r + r^3 * polynomial(r^2), relative error 1.3e-9.
_TANGENT = (
    0.3333335, 0.13332675, 0.054058913, 0.021286208,
    0.010827444, 9.824593e-05, 0.0043726983,
)  # fmt: skip
_PARTS = (1.5703125, 4.8375129699707031e-4, 7.5495336204767227e-8, 2.5633440682571e-12)  # of pi / 2
_LARGEST = 8192.0
_ROUND = 1.5 * 2**23  # adding it rounds a float32 to an integer, which its lowest bits hold


def sin(x: Expr) -> Expr:
    """Compute ``sin(x)`` with an error of 0.8 units in the last place."""
    return _circular(x, lambda x: _sine(x, 0), tirx.sin)


def cos(x: Expr) -> Expr:
    """Compute ``cos(x)``, which is the sine of a quarter more, with the same error."""
    return _circular(x, lambda x: _sine(x, 1), tirx.cos)


def tan(x: Expr) -> Expr:
    """Compute ``tan(x)`` with an error of 1.8 units in the last place."""
    return _circular(x, _tangent, tirx.tan)


def _circular(x: Expr, of_small: Function, of_c: Function) -> Expr:
    """Emit a function of angles, which is another one where one of them is large.

    A single number is left to the C library: of branches in a row that depend on each other, LLVM
    emits every way through them.
    """
    x = keep(x)
    lanes = lanes_in(x)
    if lanes == 1:
        return of_c(x)
    held = register(lanes)
    place = [lanes_of(0, lanes)]
    with T.If(_any(absolute(x) > like(x, _LARGEST))):
        with T.Then():
            T.buffer_store(held, of_c(x), place)
        with T.Else():
            T.buffer_store(held, of_small(x), place)
    return held[place[0]]


def _any(condition: Expr) -> Expr:
    """Return whether a condition holds in a lane; LLVM has one instruction for a test of bits."""
    lanes = lanes_in(condition)
    bits = tirx.Select(condition, splat(T.int32(-1), lanes), splat(T.int32(0), lanes))
    return T.call_llvm_pure_intrin("int32", "llvm.vector.reduce.or", bits) != 0


def _sine(x: Expr, quarters: int) -> Expr:
    """Return the sine of a small angle and some quarters."""
    one = like(x, 1.0)
    count, r, low = _quarters(x)
    square = keep(r * r)
    half = keep(square * like(x, 0.5))
    near = keep(one - half)
    sine = r + (r * square * polynomial(_SINE, square) + low * near)
    rest = square * square * polynomial(_COSINE, square) - low * r
    cosine = near + (((one - near) - half) + rest)
    quadrant = keep(count + like(count, quarters))
    size = T.reinterpret(count.ty.dtype, tirx.Select(_is_even(quadrant), sine, cosine))
    sign = T.shift_left(T.bitwise_and(quadrant, like(count, 2)), like(count, 30))
    return T.reinterpret(x.ty.dtype, T.bitwise_xor(size, sign))


def _tangent(x: Expr) -> Expr:
    """Return the tangent of a small angle."""
    count, r, low = _quarters(x)
    square = keep(r * r)
    rest = keep(r * square * polynomial(_TANGENT, square))
    near = keep(r + rest)
    tangent = keep(r + (rest + low * (like(x, 1.0) + near * near)))
    return tirx.Select(_is_even(count), tangent, like(x, -1.0) / tangent)


def _is_even(count: Expr) -> Expr:
    return tirx.EQ(T.bitwise_and(count, like(count, 1)), like(count, 0))


def _quarters(x: Expr) -> tuple[Expr, Expr, Expr]:
    """Return the quarters in an angle, the angle without them, and what rounding takes off it."""
    origin = like(x, _ROUND)
    shifted = keep(x * like(x, 2 / math.pi) + origin)
    integer = x.ty.dtype.replace("float", "int")
    return keep(T.reinterpret(integer, shifted)), *_reduced(x, keep(shifted - origin))


def _reduced(x: Expr, n: Expr) -> tuple[Expr, Expr]:
    """Return an angle less ``n`` quarters, and what rounding takes off it."""
    first, second, *small = _PARTS
    r = keep((x - n * like(x, first)) - n * like(x, second))  # exact
    low = like(x, 0.0)
    for part in small:
        product, before = keep(n * like(x, part)), r
        r = keep(before - product)
        low = low + ((before - r) - product)
    return r, keep(low)
