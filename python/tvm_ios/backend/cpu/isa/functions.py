# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of float32 vectors of any number of lanes.

LLVM computes ``exp``, ``tanh`` and ``erf`` of a vector lane by lane by library calls. Here each is
a polynomial, evaluated on the whole vector. The coefficients are minimax fits of our own. They were
rounded to float32 one after another, and after each the remaining ones were fitted again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from .emit import lanes_of, shuffled, splat

Expr = Any

# exp(r) - 1 = r * polynomial(r) for |r| <= log(2) / 2, relative error 1.4e-8.
_EXP = (1.0, 0.49999997, 0.166665465, 0.0416674353, 0.00836627185, 0.00138706935)
# erf(x) = x + x * polynomial(x^2) for |x| <= 0.75, relative error 1.6e-9.
_ERF = (0.12837917, -0.3761262, 0.11283379, -0.026834335, 0.005113157, -0.0006737584)
_SMALL_ERF = 0.75
# -log(erfc(z)) = z * polynomial(z) for z >= 0: relative error of erf 5.2e-8 up to 4, rising after.
_ERFC = (
    1.12837923, 0.636615157, 0.10282924, -0.0193798076,
    0.000308664428, 0.0011622929, -0.000344020285, 3.49238617e-05,
)  # fmt: skip
# log2(Phi(-x)) + 1 = x * polynomial(x) for x >= 0: x * Phi(-x) with absolute error 9e-9, up to 5.6;
# it falls below -127 before 12.
_LOG2_TAIL = (
    -1.151111, -0.45916238, -0.05262705, 0.00724477,
    -0.0002716621, -0.00013161884, 2.8083503e-05, -1.9040165e-06,
)  # fmt: skip
# log(1 + f) = f - f^2 / 2 + f^3 * polynomial(f) around 0, from sqrt(1/2) to sqrt(2), relative error
# 5.9e-9.
_LOG = (
    0.33333331, -0.2500082, 0.20001242, -0.1662341,
    0.14201586, -0.13159598, 0.12762143, -0.076363623,
)  # fmt: skip
# 2^r for |r| <= 1/2. The constant is exact, so that the power of -127 is zero.
_EXP2 = (1.0, 0.693147, 0.24022247, 0.05550711, 0.009671292, 0.0013269535)
_LOWEST_POWER = -127.0

_LOG2_HIGH, _LOG2_LOW = 0.693359375, -2.12194440e-4  # log(2); the first has exact products
_ROUND = 1.5 * 2**23  # adding it rounds a float32 to an integer
BIAS, _MANTISSA_BITS = 127, 23
_LEAST_NORMAL = 2.0**-126
_ROOT_OF_HALF = 0x3F3504F3  # the bits of the float32 above sqrt(1/2)
AVX512_LANES = 16  # of no other processors
_STACK_BYTES = 1024  # TVM's runtime allocates larger buffers


def lanes_in(x: Expr) -> int:
    """Return the number of lanes of an expression."""
    lanes: int = x.ty.dtype.lanes
    return lanes


def register(count: int, dtype: str = "float32") -> Any:
    """Allocate ``count`` numbers on the stack, which LLVM can promote to registers."""
    assert 4 * count < _STACK_BYTES, "the buffer is small"
    return T.alloc_buffer((count,), dtype, scope="global", layout=None)


def keep(x: Expr) -> Expr:
    """Compute ``x`` once and keep it in a register, however often it is read.

    TVM inlines an expression, even one bound to a variable, wherever it is read, and simplifies the
    result: a rounding such as ``(x + c) - c`` would disappear.
    """
    at, buffer = lanes_of(0, lanes_in(x)), register(lanes_in(x), str(x.ty.dtype.with_lanes(1)))
    T.buffer_store(buffer, x, [at])
    return buffer[at]


def transposed(rows: Sequence[Expr]) -> list[Expr]:
    """Transpose a square of vectors, whose number of lanes is a power of two."""
    lanes, step = len(rows), 1
    assert lanes & (lanes - 1) == 0, "squares are halved"
    assert lanes_in(rows[0]) == lanes, "as many vectors as each has lanes"
    values = list(rows)
    while step < lanes:
        # Swaps the squares of this size beside the diagonal, of all larger squares.
        upper = [i if not i & step else lanes + i - step for i in range(lanes)]
        lower = [i + step if not i & step else lanes + i for i in range(lanes)]
        for i in (i for i in range(lanes) if not i & step):
            pair = values[i], values[i + step]
            values[i], values[i + step] = (keep(shuffled(pair, e)) for e in (upper, lower))
        step *= 2
    return values


def like(x: Expr, number: float) -> Expr:
    """Return ``number`` in the type of ``x``, in as many lanes."""
    return splat(tirx.const(number, str(x.ty.dtype.with_lanes(1))), lanes_in(x))


