# SPDX-License-Identifier: Apache-2.0
"""The error function's relatives, gamma functions and modified Bessel functions.

They are computed in float64, so that results of float32 are right to the last digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from tvm import relax

from ...onnx.operators.formula import Term
from ..node_emitter import AtenEmitter
from .formula import in_float64
from .table import operator

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_FAR = 10.0
"""From where the asymptotic series of the gamma functions have the digits of float64."""

Function = Callable[[Term], Term]


def _register(name: str, function: Function) -> None:
    def convert(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
        return in_float64(emit, data, function)

    operator(f"prims.{name}.default")(convert)


def _chebyshev(t: Term, function: Callable[[float], float], degree: int) -> Term:
    """Return a smooth function of -1 to 1, by its interpolation with Chebyshev's polynomials."""
    factors = _interpolated(function, degree)
    twice = t * 2
    last, result = t * 0, t * 0 + factors[-1]
    for factor in factors[-2:0:-1]:
        last, result = result, twice * result - last + factor
    return t * result - last + factors[0]


@lru_cache
def _interpolated(function: Callable[[float], float], degree: int) -> list[float]:
    found = np.polynomial.chebyshev.chebinterpolate(np.vectorize(function), degree)
    return [float(factor) for factor in found]


# The error function's relatives: erfcx(x) = exp(x^2) erfc(x) falls slowly, as 1 / x.


def _scaled_erfcx(t: float) -> float:
    """Return ``(1 + 2 x) erfcx(x)`` at ``x = 3 (1 + t) / (1 - t)``."""
    x = 3 * (1 + t) / (1 - t) if t < 1 else math.inf
    if x < 20:
        return (1 + 2 * x) * math.exp(x * x) * math.erfc(x)
    if math.isinf(x):
        return 2 / math.sqrt(math.pi)
    terms = [1.0]
    for n in range(1, 20):
        terms.append(-terms[-1] * (2 * n - 1) / (2 * x * x))
    return (1 + 2 * x) * sum(terms) / (x * math.sqrt(math.pi))


def _erfcx_of_positive(x: Term) -> Term:
    t = ((x - 3) / (x + 3)).filled(x.equals(math.inf), 1)
    return _chebyshev(t, _scaled_erfcx, 28) / (1 + 2 * x)


def _erfcx(x: Term) -> Term:
    right = _erfcx_of_positive(abs(x))
    left = 2 * (x * x).of(relax.op.exp) - right
    return left.where(x < 0, right)


def _erfc(x: Term) -> Term:
    size = abs(x)
    tail = (-(x * x)).of(relax.op.exp) * _erfcx_of_positive(size)
    near = 1 - x.of(relax.op.erf)
    return (2 - tail).where(x < 0, tail).where(size > 0.5, near)


def _erf_inv(x: Term) -> Term:
    """Return the inverse of the error function, by two steps of Halley's from Winitzki's formula.

    Near 1, what is left of 1 is compared.
    """
    size = abs(x)
    logarithm = ((1 - size) * (1 + size)).of(relax.op.log)
    middle = 2 / (math.pi * 0.147) + logarithm / 2
    root = (middle * middle - logarithm / 0.147).of(relax.op.sqrt)
    y = (-logarithm / 0.147 / (root + middle)).of(relax.op.sqrt)
    for _ in range(2):
        near, far = y.of(relax.op.erf) - size, (1 - size) - _erfc(y)
        slope = (-(y * y)).of(relax.op.exp) * (2 / math.sqrt(math.pi))
        step = near.where(size < 0.5, far) / slope
        y = y - step / (1 + y * step)
    y = y.filled(size.equals(1), math.inf)
    return (-y).where(x < 0, y)


