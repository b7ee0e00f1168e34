# SPDX-License-Identifier: Apache-2.0
"""Activations that have no kernel, or that exporters compose of slower functions."""

from __future__ import annotations

from tvm import relax
from tvm.relax.dpl import is_const, wildcard

from ..relax_ir.constants import constant_array
from ..relax_ir.expressions import held_shape, is_float32
from .matching import Matcher, operation

_LARGEST = 20.0  # from where on a mish is its operand; squares of exponentials are finite


class Slopes:
    """A relu with constant slopes below 0, as a choice, which joins the operator before it."""

    def raised(self, _matcher: Matcher, call: relax.Call) -> relax.Expr | None:
        """Return the choice; None if slopes are computed."""
        data, slopes = call.args[0], constant_array(call.args[1])
        if slopes is None or not is_float32(call):
            return None
        rank = len(held_shape(data))
        shape = [1] * rank
        shape[int(call.attrs.axis) % rank] = slopes.size
        below = relax.op.multiply(data, relax.const(slopes.reshape(shape), "float32"))
        return relax.op.where(relax.op.less(data, relax.const(0.0, "float32")), below, data)


class Mish:
    """The pattern of ``x * tanh(softplus(x))``."""

    def __init__(self) -> None:
        self._data, self._one = wildcard(), is_const()
        raw = operation("exp", self._data)
        falling = operation("exp", operation("negative", operation("abs", self._data)))
        direct, rest = (
            operation("log", operation("add", power, self._one)) for power in (raw, falling)
        )
        softplus = direct | operation("add", operation("nn.relu", self._data), rest)
        self._pattern = operation("multiply", operation("tanh", softplus), self._data)

    def raised(self, matcher: Matcher, call: relax.Call) -> relax.Expr | None:
        """Return ``x * n / (n + 2)`` of ``n = exp(x) * (exp(x) + 2)``."""
        match = matcher.match(self._pattern, call)
        if match is None or not is_float32(call) or not match.is_number(self._one, 1.0):
            return None
        data, two = match.operand(self._data), relax.const(2.0, "float32")
        power = relax.op.exp(relax.op.minimum(data, relax.const(_LARGEST, "float32")))
        n = relax.op.multiply(power, relax.op.add(power, two))
        return relax.op.multiply(data, relax.op.divide(n, relax.op.add(n, two)))


SLOPES = (Slopes(),)
MISHES = (Mish(),)