def exp(x: Expr) -> Expr:
    """Compute ``exp(x)`` with relative error 1.1e-7.

    The result is zero below -86.99, where it is less than 1.7e-38. It is computed as twice the
    value for half the power of two, because the power itself would overflow before the result does.
    """
    half, rest = _reduce(keep(_between(-87.6, x, 88.8)), like(x, _ROUND + BIAS - 1))
    return (polynomial(_EXP, rest) * rest + like(x, 1.0)) * half * like(x, 2.0)


def full_exp(x: Expr) -> Expr:
    """Compute ``exp(x)`` with an error of 1.2 units in the last place, also below 1.7e-38."""
    x = keep(_between(-104.0, x, 88.8))
    if lanes_in(x) == AVX512_LANES:
        shifted = keep(x * like(x, math.log2(math.e)) + like(x, _ROUND))
        n = keep(shifted - like(x, _ROUND))
        rest = _rest(x, n)
        return _scaled(polynomial(_EXP, rest) * rest + like(x, 1.0), n)
    # The power of two is another one than the result's by a factor, 2^64 where x is negative.
    negative = x < like(x, 0.0)
    origin = tirx.Select(negative, like(x, _ROUND + BIAS + 64), like(x, _ROUND + BIAS - 1))
    power, rest = _reduce(x, keep(origin))
    factor = tirx.Select(negative, like(x, 2.0**-64), like(x, 2.0))
    return (polynomial(_EXP, rest) * rest + like(x, 1.0)) * power * factor


def _scaled(x: Expr, n: Expr) -> Expr:
    """Multiply by powers of two, by one instruction."""
    name = "llvm.x86.avx512.mask.scalef.ps.512"
    every, as_set = T.int16(-1), T.int32(4)  # all lanes, and the rounding mode that is set
    return T.call_llvm_pure_intrin(str(x.ty.dtype), name, x, n, x, every, as_set)


def log(x: Expr) -> Expr:
    """Compute ``log(x)`` with an error of 0.9 units in the last place."""
    x = keep(x)
    lanes, zero = lanes_in(x), like(x, 0.0)
    integer = x.ty.dtype.replace("float", "int")
    small = x < like(x, _LEAST_NORMAL)
    bits = T.reinterpret(integer, keep(tirx.Select(small, x * like(x, 2.0**_MANTISSA_BITS), x)))
    # The exponent of a number from sqrt(1/2) to sqrt(2) is 0.
    shift = splat(T.int32(_MANTISSA_BITS), lanes)
    exponent = keep(T.shift_right(bits - splat(T.int32(_ROOT_OF_HALF), lanes), shift))
    f = keep(T.reinterpret(x.ty.dtype, bits - T.shift_left(exponent, shift)) - like(x, 1.0))
    n = T.cast(exponent, x.ty.dtype) - tirx.Select(small, like(x, float(_MANTISSA_BITS)), zero)
    n, square = keep(n), keep(f * f)
    rest = n * like(x, _LOG2_LOW) + polynomial(_LOG, f) * (f * square)
    value = ((rest - like(x, 0.5) * square) + f) + n * like(x, _LOG2_HIGH)
    number = tirx.Select(x < like(x, math.inf), value, x)
    none = tirx.Select(tirx.EQ(x, zero), like(x, -math.inf), like(x, math.nan))
    return tirx.Select(x > zero, number, none)


def sigmoid(x: Expr) -> Expr:
    """Compute the logistic function with an error of 1.5 units in the last place."""
    x = _between(-87.6, like(x, 0.0) - x, 88.8)
    half, difference = exp_less_power(x, bias=BIAS - 1)
    half_one = like(x, 0.5)
    most = keep(half + half_one)
    half_sum = keep(most + (difference + (half_one - keep(most - half))))
    return like(x, 1.0) / (half_sum + half_sum)


def erf(x: Expr) -> Expr:
    """Compute ``erf(x)`` with an error of 1.5 units in the last place."""
    x = keep(x)
    size = keep(absolute(x))
    small = size + size * polynomial(_ERF, size * size)
    power, difference = exp_less_power(_between(-18.2, _log_erfc(size), 0.0))
    large = (like(x, 1.0) - power) - difference
    return with_sign(tirx.Select(size < like(x, _SMALL_ERF), small, large), x)


def gelu(x: Expr) -> Expr:
    """Compute ``x * Phi(x)`` with absolute error 4e-7.

    It is evaluated as ``max(x, 0) - |x| * Phi(-|x|)``, with a polynomial for the logarithm of the
    last factor. Both factors end where the product is below 1e-25.
    """
    x = keep(x)
    size = keep(T.min(like(x, 12.0), absolute(x)))
    logarithm = polynomial(_LOG2_TAIL, size) * size - like(x, 1.0)
    return T.max(like(x, 0.0), x) - size * _exp2(T.max(like(x, _LOWEST_POWER), logarithm))