def _ndtri(p: Term) -> Term:
    """Return where the normal distribution reaches a probability.

    The inverse of the error function is exact enough for tails that 1 - 2 p still shows; below,
    a step of Newton's compares logarithms of tails.
    """
    tail = p.minimum(1 - p)
    logarithm = tail.of(relax.op.log)
    guess = _erf_inv((1 - 2 * tail).minimum(1 - 2e-16)) * math.sqrt(2)
    far = (-2 * logarithm).of(relax.op.sqrt)
    y = far.where(tail < 1e-12, guess)
    for _ in range(4):
        # log Q(y) = -y^2 / 2 + log(erfcx(y / sqrt 2) / 2), whose slope is -sqrt(2 / pi) / erfcx.
        scaled = _erfcx_of_positive(y * math.sqrt(0.5))
        error = (scaled * 0.5).of(relax.op.log) - y * y * 0.5 - logarithm
        y = y + error * scaled * math.sqrt(math.pi / 2)
    y = y.filled(tail.equals(0), math.inf).filled(tail < 0, math.nan)
    return (-y).where(p < 0.5, y)


# Gamma functions: Stirling's series far from 0, a recurrence near it, a reflection below 0.5.


def _sine_of_pi(x: Term) -> Term:
    """Return the size of ``sin(pi x)``, exactly 0 at integers."""
    return (abs(x - x.of(relax.op.round)) * math.pi).of(relax.op.sin)


def _stirling(x: Term) -> Term:
    factors = [b / ((2 * i + 1) * (2 * i + 2)) for i, b in enumerate(_BERNOULLI)]
    inverse = 1 / x
    series = inverse * (inverse * inverse).polynomial(factors)
    return (x - 0.5) * x.of(relax.op.log) - x + 0.5 * math.log(2 * math.pi) + series


def _lgamma(x: Term) -> Term:
    reflected = x < 0.5
    y = (1 - x).where(reflected, x)
    near = y < _FAR
    product = y
    for step in range(1, int(_FAR)):
        product = product * (y + step)
    correction = product.of(relax.op.log).filled(~near, 0)
    value = _stirling((y + _FAR).where(near, y)) - correction
    other = (math.pi / _sine_of_pi(x)).of(relax.op.log) - value
    result = other.where(reflected, value)
    return result.filled(abs(x).equals(math.inf), math.inf)


def _digamma(x: Term) -> Term:
    """Return the logarithmic slope of the gamma function; NaN at negative integers."""
    reflected = x < 0.5
    y = (1 - x).where(reflected, x)
    near = y < _FAR
    correction = 1 / y
    for step in range(1, int(_FAR)):
        correction = correction + 1 / (y + step)
    z = (y + _FAR).where(near, y)
    inverse = 1 / z
    square = inverse * inverse
    series = square * square.polynomial([b / (2 * i + 2) for i, b in enumerate(_BERNOULLI)])
    value = z.of(relax.op.log) - inverse * 0.5 - series - correction.filled(~near, 0)
    fraction = (x - x.of(relax.op.round)) * math.pi
    value = (value - math.pi / fraction.of(relax.op.tan)).where(reflected, value)
    value = value.filled((x < 0) & x.equals(x.of(relax.op.floor)), math.nan)
    return (-1 / x).where(x.equals(0), value)


@operator("polygamma.default")
def polygamma(emit: AtenEmitter, order: int, data: relax.Expr) -> relax.Expr:
    """Return a derivative of the digamma function."""
    if order == 0:
        return in_float64(emit, data, _digamma)
    return in_float64(emit, data, lambda x: _polygamma(order, x))


def _polygamma(order: int, x: Term) -> Term:
    """Return ``(-1)^(n+1) n! zeta(n + 1, x)``; below 0.5 by the derivatives of the cotangent."""
    reflected = x < 0.5
    value = _zeta(order + 1, (1 - x).where(reflected, x)) * math.factorial(order)
    sign = 1 if order % 2 else -1
    angle = (x - x.of(relax.op.round)) * math.pi
    cotangent = 1 / angle.of(relax.op.tan)
    derivative = cotangent.polynomial(_derivative_of_cotangent(order))
    # psi(1 - x) - psi(x) = pi cot(pi x), and each derivative turns the sign of the former.
    other = -value - math.pi ** (order + 1) * derivative
    result = other.where(reflected, value * sign)
    pole = x.equals(x.of(relax.op.floor)) & (x <= 0)
    if order > 1:  # PyTorch's series has a pole at minus infinity, and no value at infinity
        return result.filled(pole, sign * math.inf).filled(x.equals(math.inf), math.nan)
    return result.filled(pole & x.of(relax.op.isfinite), math.inf)


