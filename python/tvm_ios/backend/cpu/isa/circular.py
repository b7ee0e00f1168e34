# SPDX-License-Identifier: Apache-2.0
"""Sine and cosine of float32 vectors.

The angle is reduced to at most an eighth of a circle by four parts of pi / 2, of few bits, so that
their products with up to 8191 quarters are exact. What rounding takes off it is added to the
results. Vectors with a larger angle are left to the C library, lane by lane.
"""

from __future__ import annotations

import math
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from .emit import splat
from .functions import absolute, keep, lanes_in, like, polynomial, register

Expr = Any

# sin(r) = r + r^3 * polynomial(r^2) for |r| <= pi / 4, relative error 4e-9.
_SINE = (-0.16666655, 0.0083321892, -0.00019518292)
# cos(r) = 1 - r^2 / 2 + r^4 * polynomial(r^2), relative error 1.2e-10.
_COSINE = (0.041666646, -0.0013887309, 2.4432327e-05)
_PARTS = (1.5703125, 4.8375129699707031e-4, 7.5495336204767227e-8, 2.5633440682571e-12)  # of pi / 2
_LARGEST = 8192.0
_ROUND = 1.5 * 2**23  # adding it rounds a float32 to an integer, which its lowest bits hold


def sin(x: Expr) -> Expr:
    """Compute ``sin(x)`` with an error of 0.8 units in the last place."""
    return _circular(keep(x), 0, tirx.sin)


def cos(x: Expr) -> Expr:
    """Compute ``cos(x)``, which is the sine of a quarter more, with the same error."""
    return _circular(keep(x), 1, tirx.cos)


def _circular(x: Expr, quarters: int, of_c: Any) -> Expr:
    """Emit the sine of an angle and some quarters of a circle."""
    lanes = lanes_in(x)
    held = register(lanes)
    place = [T.Ramp(0, 1, lanes) if lanes > 1 else 0]
    with T.If(_any(absolute(x) > like(x, _LARGEST))):
        with T.Then():
            T.buffer_store(held, of_c(x), place)
        with T.Else():
            T.buffer_store(held, _of_small(x, quarters), place)
    return held[place[0]]


def _any(condition: Expr) -> Expr:
    """Return whether a condition holds in a lane; LLVM has one instruction for a test of bits."""
    lanes = lanes_in(condition)
    if lanes == 1:
        return condition
    bits = tirx.Select(condition, splat(T.int32(-1), lanes), splat(T.int32(0), lanes))
    return T.call_llvm_pure_intrin("int32", "llvm.vector.reduce.or", bits) != 0


def _of_small(x: Expr, quarters: int) -> Expr:
    """Return the sine of a small angle and some quarters."""
    one, origin = like(x, 1.0), like(x, _ROUND)
    shifted = keep(x * like(x, 2 / math.pi) + origin)
    r, low = _reduced(x, keep(shifted - origin))
    square = keep(r * r)
    half = keep(square * like(x, 0.5))
    near = keep(one - half)
    sine = r + (r * square * polynomial(_SINE, square) + low * near)
    rest = square * square * polynomial(_COSINE, square) - low * r
    cosine = near + (((one - near) - half) + rest)
    integer = x.ty.dtype.replace("float", "int")

    def whole(number: int) -> Expr:
        return splat(T.int32(number), lanes_in(x))

    quadrant = keep(T.reinterpret(integer, shifted) + whole(quarters))
    even = tirx.EQ(T.bitwise_and(quadrant, whole(1)), whole(0))
    size = T.reinterpret(integer, tirx.Select(even, sine, cosine))
    sign = T.shift_left(T.bitwise_and(quadrant, whole(2)), whole(30))
    return T.reinterpret(x.ty.dtype, T.bitwise_xor(size, sign))


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
