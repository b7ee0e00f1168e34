# SPDX-License-Identifier: Apache-2.0
"""Arithmetic by constants after a product whose columns are divided, which moves before that.

Keras adds the biases of an attention to heads. Added to the columns that these are made of, they
are a part of the product.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.constants import constant_array
from ..relax_ir.expressions import is_op, known_shape, op_name
from ..sizes.size import AnyShape, is_open, known_equal

_ARITHMETIC = ("add", "subtract", "multiply", "divide")
_PRODUCTS = ("matmul", *_ARITHMETIC)


def compute_before_division(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Rewrite ``f(reshape(product))`` to ``reshape(f(product))`` for arithmetic by constants."""
    return _Mover(mod).visit_expr(func)


@mutator
class _Mover(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        shape, call = known_shape(call), super().visit_call_(call)
        if op_name(call) not in _ARITHMETIC or not isinstance(call.args[0], relax.Var):
            return call
        divided = self.lookup_binding(call.args[0])
        if not is_op(divided, "reshape") or not isinstance(divided.args[0], relax.Var):
            return call
        data, value = divided.args[0], constant_array(call.args[1])
        if op_name(self.lookup_binding(data)) not in _PRODUCTS or shape != known_shape(divided):
            return call
        columns = None if value is None else _of_columns(value, known_shape(data), shape)
        if columns is None:
            return call
        operands = [data, relax.const(columns, str(columns.dtype))]
        moved = self.builder_.emit(relax.Call(call.op, operands, call.attrs))
        return relax.Call(divided.op, [moved, divided.args[1]], divided.attrs)


def _of_columns(
    value: np.ndarray, before: AnyShape | None, after: AnyShape | None
) -> np.ndarray | None:
    """Return a number for each column, of which ``after`` divides the last axis.

    None if the value varies among rows, or rows are divided, too.
    """
    if not before or after is None or len(after) < len(before):
        return None
    rows = len(before) - 1
    heads = after[rows:]
    if is_open(heads) or not all(map(known_equal, before[:rows], after[:rows])):
        return None
    trailing = value.reshape((1,) * (len(after) - value.ndim) + value.shape)
    if any(size != 1 for size in trailing.shape[:rows]):
        return None
    return np.broadcast_to(trailing[(0,) * rows], heads).reshape(-1)
