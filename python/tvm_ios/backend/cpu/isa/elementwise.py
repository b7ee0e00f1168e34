# SPDX-License-Identifier: Apache-2.0
"""The operations of an epilogue's steps, on float32 vectors of any number of lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from .arcs import acos, asin, atan
from .circular import cos, sin, tan
from .functions import (
    absolute,
    erf,
    full_exp,
    gelu,
    gelu_tanh,
    keep,
    largest,
    like,
    log,
    sigmoid,
    smallest,
)
from .hyperbolic import acosh, asinh, atanh, cosh, sinh, tanh
from .power import power

Expr = Any


def _difference(a: Expr, b: Expr) -> Expr:
    """Compute ``a - b`` without TVM's simplifications of ``x - x`` and ``(x + y) - y``.

    These are wrong if a variable is infinite or NaN.
    """
    return keep(a) - b


def _clip(x: Expr, low: Expr, high: Expr) -> Expr:
    return T.min(high, T.max(low, x))  # preserves NaN, which comes second


def _leaky_relu(x: Expr, slope: Expr) -> Expr:
    x = keep(x)
    return T.max(like(x, 0.0), x) + T.min(like(x, 0.0), x) * slope


def _sign(x: Expr) -> Expr:
    """Return 1, -1 or 0, which is also that of NaN."""
    x = keep(x)
    below = tirx.Select(x < like(x, 0.0), like(x, -1.0), like(x, 0.0))
    return tirx.Select(x > like(x, 0.0), like(x, 1.0), below)


def _condition(
    holds: Callable[[Expr, Expr], Expr], numbers: tuple[float, float] = (1.0, 0.0)
) -> Callable[[Expr, Expr], Expr]:
    """Return a comparison whose result is 1 or 0, or other ``numbers``.

    TVM takes all numbers to equal themselves, also NaN, if it sees that they are the same.
    """

    def compare(a: Expr, b: Expr) -> Expr:
        return tirx.Select(holds(keep(a), b), *(like(a, number) for number in numbers))

    return compare


def _where(condition: Expr, chosen: Expr, other: Expr) -> Expr:
    return tirx.Select(tirx.NE(condition, like(condition, 0.0)), chosen, other)


def _once(function: Callable[[Expr], Expr]) -> Callable[[Expr], Expr]:
    """Make ``function``, which reads its operand several times, compute the operand once."""
    return lambda x: function(keep(x))


FUNCTIONS: dict[str, Callable[..., Expr]] = {
    "add": lambda a, b: a + b,
    "subtract": _difference,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "power": power,
    "maximum": largest,
    "minimum": smallest,
    "equal": _condition(tirx.EQ),
    "not_equal": _condition(tirx.EQ, (0.0, 1.0)),  # LLVM's is false for NaN, as TVM calls it
    "less": _condition(tirx.LT),
    "less_equal": _condition(tirx.LE),
    "greater": _condition(tirx.GT),
    "greater_equal": _condition(tirx.GE),
    "where": _where,
    "relu": lambda x: T.max(like(x, 0.0), x),
    "relu6": lambda x: _clip(x, like(x, 0.0), like(x, 6.0)),
    "clip": _clip,
    "leaky_relu": _leaky_relu,
    "negative": lambda x: like(x, 0.0) - x,
    "abs": _once(absolute),
    "sign": _sign,
    "round": lambda x: tirx.nearbyint(x),
    "floor": lambda x: tirx.floor(x),
    "ceil": lambda x: tirx.ceil(x),
    "trunc": lambda x: tirx.trunc(x),
    "square": _once(lambda x: x * x),
    "exp": full_exp,
    "log": log,
    "sqrt": lambda x: tirx.sqrt(x),
    "rsqrt": lambda x: like(x, 1.0) / tirx.sqrt(x),
    "sin": sin,
    "cos": cos,
    "tan": tan,
    "asin": asin,
    "acos": acos,
    "atan": atan,
    "sinh": sinh,
    "cosh": cosh,
    "tanh": tanh,
    "asinh": asinh,
    "acosh": acosh,
    "atanh": atanh,
    "sigmoid": sigmoid,
    "silu": _once(lambda x: x * sigmoid(x)),
    "erf": erf,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
}
"""The operations of an epilogue's steps, by name."""
