# SPDX-License-Identifier: Apache-2.0
"""Constants without elements, which TVM writes into a library and cannot read again."""

from __future__ import annotations

import math

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.constants import constant_array


def allocate_empty_constants(mod: tvm.IRModule) -> tvm.IRModule:
    """Replace constants without elements by tensors that are allocated when the function runs."""
    result = mod.clone()
    for variable, function in mod.functions.items():
        if isinstance(function, relax.Function):
            result.update_func(variable, _Allocator(mod).visit_expr(function))
    return result


@mutator
class _Allocator(PyExprMutator):
    def visit_generic_const_(self, constant: tvm.ir.GenericConst) -> relax.Expr:
        array = constant_array(constant)
        if array is None or math.prod(array.shape):
            return constant
        shape = relax.ShapeExpr(array.shape)
        return self.builder_.emit(relax.op.builtin.alloc_tensor(shape, str(array.dtype), 0))
