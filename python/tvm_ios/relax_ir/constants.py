# SPDX-License-Identifier: Apache-2.0
"""Constant tensors and numbers."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax


def constant_array(expr: relax.Expr) -> np.ndarray | None:
    """Return the value of a constant tensor, which is read-only; None for any other expression."""
    if isinstance(expr, tvm.ir.GenericConst) and isinstance(expr.value, tvm.runtime.Tensor):
        return _viewed(expr.value)
    return None


def _viewed(tensor: tvm.runtime.Tensor) -> np.ndarray:
    """Return a view of a tensor: to copy all weights whenever they are looked at takes seconds."""
    try:
        array = np.from_dlpack(tensor)
    except RuntimeError:  # NumPy does not have its type, such as bfloat16
        array = tensor.numpy()
    array.flags.writeable = False
    return array


def held_array(expr: relax.Expr) -> np.ndarray:
    """Return the value of an expression that is known to be a constant tensor."""
    value = constant_array(expr)
    assert value is not None, "it is constant"
    return value


def scalar_constant(expr: relax.Expr) -> float | None:
    """Return the value of a constant with one element; None for any other expression."""
    value = constant_array(expr)
    return float(value.reshape(-1)[0]) if value is not None and value.size == 1 else None


def number_of(expr: relax.Expr) -> float | None:
    """Return a number that is a prim value or a constant tensor with one element."""
    value = getattr(expr, "value", None)
    if isinstance(value, tvm.tirx.IntImm | tvm.tirx.FloatImm):
        return float(value.value)
    if isinstance(value, int | float):
        return float(value)
    return scalar_constant(expr)
