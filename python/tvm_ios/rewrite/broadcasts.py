# SPDX-License-Identifier: Apache-2.0
"""Broadcasts that move behind what is computed element by element.

Exporters spread the mask of an attention to all queries before they compute a bias of it. The bias
is the same for all queries then, and an addition broadcasts by itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.constants import constant_array
from ..relax_ir.expressions import held_shape, is_op, known_shape, op_name
from ..sizes.size import AnyShape, known_equal
from .permuted import OF_EACH

_NEUTRAL_ONES = ("multiply", "logical_and")


def move_broadcasts(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Compute what is broadcast before it is, and leave out broadcasts that its reader does."""
    return _Mover(mod).visit_expr(func)


class _Broadcast(NamedTuple):
    """A tensor that a smaller one, of as many axes, is broadcast to."""

    source: relax.Expr
    shape: AnyShape


@mutator
class _Mover(PyExprMutator):
    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self._spread: dict[relax.Var, _Broadcast] = {}
        self._wholes: dict[relax.Var, relax.Expr] = {}

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        inside = isinstance(binding.var, relax.DataflowVar)
        found = self._moved(binding.value) if inside else None
        if found is None:
            super().visit_var_binding_(binding)
            return
        source, shape = found
        if not isinstance(source, relax.Var):
            source = self.builder_.emit(source, binding.var.name)
        self._spread[binding.var] = _Broadcast(source, shape)

    def visit_dataflow_var_(self, var: relax.DataflowVar) -> relax.Expr:
        """Broadcast what is read as a whole."""
        if var not in self._spread:
            return super().visit_dataflow_var_(var)
        if var not in self._wholes:
            whole = relax.op.broadcast_to(*self._spread[var])
            self._wholes[var] = self.builder_.emit(whole, var.name)
        return self._wholes[var]

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        """Let an operator broadcast its operands if its result stays the same."""
        shape = known_shape(call)
        if op_name(call) not in OF_EACH or shape is None or not self._reads(call):
            return super().visit_call_(call)
        operands = self._sources(call)
        own = _broadcast_shape([s for s in map(known_shape, operands) if s is not None])
        if own is None or not _are(own, shape):
            return super().visit_call_(call)
        return relax.Call(call.op, operands, call.attrs)

    def _moved(self, value: relax.Expr) -> _Broadcast | None:
        """Return a value as a broadcast of a smaller one; None if it is none."""
        shape = known_shape(value)
        if shape is None or not isinstance(value, relax.Call):
            return None
        if is_op(value, "broadcast_to"):
            return self._of_source(value.args[0], shape)
        if op_name(value) in _NEUTRAL_ONES:
            for ones, data in (value.args, reversed(value.args)):
                if _is_one(ones):
                    return self._of_source(data, shape)
        if not self._reads(value):
            return None
        if is_op(value, "expand_dims"):
            source = self._spread[value.args[0]].source
            return _Broadcast(relax.op.expand_dims(source, value.attrs.axis), shape)
        return self._computed(value, shape) if op_name(value) in OF_EACH else None

    def _of_source(self, data: relax.Expr, shape: AnyShape) -> _Broadcast | None:
        own = known_shape(data)
        if own is None or _are(own, shape) or constant_array(data) is not None:
            return None
        source = self._spread[data].source if data in self._spread else self.visit_expr(data)
        own = held_shape(source)
        missing = len(shape) - len(own)
        if missing:
            source = self.builder_.emit(relax.op.reshape(source, (1,) * missing + own))
        return _Broadcast(source, shape)

    def _computed(self, call: relax.Call, shape: AnyShape) -> _Broadcast | None:
        """Return what is computed of the sources, if that is smaller."""
        operands = self._sources(call)
        own = _broadcast_shape([s for s in map(known_shape, operands) if s is not None])
        if own is None or len(own) != len(shape) or _are(own, shape):
            return None
        return _Broadcast(relax.Call(call.op, operands, call.attrs), shape)

    def _reads(self, call: relax.Call) -> bool:
        return any(isinstance(x, relax.Var) and x in self._spread for x in call.args)

    def _sources(self, call: relax.Call) -> list[relax.Expr]:
        return [
            self._spread[x].source
            if isinstance(x, relax.Var) and x in self._spread
            else self.visit_expr(x)
            for x in call.args
        ]


def _is_one(expr: relax.Expr) -> bool:
    """Return whether a tensor consists of ones, by which TensorFlow and PyTorch broadcast."""
    value = constant_array(expr)
    return value is not None and bool(np.all(value == 1))


def _are(shape: AnyShape, wanted: AnyShape) -> bool:
    return len(shape) == len(wanted) and all(map(known_equal, shape, wanted))


def _broadcast_shape(shapes: list[AnyShape]) -> AnyShape | None:
    """Return the shape that tensors of these shapes are broadcast to; None if it is not certain."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        others = [n for n in sizes if not known_equal(n, 1)]
        if not all(known_equal(n, others[0]) for n in others):
            return None
        result.append(others[0] if others else 1)
    return tuple(result)
