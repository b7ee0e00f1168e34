# SPDX-License-Identifier: Apache-2.0
"""Means of integers, in the data type that Relax specifies."""

from __future__ import annotations

import math

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.expressions import is_op, is_static


def divide_integer_sums(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Replace the mean of integers by their sum, divided.

    TVM's lowering of a mean divides by an ``int64`` and returns one, although Relax gives the
    result the operand's type.
    """
    return _MeanDivider(mod).visit_expr(func)


@mutator
class _MeanDivider(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        if not is_op(call, "mean") or not _is_static_integer(call.args[0]):
            return call
        data, axes = call.args[0], call.attrs.axis
        extents = [int(extent) for extent in data.ty.shape]
        reduced = extents if axes is None else [extents[int(axis)] for axis in axes]
        total = self.builder_.emit(relax.op.sum(data, axes, call.attrs.keepdims))
        count = relax.const(math.prod(reduced), str(data.ty.dtype.dtype))
        return relax.op.divide(total, count)


def _is_static_integer(data: relax.Expr) -> bool:
    return is_static(data) and "int" in str(data.ty.dtype.dtype)