def gelu_tanh(x: Expr) -> Expr:
    """Compute ``x / 2 * (1 + tanh(u))`` of ``u = sqrt(2 / pi) * (x + 0.044715 x^3)``.

    It is evaluated as ``x * sigmoid(2 u)``.
    """
    x = keep(x)
    twice = like(x, 2 * math.sqrt(2 / math.pi))
    return x * sigmoid(twice * x * (like(x, 1.0) + like(x, 0.044715) * x * x))


def exp_less_power(x: Expr, bias: int = BIAS) -> tuple[Expr, Expr]:
    """Return a power of two and ``exp(x)`` minus it, whose rounding error is relative to it.

    A ``bias`` less by one gives half of both.
    """
    power, rest = _reduce(keep(x), like(x, _ROUND + bias))
    return power, keep(polynomial(_EXP, rest) * rest * power)


def _reduce(x: Expr, origin: Expr) -> tuple[Expr, Expr]:
    """Return ``2^n`` and ``r`` with ``exp(x) = 2^n * exp(r)``.

    ``n`` is an integer and ``r`` around zero. An ``origin`` less by one gives half the power.

    The addition that rounds ``x / log(2)`` to ``n`` also leaves the exponent of the power, as a
    float32 stores it, in its lowest bits: 0 for zero, 255 for infinity.
    """
    shifted = keep(x * like(x, math.log2(math.e)) + origin)
    n = keep(shifted - origin)
    rest = _rest(x, n)
    integer = x.ty.dtype.replace("float", "int")
    exponent = splat(T.int32(_MANTISSA_BITS), lanes_in(x))
    power = T.reinterpret(x.ty.dtype, T.shift_left(T.reinterpret(integer, shifted), exponent))
    return keep(power), rest


def _rest(x: Expr, n: Expr) -> Expr:
    """Return ``x - n * log(2)``."""
    return keep(x - n * like(x, _LOG2_HIGH) - n * like(x, _LOG2_LOW))


def _exp2(x: Expr) -> Expr:
    """Compute ``2^x`` with relative error 2.4e-7 from -126 to 0, and zero for -127.

    The integer part of ``x`` is added to the exponent of the rest's power.
    """
    x = keep(x)
    origin = like(x, _ROUND)
    shifted = keep(x + origin)
    power = polynomial(_EXP2, keep(x - keep(shifted - origin)))
    integer = x.ty.dtype.replace("float", "int")
    exponent = splat(T.int32(_MANTISSA_BITS), lanes_in(x))
    moved = T.shift_left(T.reinterpret(integer, shifted), exponent)
    return T.reinterpret(x.ty.dtype, T.reinterpret(integer, power) + moved)


def _log_erfc(z: Expr) -> Expr:
    """Compute ``log(erfc(z))`` for ``z >= 0``."""
    z = keep(z)
    return like(z, 0.0) - polynomial(_ERFC, z) * z


def polynomial(coefficients: Sequence[float], x: Expr) -> Expr:
    """Evaluate a polynomial by Horner's rule; the constant coefficient comes first."""
    result = like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = result * x + like(x, coefficient)
    return result


def constant_of(x: Expr) -> float | None:
    """Return the constant that ``x`` is in all of its lanes; None if it is none."""
    value = x.value if isinstance(x, tirx.Broadcast) else x
    return float(value.value) if isinstance(value, tirx.FloatImm) else None


def _is_number(x: Expr) -> bool:
    """Return whether ``x`` is a constant other than NaN, in any number of lanes."""
    value = constant_of(x)
    return value is not None and not math.isnan(value)


def largest(a: Expr, b: Expr) -> Expr:
    """Return the larger value, NaN if one of them is NaN, as NumPy and PyTorch do.

    TVM returns the second operand if the two do not compare.
    """
    if _is_number(b):
        return T.max(b, a)
    a = keep(a)
    return tirx.Select(tirx.isnan(a), a, T.max(a, b))


def smallest(a: Expr, b: Expr) -> Expr:
    """Return the smaller value, NaN if one of them is NaN."""
    if _is_number(b):
        return T.min(b, a)
    a = keep(a)
    return tirx.Select(tirx.isnan(a), a, T.min(a, b))


def _between(low: float, x: Expr, high: float) -> Expr:
    """Clip ``x``; NaN is preserved, as it comes second."""
    return T.max(like(x, low), T.min(like(x, high), x))


def absolute(x: Expr) -> Expr:
    return tirx.abs(x)


def with_sign(size: Expr, x: Expr) -> Expr:
    """Return a number of the size of ``size`` with the sign of ``x``."""
    return T.call_llvm_pure_intrin(str(x.ty.dtype), "llvm.copysign", size, x)
