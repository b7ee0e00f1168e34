# SPDX-License-Identifier: Apache-2.0
"""Grids of 8 bits that the range of a tensor decides, as reductions."""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..graph.recognise import is_dynamic_grid
from ..ops.dynamic_grid import LARGEST


def expand_grids(_mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Replace searches for grids by reductions, for back ends without a kernel."""
    return _Expander().visit_expr(func)


@mutator
class _Expander(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        return expanded(self.builder_, *call.args[1].fields) if is_dynamic_grid(call) else call


def expanded(builder: relax.BlockBuilder, data: relax.Expr) -> relax.Tuple:
    """Emit the search for a grid, and return its step and which number stands for 0."""
    emit, dtype = builder.emit, str(data.ty.dtype)
    zero, one, last = (relax.const(x, dtype) for x in (0, 1, LARGEST))
    largest = emit(relax.op.maximum(emit(relax.op.max(data)), zero))
    least = emit(relax.op.minimum(emit(relax.op.min(data)), zero))
    width = emit(relax.op.subtract(largest, least))
    steps = emit(relax.op.divide(width, last))
    nothing = emit(relax.op.equal(width, zero))
    scale = emit(relax.op.where(nothing, one, steps))
    place = emit(relax.op.divide(emit(relax.op.negative(least)), scale))
    return relax.Tuple([scale, emit(relax.op.round(emit(relax.op.clip(place, 0.0, LARGEST))))])
