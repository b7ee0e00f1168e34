# SPDX-License-Identifier: Apache-2.0
"""Folding of the constants that NumPy has left, by TVM."""

from __future__ import annotations

import tvm
from tvm import relax

from ..relax_ir.functions import bindings_of

_OF_SHAPES = ("relax.full_like", "relax.ones_like", "relax.zeros_like")


@tvm.transform.module_pass(opt_level=0, name="tvm_ios.fold_the_rest")
def fold_the_rest(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
    """Run TVM's ``FoldConstant`` if there is something to fold: it lowers every operator first."""
    calls: list[relax.Call] = []
    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            values = bindings_of(function).values()
            calls += [value for value in values if isinstance(value, relax.Call)]
    if not any(map(_is_known, calls)):
        return mod
    return relax.transform.FoldConstant()(mod)


def _is_known(call: relax.Call) -> bool:
    """Return whether a call may be constant: its operands are, or only their shapes count."""
    if isinstance(call.op, tvm.ir.Op) and call.op.name in _OF_SHAPES:
        return True
    kinds = relax.TensorType | relax.TupleType
    return not any(isinstance(value.ty, kinds) and _varies(value) for value in call.args)


def _varies(expr: relax.Expr) -> bool:
    if isinstance(expr, relax.Tuple):
        return any(map(_varies, expr.fields))
    return not isinstance(expr, tvm.ir.GenericConst)
