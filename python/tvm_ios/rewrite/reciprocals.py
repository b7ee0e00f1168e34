# SPDX-License-Identifier: Apache-2.0
"""Divisions by constants, as multiplications by their reciprocals.

A division takes a core many times as long as a multiplication. Exported networks divide by a
constant in every GELU, ``x / sqrt(2)``. The result is rounded twice instead of once. For the
constants zero and infinity it is the same: ``0 / 0`` and ``0 * inf`` are NaN.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.constants import constant_array
from ..relax_ir.expressions import is_op


def multiply_by_reciprocals(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Rewrite ``x / c`` to ``x * (1 / c)`` unless the constant or its reciprocal is subnormal."""
    return _Reciprocals(mod).visit_expr(func)


@mutator
class _Reciprocals(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        divisor = constant_array(call.args[1]) if is_op(call, "divide") else None
        if divisor is None or not np.issubdtype(divisor.dtype, np.floating):
            return super().visit_call_(call)
        with np.errstate(all="ignore"):
            factor = np.reciprocal(divisor)
        if _is_subnormal(divisor) or _is_subnormal(factor):
            return super().visit_call_(call)
        operands = [self.visit_expr(call.args[0]), relax.const(factor, str(divisor.dtype))]
        return relax.op.multiply(*operands)


def _is_subnormal(values: np.ndarray) -> bool:
    """Return whether a value lies so near zero that it has fewer digits than others."""
    return bool(np.any((values != 0) & (np.abs(values) < np.finfo(values.dtype).tiny)))
