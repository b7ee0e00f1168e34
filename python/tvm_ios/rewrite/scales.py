# SPDX-License-Identifier: Apache-2.0
"""Positive factors before a relu, which move into the weights of the convolutions that read it.

``conv(relu(s * x)) = (s * conv)(relu(x))`` saves a pass over memory. This removes RandWire's
aggregation weights.
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


def sink_scales(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Move positive factors before a relu into the convolutions behind it."""
    return _ScaleSinker(mod, func).visit_expr(func)


@mutator
class _ScaleSinker(PyExprMutator):
    """A mutator that rewrites both ends of ``conv(relu(s * x))`` if it may rewrite all of them."""

    def __init__(self, mod: tvm.IRModule, func: relax.Function) -> None:
        super().__init__(mod)
        self._bound, self._uses = bindings_of(func), use_counts(func)
        self._readers: dict[relax.Var, list[relax.Expr]] = {}
        for value in self._bound.values():
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
        relu = self._bound.get(data) if isinstance(data, relax.Var) else None
        if not is_op(relu, "nn.relu"):
            return None
        product = self._product(relu)
        return product[1] if product is not None and self._sinks(relu, product[1]) else None

    def _product(self, relu: relax.Call) -> tuple[relax.Expr, float] | None:
        """Return ``x`` and ``s`` of ``relu(s * x)``."""
        product = self._bound.get(relu.args[0]) if isinstance(relu.args[0], relax.Var) else None
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
        (variable,) = [v for v, value in self._bound.items() if value.same_as(relu)]
        readers = self._readers.get(variable, [])
        direct = sum(_takes_factor(reader, variable, factor) for reader in readers)
        return bool(readers) and direct == len(readers) == self._uses.get(variable)


def _takes_factor(expr: relax.Expr, variable: relax.Var, factor: float) -> bool:
    """Return whether ``expr`` is a convolution of ``variable`` whose weights accept a factor."""
    if not is_op(expr, "nn.conv2d") or not expr.args[0].same_as(variable):
        return False
    weights = constant_array(expr.args[1])
    if weights is None or str(weights.dtype) != str(variable.ty.dtype):
        return False
    return scale(weights, np.float64(factor)) is not None
