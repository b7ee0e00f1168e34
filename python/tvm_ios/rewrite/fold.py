# SPDX-License-Identifier: Apache-2.0
"""Folding of batch normalisation into the preceding convolution."""

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
from .scaling import is_wide, scale


def simplify_batch_norm(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Replace inference-time ``batch_norm`` of constant statistics by ``x * scale + shift``."""
    return _BatchNormSimplifier(mod, bindings_of(func)).visit_expr(func)


def fold_affine(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Move constant per-channel scales and shifts after a convolution into it.

    A chain of ``* c``, ``/ c``, ``+ c``, ``- c`` after a ``conv2d`` of constant weights becomes a
    convolution with scaled weights, followed by one addition.
    """
    return _AffineFolder(mod, bindings_of(func), use_counts(func)).visit_expr(func)


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
        factors, offsets = (_per_channel(values, rank, dtype) for values in (factor, offset))
        if factors is None or offsets is None:
            return super().visit_tuple_getitem_(op)
        data = self.visit_expr(norm.args[0])
        return relax.op.add(self.builder_.emit(relax.op.multiply(data, factors)), offsets)


def _per_channel(values: np.ndarray, rank: int, dtype: str) -> relax.Expr | None:
    """Return a constant that broadcasts along axis 1 of a tensor of ``rank`` axes.

    None if the data type cannot represent the values.
    """
    held = scale(np.ones(len(values), dtype), values)
    return None if held is None else relax.const(held.reshape(1, -1, *([1] * (rank - 2))), dtype)


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
        shift = _per_channel(affine.shift, 4, str(conv.ty.dtype))
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
