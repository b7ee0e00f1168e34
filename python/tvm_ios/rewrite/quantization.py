# SPDX-License-Identifier: Apache-2.0
"""Quantisation of values that are dequantised again, as exporters of quantised models write it.

Between ``quantize`` and ``dequantize`` a value is an integer. Where all that reads the integer
dequantises it, what remains is a value of float32 on a grid. It is computed by elementwise
operations, which join the operator before: ``s * clip(round(x / s), low - z, high - z)`` with the
scale ``s``, the zero point ``z``, and the range of the integers.
"""

from __future__ import annotations

import math

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.constants import constant_array, number_of
from ..relax_ir.expressions import is_float32, is_op
from ..relax_ir.functions import bindings_of

_INTEGERS = ("int8", "uint8", "int16", "uint16")  # whose numbers float32 has


def dequantize_in_float(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Rewrite ``dequantize(quantize(x))`` of one scale and zero point to elementwise operations."""
    return _Rewriter(mod, bindings_of(func)).visit_expr(func)


@mutator
class _Rewriter(PyExprMutator):
    def __init__(self, mod: tvm.IRModule, bound: dict[relax.Var, relax.Expr]) -> None:
        super().__init__(mod)
        self._bound = bound

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        quantized = self._bound.get(call.args[0]) if is_op(call, "dequantize") else None
        low, high = -math.inf, math.inf
        if is_op(quantized, "clip"):  # to fewer integers than there are
            bounds = [b for a in quantized.args[1:3] if (b := number_of(a)) is not None]
            if len(bounds) != 2:
                return super().visit_call_(call)
            low, high = bounds
            quantized = self._bound.get(quantized.args[0])
        if not is_op(quantized, "quantize") or not is_float32(quantized.args[0]):
            return super().visit_call_(call)
        grid = _grid(quantized)
        if grid is None or grid != _grid(call) or not is_float32(call):
            return super().visit_call_(call)
        scale, zero = grid
        limits = np.iinfo(str(quantized.ty.dtype))
        low, high = max(limits.min, low), min(limits.max, high)
        factor, emit = relax.const(scale, "float32"), self.builder_.emit
        quotient = emit(relax.op.divide(self.visit_expr(quantized.args[0]), factor))
        rounded = emit(relax.op.round(quotient))
        inside = emit(relax.op.clip(rounded, low - zero, high - zero))
        return relax.op.multiply(inside, factor)


def _grid(call: relax.Call) -> tuple[float, int] | None:
    """Return the scale and the zero point of a call if the whole tensor has the same ones."""
    scale, zero = map(constant_array, call.args[1:3])
    integers = call.ty.dtype if is_op(call, "quantize") else call.args[0].ty.dtype
    if scale is None or zero is None or scale.size != 1 or zero.size != 1:
        return None
    if str(integers) not in _INTEGERS:
        return None
    return float(scale.reshape(-1)[0]), int(zero.reshape(-1)[0])
