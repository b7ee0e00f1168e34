# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation as a scale and a shift."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.constants import constant_array
from ..relax_ir.expressions import is_op
from ..relax_ir.functions import bindings_of
from .scaling import per_channel


def simplify_batch_norm(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Replace inference-time ``batch_norm`` of constant statistics by ``x * scale + shift``."""
    return _BatchNormSimplifier(mod, bindings_of(func)).visit_expr(func)


@mutator
class _BatchNormSimplifier(PyExprMutator):
    def __init__(self, mod: tvm.IRModule, bound: dict[relax.Var, relax.Expr]) -> None:
        super().__init__(mod)
        self._bound = bound

    def visit_tuple_getitem_(self, op: relax.TupleGetItem) -> relax.Expr:
        norm = self._bound.get(op.tuple_value)
        if op.index != 0 or not is_op(norm, "nn.batch_norm"):
            return super().visit_tuple_getitem_(op)
        if norm.attrs.training or int(norm.attrs.axis) != 1:
            return super().visit_tuple_getitem_(op)
        statistics = [constant_array(argument) for argument in norm.args[1:5]]
        known = [value.astype("float64") for value in statistics if value is not None]
        if len(known) != len(statistics):
            return super().visit_tuple_getitem_(op)
        gamma, beta, mean, variance = known
        with np.errstate(all="ignore"):
            factor = 1.0 / np.sqrt(variance + float(norm.attrs.epsilon))
            if norm.attrs.scale:
                factor = factor * gamma
            offset = -mean * factor + (beta if norm.attrs.center else 0.0)
        dtype, rank = str(norm.args[0].ty.dtype), int(norm.args[0].ty.ndim)
        factors, offsets = (per_channel(values, rank, dtype) for values in (factor, offset))
        if factors is None or offsets is None:
            return super().visit_tuple_getitem_(op)
        data = self.visit_expr(norm.args[0])
        return relax.op.add(self.builder_.emit(relax.op.multiply(data, factors)), offsets)
