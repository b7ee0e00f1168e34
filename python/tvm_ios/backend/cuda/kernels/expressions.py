# SPDX-License-Identifier: Apache-2.0
"""Queries on TIR expressions."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

Expr = Any

_CHOICE = tvm.ir.Op.get("prim.if_then_else")


def is_zero(value: Expr) -> bool:
    """Return whether ``value`` is the constant 0."""
    return isinstance(value, (tirx.IntImm, tirx.FloatImm)) and value.value == 0


def is_choice(value: Expr) -> bool:
    """Return whether ``value`` is ``if_then_else``, which reads only the chosen operand."""
    return isinstance(value, tvm.ir.Call) and value.op.same_as(_CHOICE)


def loads_in(expr: Expr) -> list[Any]:
    """Return the tensor elements that an expression reads."""
    found: list[Any] = []
    tvm_ffi.structural_walk(expr, [(tvm.ir.TensorLoad, found.append)])
    return found


def variables_in(expr: Expr) -> set[Any]:
    """Return the free scalar variables of an expression."""
    return {v for v in tirx.analysis.undefined_vars(expr) if isinstance(v.ty, tvm.ir.PrimType)}
