# SPDX-License-Identifier: Apache-2.0
"""What there is in an expression."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

Expr = Any

_CHOICE = tvm.ir.Op.get("prim.if_then_else")


def is_zero(value: Expr) -> bool:
    """Whether it is the number 0."""
    return isinstance(value, (tirx.IntImm, tirx.FloatImm)) and value.value == 0


def is_choice(value: Expr) -> bool:
    """Whether it is one value where a condition holds, of which only then anything is read."""
    return isinstance(value, tvm.ir.Call) and value.op.same_as(_CHOICE)


def loads_in(expr: Expr) -> list[Any]:
    """Elements of tensors."""
    found: list[Any] = []
    tvm_ffi.structural_walk(expr, [(tvm.ir.TensorLoad, found.append)])
    return found


def variables_in(expr: Expr) -> set[Any]:
    """Numbers that are given from outside."""
    return {v for v in tirx.analysis.undefined_vars(expr) if isinstance(v.ty, tvm.ir.PrimType)}
