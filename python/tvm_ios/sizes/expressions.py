# SPDX-License-Identifier: Apache-2.0
"""Expressions of open dimensions, as TVM has them."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import tvm
import tvm_ffi
from tvm import tirx

Expr = Any

BINARY: dict[type, Callable[[Any, Any], Any]] = {
    tirx.Add: operator.add,
    tirx.Sub: operator.sub,
    tirx.Mul: operator.mul,
    tirx.FloorDiv: tirx.floordiv,
    tirx.FloorMod: tirx.floormod,
    tirx.Min: tirx.min,
    tirx.Max: tirx.max,
}
"""How the expressions of sizes are computed in TIR."""


_Result = TypeVar("_Result")


class Known(Generic[_Result]):
    """What was found of expressions, which equal expressions are not asked for again."""

    def __init__(self) -> None:
        self._found: dict[Hashable, list[tuple[Expr, _Result]]] = {}

    def get(self, expr: Expr, find: Callable[[Expr], _Result], also: Hashable = None) -> _Result:
        """Return what ``find`` returns of an expression, and of what else that depends on."""
        found = self._found.setdefault((also, tvm_ffi.structural_hash(expr)), [])
        for known, result in found:
            if tvm_ffi.structural_equal(known, expr):
                return result
        result = find(expr)
        found.append((expr, result))
        return result


def text_of(expr: Expr) -> str:
    """Return an expression of sizes as people write it."""
    return re.sub(r"T\.int64\((-?\d+)\)", r"\1", str(expr))


def long(number: int) -> Expr:
    """Return a number as an int64 expression."""
    return tirx.const(number, "int64")


def is_computable(expr: Expr) -> bool:
    """Return whether an expression is made of what is computed in TIR, and nothing else."""
    if isinstance(expr, tvm.ir.Var | tirx.IntImm):
        return True
    return type(expr) in BINARY and is_computable(expr.a) and is_computable(expr.b)


def shortened(expr: Expr, short: dict[tvm.ir.Var, tvm.ir.Var]) -> Expr:
    """Return an expression of dimensions in 32 bits.

    Raises
    ------
    TypeError
        If it is not made of what is computed in TIR.
    """
    if isinstance(expr, tirx.IntImm):
        return tirx.const(int(expr.value), "int32")
    if isinstance(expr, tvm.ir.Var):
        return short[expr]
    combine = BINARY.get(type(expr))
    if combine is None:
        raise TypeError(f"{expr} is no size")
    return combine(shortened(expr.a, short), shortened(expr.b, short))
