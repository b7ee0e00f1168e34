# SPDX-License-Identifier: Apache-2.0
"""Open sizes as the metadata of a library has them, and what is said of those that are refused."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tirx

from .expressions import text_of
from .size import AnySize, OpenSizes, Size

Expr = Any

_SYMBOLS: dict[type, str] = {
    tirx.Add: "+",
    tirx.Sub: "-",
    tirx.Mul: "*",
    tirx.FloorDiv: "//",
    tirx.FloorMod: "%",
    tirx.Min: "min",
    tirx.Max: "max",
    tirx.EQ: "==",
    tirx.NE: "!=",
    tirx.LT: "<",
    tirx.LE: "<=",
    tirx.GT: ">",
    tirx.GE: ">=",
    tirx.And: "and",
    tirx.Or: "or",
}


def described(size: AnySize) -> Any:
    """Return a size as :mod:`tvm_ios_runtime.open_sizes` reads it."""
    return _described(size.expr) if isinstance(size, Size) else size


def requirements(opened: OpenSizes) -> list[tuple[Expr, str]]:
    """Return what the dimensions must fulfil, each with the sentence that a refusal says."""
    found = []
    for variable, (least, most) in opened.bounds.items():
        name = variable.name
        found.append((variable >= least, f"The size {name} must be at least {least}."))
        found.append((variable <= most, f"The size {name} must be at most {most}."))
    for condition in opened.conditions:
        text = f"The sizes of the inputs must fulfil {text_of(condition)}."
        found.append((condition, text))
    return found


def described_requirements(opened: OpenSizes) -> list[tuple[Any, str]]:
    """Return the requirements that :mod:`tvm_ios_runtime.open_sizes` can check."""
    found = []
    for condition, text in requirements(opened):
        try:
            found.append((_described(condition), text))
        except KeyError:  # the library checks it, too
            continue
    return found


def _described(expr: Expr) -> Any:
    if isinstance(expr, tirx.IntImm):
        return int(expr.value)
    if isinstance(expr, tvm.ir.Var):
        return str(expr.name)
    if isinstance(expr, tirx.Not):
        return ["==", _described(expr.a), 0]
    return [_SYMBOLS[type(expr)], _described(expr.a), _described(expr.b)]
