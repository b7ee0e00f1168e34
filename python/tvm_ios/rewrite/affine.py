# SPDX-License-Identifier: Apache-2.0
"""Folding of scales and shifts after a convolution into it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.constants import constant_array, held_array
from ..relax_ir.expressions import is_op
from ..relax_ir.functions import bindings_of, use_counts
from ..support.modules import module_path
from .scaling import is_wide, per_channel, scale


def fold_affine(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Move constant per-channel scales and shifts after a convolution into it.

    A chain of ``* c``, ``/ c``, ``+ c``, ``- c`` after a ``conv2d`` of constant weights becomes a
    convolution with scaled weights, followed by one addition.
    """
    return _AffineFolder(mod, bindings_of(func), use_counts(func)).visit_expr(func)


@dataclass(frozen=True)
class _Affine:
    """A term ``conv * scale + shift``, per output channel.

    ``name`` is that of the convolution, or the first one after it that is a module's.
    """

    conv: relax.Call
    scale: np.ndarray
    shift: np.ndarray
    name: str = ""


@mutator
class _AffineFolder(PyExprMutator):
    def __init__(
        self,
        mod: tvm.IRModule,
        bound: dict[relax.Var, relax.Expr],
        uses: dict[relax.Var, int],
    ) -> None:
        super().__init__(mod)
        self._bound, self._uses = bound, uses

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        affine = self._affine(call)
        if affine is None or np.all(affine.scale == 1.0):
            return super().visit_call_(call)
        conv = affine.conv
        scaled = scale(held_array(conv.args[1]), affine.scale[:, None, None, None])
        shift = per_channel(affine.shift, 4, str(conv.ty.dtype))
        if scaled is None or shift is None:
            return super().visit_call_(call)
        arguments = [self.visit_expr(conv.args[0]), relax.const(scaled, str(scaled.dtype))]
        scaled_conv = relax.Call(conv.op, arguments, conv.attrs, conv.ty_args)
        return relax.op.add(self.builder_.emit(scaled_conv, affine.name), shift)

    def _affine(self, expr: relax.Expr, name: str = "") -> _Affine | None:
        """Return ``expr``, bound to ``name``, as a function of a convolution of no other reader."""
        if is_op(expr, "nn.conv2d"):
            weights = constant_array(expr.args[1])
            layouts = (expr.attrs.data_layout, expr.attrs.kernel_layout)
            if weights is None or layouts != ("NCHW", "OIHW"):
                return None
            if str(weights.dtype) != str(expr.ty.dtype) or not is_wide(str(weights.dtype)):
                return None
            channels = weights.shape[0]
            return _Affine(expr, np.ones(channels), np.zeros(channels), name)
        for operation in ("multiply", "divide", "add", "subtract"):
            if is_op(expr, operation):
                inner = self._step(operation, *expr.args)
                if inner is None or module_path(inner.name):
                    return inner
                return replace(inner, name=name)
        return None

    def _step(self, name: str, left: relax.Expr, right: relax.Expr) -> _Affine | None:
        if name in ("multiply", "add") and constant_array(left) is not None:
            left, right = right, left
        value = constant_array(right)
        if value is None or value.ndim > 4 or self._uses.get(left) != 1:
            return None
        inner = self._affine(self._bound.get(left), getattr(left, "name", ""))
        if inner is None:
            return None
        channels = len(inner.scale)
        if value.size != 1 and value.shape not in ((1, channels, 1, 1), (channels, 1, 1)):
            return None
        factor = np.broadcast_to(value.astype("float64").reshape(-1), (channels,))
        if name in ("multiply", "divide"):
            with np.errstate(divide="ignore", invalid="ignore"):  # infinite factors are not folded
                factor = factor if name == "multiply" else 1.0 / factor
                return replace(inner, scale=inner.scale * factor, shift=inner.shift * factor)
        return replace(inner, shift=inner.shift + (factor if name == "add" else -factor))
