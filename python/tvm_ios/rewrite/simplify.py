# SPDX-License-Identifier: Apache-2.0
"""Rewrites that move elementwise operations to places where they are free.

An operation in a convolution's epilogue is computed in registers; between operators it is a pass
over memory. Two rewrites turn the second kind into the first:

- An operation after a concatenation is applied to each part before it, where it joins the part's
  convolution.
- A positive factor before a relu moves behind it, into the weights of the convolutions that read
  it: ``conv(relu(s * x)) = (s * conv)(relu(x))``. This removes RandWire's aggregation weights.
"""

from __future__ import annotations

import math

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.constants import constant_array, held_array
from ..relax_ir.expressions import is_op
from ..relax_ir.functions import bindings_of, use_counts
from .scaling import scale

_AXES = 4  # of the concatenations that are rewritten
_UNARY = ("nn.relu", "round", "clip")  # further operands are numbers
_BINARY = ("multiply", "divide", "add", "subtract")


def distribute_over_concat(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Rewrite ``f(concat(a, b))`` to ``concat(f(a), f(b))`` for operations of one tensor.

    They are relu, what quantises, and operations with constants per channel.
    """
    return _Distributor(mod, func).visit_expr(func)


def sink_scales(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Move positive factors before a relu into the convolutions behind it."""
    return _ScaleSinker(mod, func).visit_expr(func)


class _Rewriter(PyExprMutator):
    """A mutator that knows the values of variables and how often they are read."""

    def __init__(self, mod: tvm.IRModule, func: relax.Function) -> None:
        super().__init__(mod)
        self.bound, self.uses = bindings_of(func), use_counts(func)


@mutator
class _Distributor(_Rewriter):
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
        concat = self.bound.get(expr) if isinstance(expr, relax.Var) else None
        if not is_op(concat, "concat") or self.uses.get(expr) != 1 or int(expr.ty.ndim) != _AXES:
            return None
        operand = concat.args[0]
        operand = self.bound.get(operand, operand) if isinstance(operand, relax.Var) else operand
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


@mutator
class _ScaleSinker(_Rewriter):
    """A mutator that rewrites both ends of ``conv(relu(s * x))`` if it may rewrite all of them."""

    def __init__(self, mod: tvm.IRModule, func: relax.Function) -> None:
        super().__init__(mod, func)
        self._readers: dict[relax.Var, list[relax.Expr]] = {}
        for value in self.bound.values():
            for variable in set(relax.analysis.free_vars(value)):
                self._readers.setdefault(variable, []).append(value)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        if is_op(call, "nn.conv2d"):
            factor = self._factor(call.args[0])
            if factor is not None:
                scaled = scale(held_array(call.args[1]), np.float64(factor))
                assert scaled is not None, "a factor sinks into weights that can take it"
                arguments = [self.visit_expr(call.args[0]), relax.const(scaled, str(scaled.dtype))]
                return relax.Call(call.op, arguments, call.attrs, call.ty_args)
        if is_op(call, "nn.relu"):
            product = self._product(call)
            if product is not None and self._sinks(call, product[1]):
                return relax.op.nn.relu(self.visit_expr(product[0]))
        return super().visit_call_(call)

    def _factor(self, data: relax.Expr) -> float | None:
        """Return the factor that is removed from the relu ``data``."""
        relu = self.bound.get(data) if isinstance(data, relax.Var) else None
        if not is_op(relu, "nn.relu"):
            return None
        product = self._product(relu)
        return product[1] if product is not None and self._sinks(relu, product[1]) else None

    def _product(self, relu: relax.Call) -> tuple[relax.Expr, float] | None:
        """Return ``x`` and ``s`` of ``relu(s * x)``."""
        product = self.bound.get(relu.args[0]) if isinstance(relu.args[0], relax.Var) else None
        if not is_op(product, "multiply"):
            return None
        left, right = product.args
        if constant_array(left) is not None:
            left, right = right, left
        value = constant_array(right)
        if value is None or value.size != 1 or value.ndim > int(left.ty.ndim):
            return None
        return left, float(value.reshape(-1)[0])

    def _sinks(self, relu: relax.Call, factor: float) -> bool:
        """Return whether all readers of the relu are convolutions of constant weights."""
        if not (factor > 0 and math.isfinite(factor)):
            return False
        (variable,) = [v for v, value in self.bound.items() if value.same_as(relu)]
        readers = self._readers.get(variable, [])
        direct = sum(_takes_factor(reader, variable, factor) for reader in readers)
        return bool(readers) and direct == len(readers) == self.uses.get(variable)


def _takes_factor(expr: relax.Expr, variable: relax.Var, factor: float) -> bool:
    """Return whether ``expr`` is a convolution of ``variable`` whose weights accept a factor."""
    if not is_op(expr, "nn.conv2d") or not expr.args[0].same_as(variable):
        return False
    weights = constant_array(expr.args[1])
    if weights is None or str(weights.dtype) != str(variable.ty.dtype):
        return False
    return scale(weights, np.float64(factor)) is not None
