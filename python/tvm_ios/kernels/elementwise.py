# SPDX-License-Identifier: Apache-2.0
"""Elementwise programs: what is computed on a kernel's result while it is in registers.

A program is free of TVM's IR: steps over earlier values, arguments and constants. It is built once
by the extractor, is part of a kernel's key, and is emitted on scalars or vectors alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from tvm import tirx
from tvm.tirx.script import builder as T

Expr = Any


@dataclass(frozen=True)
class Operand:
    """What a step reads.

    ``value`` i: value i of the program (0 is the anchor's result, i the result of step i - 1);
    ``argument`` i: tensor argument i; ``constant``: the number itself.
    """

    kind: Literal["value", "argument", "constant"]
    index: int | float


@dataclass(frozen=True)
class Step:
    """One elementwise operation; ``op`` is a key of :data:`FUNCTIONS`."""

    op: str
    operands: tuple[Operand, ...]


Broadcast = Literal["full", "channel"]


@dataclass(frozen=True)
class Program:
    """Steps after an anchor; the result is the last step's, or the anchor's when there is none.

    Attributes
    ----------
    steps : tuple of Step
    arguments : tuple of {"full", "channel"}
        Per tensor argument: of the result's shape, or one value a channel.
    """

    steps: tuple[Step, ...] = ()
    arguments: tuple[Broadcast, ...] = ()

    def apply(self, anchor: Expr, load: Callable[[int], Expr], lanes: int) -> Expr:
        """Emit the program on ``anchor``; ``load(i)`` gives tensor argument ``i``.

        Values are bound, as a step may be read more than once.
        """
        values = [anchor]
        loaded: dict[int, Expr] = {}

        def read(operand: Operand) -> Expr:
            if operand.kind == "value":
                return values[int(operand.index)]
            if operand.kind == "constant":
                number = T.float32(operand.index)
                return number if lanes == 1 else T.Broadcast(number, lanes)
            index = int(operand.index)
            if index not in loaded:
                loaded[index] = T.Bind(load(index))
            return loaded[index]

        for step in self.steps:
            values.append(T.Bind(FUNCTIONS[step.op](*map(read, step.operands))))
        return values[-1]


NOTHING = Program()
"""The program without steps."""


def _like(x: Expr, number: float) -> Expr:
    """``number`` in as many lanes as ``x`` has."""
    lanes = x.ty.lanes if hasattr(x.ty, "lanes") else 1
    return T.float32(number) if lanes == 1 else T.Broadcast(T.float32(number), lanes)


def _clip(x: Expr, low: Expr, high: Expr) -> Expr:
    return T.min(T.max(x, low), high)


def _sigmoid(x: Expr) -> Expr:
    one = _like(x, 1.0)
    return one / (one + tirx.exp(_like(x, 0.0) - x))


def _gelu(x: Expr) -> Expr:
    """``x * Phi(x)`` as ``max(x, 0) - |x| / 2 * erfc(|x| / sqrt(2))``.

    TVM has no ``erf`` of vectors. The complementary one is Abramowitz and Stegun's 7.1.26, whose
    error is below 1.5e-7.
    """
    zero = _like(x, 0.0)
    size = T.Bind(T.max(x, zero - x))
    t = T.Bind(_like(x, 1.0) / (_like(x, 1.0) + size * _like(x, 0.3275911 * 0.5**0.5)))
    polynomial = zero
    for coefficient in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        polynomial = (polynomial + _like(x, coefficient)) * t
    complement = polynomial * tirx.exp(size * size * _like(x, -0.5))
    return T.max(x, zero) - size * _like(x, 0.5) * complement


def _leaky_relu(x: Expr, slope: Expr) -> Expr:
    zero = _like(x, 0.0)
    return T.max(x, zero) + T.min(x, zero) * slope


FUNCTIONS: dict[str, Callable[..., Expr]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "maximum": T.max,
    "minimum": T.min,
    "relu": lambda x: T.max(x, _like(x, 0.0)),
    "relu6": lambda x: _clip(x, _like(x, 0.0), _like(x, 6.0)),
    "clip": _clip,
    "leaky_relu": _leaky_relu,
    "negative": lambda x: _like(x, 0.0) - x,
    "abs": lambda x: T.max(x, _like(x, 0.0) - x),
    "square": lambda x: x * x,
    "exp": lambda x: tirx.exp(x),
    "log": lambda x: tirx.log(x),
    "sqrt": lambda x: tirx.sqrt(x),
    "rsqrt": lambda x: _like(x, 1.0) / tirx.sqrt(x),
    "tanh": lambda x: tirx.tanh(x),
    "sigmoid": _sigmoid,
    "silu": lambda x: x * _sigmoid(x),
    "gelu": _gelu,
}
