# SPDX-License-Identifier: Apache-2.0
"""Reductions over empty axes, for which TVM's kernels leave the result uninitialised."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.expressions import is_static

_NOTHING: Mapping[str, float] = {
    **dict.fromkeys(
        [
            "relax.matmul",
            *(f"relax.nn.conv{n}d{kind}" for n in (1, 2, 3) for kind in ("", "_transpose")),
        ],
        0.0,
    ),
    "relax.sum": 0.0,
    "relax.prod": 1.0,
    "relax.mean": math.nan,
    "relax.variance": math.nan,
    "relax.std": math.nan,
    "relax.max": -math.inf,
    "relax.min": math.inf,
}
"""The result of each operator over no elements, as in NumPy."""


def fill_empty_sums(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Replace each reduction over an axis without elements by its value.

    TVM's kernels initialise the result with the first element of a reduction, so without elements
    the result is uninitialised.
    """
    return _Filler(mod).visit_expr(func)


@mutator
class _Filler(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        name = call.op.name if isinstance(call.op, tvm.ir.Op) else ""
        if name not in _NOTHING or not any(map(_is_empty, call.args)):
            return call
        if _is_empty(call):
            return call
        dtype = str(call.ty.dtype.dtype)
        value = _value(name, dtype)
        if not is_static(call):
            full = relax.op.full(call.ty.shape, relax.const(value, dtype), dtype)
            return self.builder_.normalize(full)
        shape = [int(extent) for extent in call.ty.shape]
        return relax.const(np.full(shape, value, dtype), dtype)


def _value(name: str, dtype: str) -> float | int:
    value = _NOTHING[name]
    if dtype.startswith(("int", "uint")) and not math.isfinite(value):
        if math.isnan(value):
            return 0
        limits = np.iinfo(dtype)
        return int(limits.max if value > 0 else limits.min)
    return value


def _is_empty(expr: relax.Expr) -> bool:
    """Return whether ``expr`` is a tensor that is known to have no elements."""
    shape = getattr(expr.ty, "shape", None)
    extents = shape.values if isinstance(shape, relax.ShapeExpr) else ()
    return any(isinstance(extent, tvm.tirx.IntImm) and int(extent) == 0 for extent in extents)
