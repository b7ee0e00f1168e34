# SPDX-License-Identifier: Apache-2.0
"""Activations: elementwise functions of one tensor, and softmax."""

from __future__ import annotations

from tvm import relax

from ...emitter import shape_of
from ...onnx.operators import activation as onnx_activation
from ..node_emitter import AtenEmitter
from .table import operator


@operator("relu.default")
def relu(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
    return emit(relax.op.nn.relu(data))


@operator("silu.default")
def silu(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
    return emit(relax.op.nn.silu(data))


@operator("leaky_relu.default")
def leaky_relu(emit: AtenEmitter, data: relax.Expr, slope: float) -> relax.Expr:
    return emit(relax.op.nn.leakyrelu(data, float(slope)))


@operator("hardtanh.default")
def hardtanh(emit: AtenEmitter, data: relax.Expr, low: float, high: float) -> relax.Expr:
    if emit.dtype.startswith(("float", "bfloat")):
        return emit(relax.op.clip(data, float(low), float(high)))
    limited = emit(relax.op.maximum(data, emit.operand(low)))
    return emit(relax.op.minimum(limited, emit.operand(high)))


@operator("elu.default")
def elu(
    emit: AtenEmitter, data: relax.Expr, alpha: float, scale: float, input_scale: float
) -> relax.Expr:
    """Return ``scale x`` where x is positive, else ``scale alpha (exp(input_scale x) - 1)``."""
    zero = emit.scalar(0, data)
    below = emit(relax.op.minimum(data, zero))
    if input_scale != 1:
        below = emit(relax.op.multiply(below, emit.scalar(input_scale, data)))
    falling = emit(relax.op.subtract(relax.op.exp(below), emit.scalar(1, data)))
    negative = emit(relax.op.multiply(falling, emit.scalar(alpha * scale, data)))
    positive = emit(relax.op.nn.relu(data))
    if scale != 1:
        positive = emit(relax.op.multiply(positive, emit.scalar(scale, data)))
    return emit(relax.op.add(positive, negative))


@operator("gelu.default")
def gelu(emit: AtenEmitter, data: relax.Expr, *, approximate: str = "none") -> relax.Expr:
    return onnx_activation.gelu(emit, data, approximate=approximate)


@operator("_softmax.default")
def softmax(emit: AtenEmitter, data: relax.Expr, axis: int, _: bool) -> relax.Expr:
    return _along(emit, relax.op.nn.softmax, data, axis)


@operator("_log_softmax.default")
def log_softmax(emit: AtenEmitter, data: relax.Expr, axis: int, _: bool) -> relax.Expr:
    return _along(emit, relax.op.nn.log_softmax, data, axis)


def _along(emit: AtenEmitter, build: object, data: relax.Expr, axis: int) -> relax.Expr:
    """Apply a function of rows; a tensor without axes is a row of one element."""
    x, shape = emit.operand(data), shape_of(data)
    if not shape:
        return emit.reshape(emit(build(emit.reshape(x, [1]), 0)), [])  # type: ignore[operator]
    return emit(build(x, emit.axis(axis, len(shape))))  # type: ignore[operator]