def _zeta(power: int, x: Term) -> Term:
    """Return the sum of ``(x + k)^-power`` over all k, by Euler and Maclaurin's formula."""

    def raised(base: Term, exponent: int) -> Term:
        result = base
        for _ in range(exponent - 1):
            result = result * base
        return result

    total = raised(1 / x, power)
    for step in range(1, int(_FAR)):
        total = total + raised(1 / (x + step), power)
    inverse = 1 / (x + _FAR)
    factors, factor = [], 1.0
    for i, bernoulli in enumerate(_BERNOULLI):
        # power (power + 1) ... (power + 2 i) / (2 i + 2)!
        factor = power / 2 if not i else (
            factor * (power + 2 * i - 1) * (power + 2 * i) / ((2 * i + 1) * (2 * i + 2))
        )  # fmt: skip
        factors.append(bernoulli * factor)
    series = (inverse * inverse).polynomial(factors) * inverse + 0.5
    rest = raised(inverse, power) * series
    return total + rest + raised(inverse, power - 1) * (1 / (power - 1))


def _derivative_of_cotangent(order: int) -> list[float]:
    """Return the polynomial of the cotangent that its derivative is, with the constant first."""
    polynomial = np.polynomial.Polynomial([0, 1])
    for _ in range(order):
        polynomial = -polynomial.deriv() * np.polynomial.Polynomial([1, 0, 1])
    return [float(factor) for factor in polynomial.coef]


# Modified Bessel functions, without the exponential that they grow with.


def _scaled_bessel(order: int, x: float) -> float:
    """Return ``exp(-x) I(x)`` of order 0 or 1."""
    if x <= 30:
        term = total = (x / 2) ** order
        for k in range(1, 120):
            term *= (x / 2) ** 2 / (k * (k + order))
            total += term
        return total * math.exp(-x)
    term = total = 1.0
    for k in range(1, 30):
        term *= ((2 * k - 1) ** 2 - 4 * order**2) / (8 * k * x)
        total += term
    return total / math.sqrt(2 * math.pi * x)


def _bessel(order: int, scaled: bool) -> Function:
    def near(t: float) -> float:
        x = 4 * (t + 1)
        return _scaled_bessel(order, x) / (x or 1) ** order if x or not order else 0.5

    def far(t: float) -> float:
        x = 16 / (t + 1) if t > -1 else math.inf
        return math.sqrt(x) * _scaled_bessel(order, x) if x < 1e12 else 1 / math.sqrt(2 * math.pi)

    def function(data: Term) -> Term:
        x = abs(data)
        small = _chebyshev(x.minimum(8) * 0.25 - 1, near, 32)
        if order:
            small = small * x
        large = _chebyshev(16 / x.maximum(8) - 1, far, 26) / x.of(relax.op.sqrt)
        result = small.where(x <= 8, large)
        if not scaled:
            result = (x * 0.5).of(relax.op.exp) * result * (x * 0.5).of(relax.op.exp)
        return (-result).where(data < 0, result) if order else result

    return function


for _name, _function in {
    "bessel_i0": _bessel(0, scaled=False),
    "bessel_i0e": _bessel(0, scaled=True),
    "bessel_i1": _bessel(1, scaled=False),
    "bessel_i1e": _bessel(1, scaled=True),
    "digamma": _digamma,
    "erf_inv": _erf_inv,
    "erfc": _erfc,
    "erfcx": _erfcx,
    "lgamma": _lgamma,
    "ndtri": _ndtri,
}.items():
    _register(_name, _function)
