# SPDX-License-Identifier: Apache-2.0
"""Matching of dataflow patterns in a Relax function."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

import numpy as np
from tvm import relax
from tvm.relax.dpl import DFPattern, is_op

from ..relax_ir.constants import constant_array, scalar_constant

_ACCURACY = 1e-6  # relative, of the numbers of a formula, which exporters round to float32


def operation(name: str, *operands: DFPattern) -> DFPattern:
    """Return the pattern of Relax's operator; sums and products match in either order."""
    return is_op(f"relax.{name}")(*operands)


class Matcher:
    """Matches patterns in a function that binds every value to a variable."""

    def __init__(self, func: relax.Function) -> None:
        self._values = relax.analysis.get_var2val(func)
        self._variables = {value: variable for variable, value in self._values.items()}

    def match(self, pattern: DFPattern, call: relax.Call) -> Match | None:
        """Return what the parts of ``pattern`` match if ``pattern`` matches ``call``."""
        found = pattern.extract_matched_expr(call, self._values)
        return None if found is None else Match(found, self._variables)

    def value(self, expr: relax.Expr) -> relax.Expr:
        """Return what a variable is bound to; any other expression as it is."""
        return self._values.get(expr, expr) if isinstance(expr, relax.Var) else expr


class Match:
    """The expressions that the parts of a pattern match."""

    def __init__(
        self,
        found: Mapping[DFPattern, relax.Expr],
        variables: Mapping[relax.Expr, relax.Var],
    ) -> None:
        self._found, self._variables = found, variables

    def __contains__(self, pattern: DFPattern) -> bool:
        return pattern in self._found

    def call(self, pattern: DFPattern) -> relax.Call:
        """Return the call that a part matches."""
        return cast(relax.Call, self._found[pattern])

    def operand(self, pattern: DFPattern) -> relax.Expr:
        """Return the variable whose value a part matches, or the constant."""
        value = self._found[pattern]
        return self._variables.get(value, value)

    def array(self, pattern: DFPattern) -> np.ndarray | None:
        """Return the constant that a part matches; None if the part is not in the match."""
        return constant_array(self._found[pattern]) if pattern in self._found else None

    def is_number(self, pattern: DFPattern, value: float) -> bool:
        """Return whether a part matches the number ``value``, or is not in the match."""
        if pattern not in self._found:
            return True
        number = scalar_constant(self._found[pattern])
        return number is not None and math.isclose(number, value, rel_tol=_ACCURACY)
