# SPDX-License-Identifier: Apache-2.0
"""GELU, as exporters compose it of simpler operators."""

from __future__ import annotations

import math
from collections.abc import Callable

from tvm import relax
from tvm.relax.dpl import DFPattern, is_const, wildcard

from ..relax_ir.expressions import is_float32
from .matching import Matcher, operation

Number = Callable[[float], DFPattern]


class Gelu:
    """The pattern of ``x / 2 * (1 + f(x))``, multiplied in any order.

    Parameters
    ----------
    operator : Callable
        Relax's operator.
    function : Callable
        Returns the pattern of ``f`` for that of its operand, and for a function that makes the
        pattern of a number.
    """

    def __init__(
        self,
        operator: Callable[[relax.Expr], relax.Call],
        function: Callable[[DFPattern, Number], DFPattern],
    ) -> None:
        self._operator = operator
        self._numbers: dict[DFPattern, float] = {}
        self._operand = wildcard()
        half = self._number(0.5)
        term = operation("add", function(self._operand, self._number), self._number(1.0))
        first, *others = (
            _product(_product(a, b), c)
            for a, b, c in (
                (self._operand, term, half),
                (self._operand, half, term),
                (half, term, self._operand),
            )
        )
        self._pattern = first
        for other in others:
            self._pattern |= other

    def raised(self, matcher: Matcher, call: relax.Call) -> relax.Call | None:
        """Return the operator if ``call`` is the last of its composition."""
        match = matcher.match(self._pattern, call)
        if match is None or not is_float32(call):
            return None
        if not all(match.is_number(pattern, value) for pattern, value in self._numbers.items()):
            return None
        return self._operator(match.operand(self._operand))

    def _number(self, value: float) -> DFPattern:
        pattern = is_const()
        self._numbers[pattern] = value
        return pattern


def _product(left: DFPattern, right: DFPattern) -> DFPattern:
    return operation("multiply", left, right)


def _erf(x: DFPattern, number: Number) -> DFPattern:
    """Return the pattern of ``erf(x / sqrt(2))``."""
    return operation("erf", _product(x, number(math.sqrt(0.5))))


def _tanh(x: DFPattern, number: Number) -> DFPattern:
    """Return the pattern of ``tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))``."""
    cube = operation("power", x, number(3.0)) | _product(_product(x, x), x)
    sum_ = operation("add", x, _product(cube, number(0.044715)))
    return operation("tanh", _product(sum_, number(math.sqrt(2 / math.pi))))


GELUS = (Gelu(relax.op.nn.gelu, _erf), Gelu(relax.op.nn.gelu_tanh, _tanh))
"""The exact function, and its approximation by ``tanh``."""
