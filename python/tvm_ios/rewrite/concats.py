# SPDX-License-Identifier: Apache-2.0
"""Operations after a concatenation, which are applied to each part before it.

There they join the epilogue of the part's convolution, which is computed in registers; between
operators an operation is a pass over memory.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.constants import constant_array
from ..relax_ir.expressions import is_op
from ..relax_ir.functions import bindings_of, use_counts

_AXES = 4  # of the concatenations that are rewritten
_UNARY = ("nn.relu", "round", "clip")  # further operands are numbers
_BINARY = ("multiply", "divide", "add", "subtract")


def distribute_over_concat(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Rewrite ``f(concat(a, b))`` to ``concat(f(a), f(b))`` for operations of one tensor.

    They are relu, what quantises, and operations with constants per channel.
    """
    bound = bindings_of(func)
    if not any(is_op(value, "concat") for value in bound.values()):
        return func
    return _Distributor(mod, func, bound).visit_expr(func)


@mutator
class _Distributor(PyExprMutator):
    def __init__(
        self, mod: tvm.IRModule, func: relax.Function, bound: dict[relax.Var, relax.Expr]
    ) -> None:
        super().__init__(mod)
        self._bound, self._uses = bound, use_counts(func)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        parts = self._parts(call.args[0]) if call.args else None
        pieces = None if parts is None else _split_operand(call, parts)
        if parts is None or pieces is None:
            return super().visit_call_(call)
        results = []
        for part, piece in zip(parts, pieces, strict=True):
            arguments = [self.visit_expr(part), *piece]
            results.append(self.builder_.emit(relax.Call(call.op, arguments, call.attrs)))
        return relax.op.concat(results, axis=1)

    def _parts(self, expr: relax.Expr) -> list[relax.Expr] | None:
        """Return the parts of the channel concatenation ``expr`` if it has no other reader.

        A part that is itself a concatenation to be distributed is not a variable yet and is left
        unchanged.
        """
        concat = self._bound.get(expr) if isinstance(expr, relax.Var) else None
        if not is_op(concat, "concat") or self._uses.get(expr) != 1 or int(expr.ty.ndim) != _AXES:
            return None
        operand = concat.args[0]
        operand = self._bound.get(operand, operand) if isinstance(operand, relax.Var) else operand
        axis = concat.attrs.axis
        if not isinstance(operand, relax.Tuple) or axis is None or int(axis) % _AXES != 1:
            return None
        return list(operand.fields)


def _split_operand(call: relax.Call, parts: list[relax.Expr]) -> list[list[relax.Expr]] | None:
    """Return the operands to combine with each part of the concatenation; None if impossible."""
    if any(is_op(call, name) for name in _UNARY):
        return [list(call.args[1:]) for _ in parts]
    if not any(is_op(call, name) for name in _BINARY):
        return None
    value = constant_array(call.args[1])
    channels = [count for part in parts if (count := _channels(part)) is not None]
    if value is None or len(channels) != len(parts):
        return None
    if value.size == 1 and value.ndim <= _AXES:  # with more axes it would add axes to the result
        return [[call.args[1]] for _ in parts]
    if value.shape not in ((1, sum(channels), 1, 1), (sum(channels), 1, 1)):
        return None
    pieces = np.split(value.reshape(1, -1, 1, 1), np.cumsum(channels)[:-1], axis=1)
    return [[relax.const(np.ascontiguousarray(p), str(value.dtype))] for p in pieces]


def _channels(expr: relax.Expr) -> int | None:
    shape = expr.ty.shape
    if not isinstance(shape, relax.ShapeExpr) or not isinstance(shape.values[1], tvm.tirx.IntImm):
        return None
    return int(shape.values[1])
