# SPDX-License-Identifier: Apache-2.0
"""What a recurrent layer computes of the sums of a step, in any arithmetic.

The formulas are written once, by the names of operations. A vector in a kernel, a number in TIR and
a tensor in Relax each have a function that applies an operation to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .recurrence import Recurrence

Expr = Any

Apply = Callable[..., Expr]
"""A function of an operation's name and its operands, numbers among them, which computes it once.

The operations are ``add``, ``subtract``, ``multiply``, ``divide``, ``maximum``, ``minimum``,
``exp``, ``log``, ``abs``, ``relu``, ``sigmoid``, ``tanh``, and ``threshold``: an operand where it
is not less than a limit, 0 elsewhere. The first operand is no number; NaN remains NaN.
"""

_Activation = Callable[[Apply, Expr, float, float], Expr]


def _scaled_tanh(apply: Apply, x: Expr, alpha: float, beta: float) -> Expr:
    return apply("multiply", apply("tanh", apply("multiply", x, beta)), alpha)


def _hard_sigmoid(apply: Apply, x: Expr, alpha: float, beta: float) -> Expr:
    line = _affine(apply, x, alpha, beta)
    return apply("minimum", apply("maximum", line, 0.0), 1.0)


def _affine(apply: Apply, x: Expr, alpha: float, beta: float) -> Expr:
    return apply("add", apply("multiply", x, alpha), beta)


def _leaky_relu(apply: Apply, x: Expr, alpha: float, _: float) -> Expr:
    return apply("add", apply("relu", x), apply("multiply", apply("minimum", x, 0.0), alpha))


def _elu(apply: Apply, x: Expr, alpha: float, _: float) -> Expr:
    power = apply("exp", apply("minimum", x, 0.0))
    below = apply("multiply", apply("subtract", power, 1.0), alpha)
    return apply("add", apply("relu", x), below)


def _softsign(apply: Apply, x: Expr, _: float, __: float) -> Expr:
    return apply("divide", x, apply("add", apply("abs", x), 1.0))


def _softplus(apply: Apply, x: Expr, _: float, __: float) -> Expr:
    """Compute ``log(1 + exp(x))`` in a form that cannot overflow."""
    falling = apply("exp", apply("multiply", apply("abs", x), -1.0))
    return apply("add", apply("relu", x), apply("log", apply("add", falling, 1.0)))


ACTIVATIONS: dict[str, _Activation] = {
    "relu": lambda apply, x, _, __: apply("relu", x),
    "sigmoid": lambda apply, x, _, __: apply("sigmoid", x),
    "tanh": lambda apply, x, _, __: apply("tanh", x),
    "affine": _affine,
    "elu": _elu,
    "hardsigmoid": _hard_sigmoid,
    "leakyrelu": _leaky_relu,
    "scaledtanh": _scaled_tanh,
    "softplus": _softplus,
    "softsign": _softsign,
    "thresholdedrelu": lambda apply, x, alpha, _: apply("threshold", x, alpha),
}
"""Functions of an operand and two parameters, by name."""


class Formulas:
    """The formulas of a layer in an arithmetic.

    Parameters
    ----------
    layer : Recurrence
    apply : Apply
    """

    def __init__(self, layer: Recurrence, apply: Apply) -> None:
        self._layer, self._apply = layer, apply

    def gate(self, total: Expr) -> Expr:
        """Return ``F`` of a sum: a gate, or the state of an ``rnn``."""
        return self._function(0, self._clipped(total))

    def new(self, total: Expr) -> Expr:
        """Return ``G`` of a sum."""
        return self._function(1, self._clipped(total))

    def lstm(
        self, sums: Sequence[Expr], peepholes: Sequence[Expr] | None, memory: Expr
    ) -> tuple[Expr, Expr]:
        """Return ``h`` and ``c`` after a step.

        Parameters
        ----------
        sums : sequence of Expr
            Of the gates i, f, g, o.
        peepholes : sequence of Expr or None
            The weights of ``c`` in i, f, o.
        memory : Expr
            ``c`` before the step.
        """
        apply = self._apply

        def seen(number: int, weight: int, memory: Expr) -> Expr:
            if peepholes is None:
                return self.gate(sums[number])
            part = apply("multiply", memory, peepholes[weight])
            return self.gate(apply("add", part, sums[number]))

        entered = seen(0, 0, memory)
        if self._layer.coupled:
            forgotten = apply("add", apply("multiply", entered, -1.0), 1.0)
        else:
            forgotten = seen(1, 1, memory)
        kept = apply("multiply", forgotten, memory)
        memory = apply("add", kept, apply("multiply", entered, self.new(sums[2])))
        out = seen(3, 2, memory)
        return apply("multiply", out, self._function(2, memory)), memory

    def mixed(self, update: Expr, new: Expr, hidden: Expr) -> Expr:
        """Return the state of a ``gru`` after a step: the old one as far as ``update`` says."""
        apply = self._apply
        difference = apply("subtract", hidden, new)
        return apply("add", new, apply("multiply", update, difference))

    def _function(self, number: int, x: Expr) -> Expr:
        alpha, beta = self._layer.parameters[number] if self._layer.parameters else (0.0, 0.0)
        return ACTIVATIONS[self._layer.activations[number]](self._apply, x, alpha, beta)

    def _clipped(self, total: Expr) -> Expr:
        limit = self._layer.clip
        if limit is None:
            return total
        return self._apply("minimum", self._apply("maximum", total, -limit), limit)
