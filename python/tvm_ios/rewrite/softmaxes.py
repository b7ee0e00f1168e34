# SPDX-License-Identifier: Apache-2.0
"""Softmax, as exporters compose it of exponentials and their sum."""

from __future__ import annotations

import numpy as np
from tvm import relax
from tvm.relax.dpl import is_const, wildcard

from ..relax_ir.constants import constant_array, scalar_constant
from ..relax_ir.expressions import held_shape, is_float32, known_shape
from .matching import Matcher, operation

_HIDDEN = -1e12
"""Scores up to 32,768 vanish where such a number is added to them, as those that it replaces."""


class Softmax:
    """The pattern of exponentials of what the largest number exceeds, over their sum."""

    def __init__(self) -> None:
        self._data, self._one = wildcard(), is_const()
        self._largest = operation("max", self._data)
        below = operation("subtract", self._data, self._largest)
        exponentials = operation("exp", below)
        self._sum = operation("sum", exponentials)
        inverse = operation("divide", self._one, self._sum)
        self._pattern = operation("divide", exponentials, self._sum) | operation(
            "multiply", exponentials, inverse
        )

    def raised(self, matcher: Matcher, call: relax.Call) -> relax.Call | None:
        """Return the operator if ``call`` is the last of its composition."""
        match = matcher.match(self._pattern, call)
        if match is None or not is_float32(call) or not match.is_number(self._one, 1.0):
            return None
        reductions = [match.call(part).attrs for part in (self._largest, self._sum)]
        data = match.operand(self._data)
        rank = len(held_shape(call))
        axes = {tuple(int(axis) % rank for axis in each.axis or range(rank)) for each in reductions}
        if not all(each.keepdims for each in reductions) or len(axes) != 1:
            return None
        chosen = axes.pop()
        return relax.op.nn.softmax(data, chosen[0]) if len(chosen) == 1 else None


class MaskedSoftmax:
    """The pattern of a softmax of numbers, of which some are replaced by a very negative one."""

    def __init__(self) -> None:
        self._condition, self._first, self._second = (wildcard() for _ in range(3))
        choice = operation("where", self._condition, self._first, self._second)
        self._pattern = operation("nn.softmax", choice)

    def raised(self, matcher: Matcher, call: relax.Call) -> relax.Call | None:
        """Return the softmax with the negative number added, so that it is a bias."""
        match = matcher.match(self._pattern, call)
        if match is None or not is_float32(call):
            return None
        condition = match.operand(self._condition)
        operands = [match.operand(part) for part in (self._first, self._second)]
        for place, scores in enumerate(reversed(operands)):
            hidden = scalar_constant(operands[place])
            if hidden is None or hidden > _HIDDEN or known_shape(scores) != known_shape(call):
                continue
            values = np.array([hidden, 0.0] if place == 0 else [0.0, hidden], "float32")
            bias = _choice(condition, values)
            return relax.op.nn.softmax(relax.op.add(scores, bias), call.attrs.axis)
        return None


def _choice(condition: relax.Expr, values: np.ndarray) -> relax.Expr:
    """Return the first of two numbers where a condition is true, and the second elsewhere."""
    known = constant_array(condition)
    if known is not None:
        return relax.const(np.where(known, *values))
    return relax.op.where(condition, *map(relax.const, values))


SOFTMAXES = (Softmax(),)
MASKED_SOFTMAXES = (MaskedSoftmax(),)
