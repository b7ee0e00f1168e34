# SPDX-License-Identifier: Apache-2.0
"""GELU, as exporters compose it of simpler operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from tvm import relax

from ..relax_ir.expressions import is_float32, known_shape, op_name
from .matching import Matcher
from .polynomials import (
    ARITHMETIC,
    Monomial,
    Polynomial,
    Polynomials,
    atom,
    below,
    is_near,
    scaled,
)

_FAR = 5  # steps from a product to the function in it, and from that to its operand
_X: Monomial = (("x", 1),)
_CUBE: Monomial = (("x", 3),)
_HALVES: Mapping[Monomial, float] = {_X: 0.5, (("f", 1), ("x", 1)): 0.5}


class Gelu:
    """The polynomial ``x / 2 * (1 + f(x))``, multiplied in any order.

    Parameters
    ----------
    operator : Callable
        Relax's operator.
    function : str
        The name of the odd function of ``f``.
    operand : mapping of Monomial to float
        The polynomial that is the operand of the odd function.
    """

    def __init__(
        self,
        operator: Callable[[relax.Expr], relax.Call],
        function: str,
        operand: Mapping[Monomial, float],
    ) -> None:
        self._operator, self._function, self._operand = operator, function, operand

    def raised(self, matcher: Matcher, call: relax.Call) -> relax.Call | None:
        """Return the operator if ``call`` is the last of its composition."""
        if not is_float32(call):
            return None
        for expr in below(matcher, call, ARITHMETIC, _FAR):
            function = matcher.value(expr)
            if op_name(function) == self._function:
                return self._of(matcher, call, function)
        return None

    def _of(self, matcher: Matcher, call: relax.Call, function: relax.Call) -> relax.Call | None:
        """Return the operator of what ``function`` reads a multiple or a polynomial of."""
        shape = known_shape(call)
        for data in below(matcher, function.args[0], ARITHMETIC, _FAR):
            if shape is None or not isinstance(data, relax.Var) or known_shape(data) != shape:
                continue
            found = self._polynomials(matcher, data).of(call)
            if found is not None and is_near(found, _HALVES):
                return self._operator(data)
        return None

    def _polynomials(self, matcher: Matcher, data: relax.Var) -> Polynomials:
        """Return what reads values as polynomials of ``data``, as x, and of ``f``."""

        def atoms(expr: relax.Expr, value: relax.Expr) -> Polynomial | None:
            if expr.same_as(data):
                return atom("x")
            operand = polynomials.of(value.args[0]) if op_name(value) == self._function else None
            for sign in (1.0, -1.0):
                if operand is not None and is_near(scaled(operand, sign), self._operand):
                    return scaled(atom("f"), sign)
            return None

        polynomials = Polynomials(matcher, atoms)
        return polynomials


_ROOT = math.sqrt(2 / math.pi)

GELUS = (
    Gelu(relax.op.nn.gelu, "erf", {_X: math.sqrt(0.5)}),
    Gelu(relax.op.nn.gelu_tanh, "tanh", {_X: _ROOT, _CUBE: 0.044715 * _ROOT}),
)
"""The exact function, and its approximation by ``tanh``."""
