# SPDX-License-Identifier: Apache-2.0
"""Activations: elementwise functions of one tensor, and softmax."""

from __future__ import annotations

import math

from tvm import relax

from ...emitter import dtype_of, shape_of
from ..node_emitter import NodeEmitter
from ..numbers import is_float
from .table import operator

_MOST = {"float16": 5.0}
"""The number above which ``exp(2 x) / (exp(2 x) + 2)`` is 1, of types that end before 1e17."""


@operator("Relu")
def relu(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
    return emit(relax.op.nn.relu(data))


@operator("Sigmoid")
def sigmoid(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
    return emit(relax.op.sigmoid(data))


@operator("Tanh")
def tanh(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
    return emit(relax.op.tanh(data))


@operator("LeakyRelu")
def leaky_relu(emit: NodeEmitter, data: relax.Expr, *, alpha: float = 0.01) -> relax.Expr:
    return emit(relax.op.nn.leakyrelu(data, alpha))


@operator("PRelu")
def prelu(emit: NodeEmitter, data: relax.Expr, slope: relax.Expr) -> relax.Expr:
    """Multiply negative elements by a slope that is broadcast to the data."""
    negative = emit(relax.op.less(data, emit.scalar(0, data)))
    return emit(relax.op.where(negative, emit(relax.op.multiply(data, slope)), data))


def _exponential(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
    """Return ``exp(x) - 1`` where ``x`` is negative, and 0 elsewhere."""
    zero = emit.scalar(0, data)
    limited = emit(relax.op.minimum(data, zero))
    return emit(relax.op.subtract(relax.op.exp(limited), emit.scalar(1, data)))


@operator("Elu")
def elu(emit: NodeEmitter, data: relax.Expr, *, alpha: float = 1.0) -> relax.Expr:
    negative = relax.op.multiply(_exponential(emit, data), emit.scalar(alpha, data))
    return emit(relax.op.add(relax.op.nn.relu(data), emit(negative)))


@operator("Selu")
def selu(
    emit: NodeEmitter,
    data: relax.Expr,
    *,
    alpha: float = 1.67326319217681884765625,
    gamma: float = 1.05070102214813232421875,
) -> relax.Expr:
    return emit(relax.op.multiply(elu(emit, data, alpha=alpha), emit.scalar(gamma, data)))


@operator("Celu")
def celu(emit: NodeEmitter, data: relax.Expr, *, alpha: float = 1.0) -> relax.Expr:
    scaled = emit(relax.op.divide(data, emit.scalar(alpha, data)))
    negative = relax.op.multiply(_exponential(emit, scaled), emit.scalar(alpha, data))
    return emit(relax.op.add(relax.op.nn.relu(data), emit(negative)))


@operator("Gelu")
def gelu(emit: NodeEmitter, data: relax.Expr, *, approximate: str = "none") -> relax.Expr:
    if approximate not in ("none", "tanh"):
        raise emit.error(f"has the approximation {approximate!r}, which is not known.")
    build = relax.op.nn.gelu_tanh if approximate == "tanh" else relax.op.nn.gelu
    return emit(build(data))


@operator("HardSigmoid")
def hard_sigmoid(
    emit: NodeEmitter, data: relax.Expr, *, alpha: float = 0.2, beta: float = 0.5
) -> relax.Expr:
    line = relax.op.multiply(data, emit.scalar(alpha, data))
    line = emit(relax.op.add(line, emit.scalar(beta, data)))
    return emit(relax.op.clip(line, 0.0, 1.0))


@operator("HardSwish")
def hard_swish(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
    return emit(relax.op.multiply(data, hard_sigmoid(emit, data, alpha=1 / 6, beta=0.5)))


@operator("Softplus")
def softplus(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
    """Return ``log(exp(x) + 1)``, as ``max(x, 0) + log(1 + exp(-|x|))``, which cannot overflow."""
    one = emit.scalar(1, data)
    falling = emit(relax.op.exp(relax.op.negative(relax.op.abs(data))))
    rest = emit(relax.op.log(relax.op.add(falling, one)))
    return emit(relax.op.add(relax.op.nn.relu(data), rest))


@operator("Mish")
def mish(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
    """Return ``x * tanh(softplus(x))``, as ``x * n / (n + 2)`` of ``n = exp(x) * (exp(x) + 2)``.

    Where ``x`` is large, which would overflow, the quotient is 1.
    """
    most, two = (emit.scalar(value, data) for value in (_MOST.get(dtype_of(data), 20.0), 2.0))
    power = emit(relax.op.exp(emit(relax.op.minimum(data, most))))
    n = emit(relax.op.multiply(power, emit(relax.op.add(power, two))))
    share = emit(relax.op.divide(n, emit(relax.op.add(n, two))))
    return emit(relax.op.multiply(data, share))


@operator("Swish")
def swish(emit: NodeEmitter, data: relax.Expr, *, alpha: float = 1.0) -> relax.Expr:
    inner = data
    if alpha != 1.0:
        inner = emit(relax.op.multiply(data, emit.scalar(alpha, data)))
    return emit(relax.op.multiply(data, emit(relax.op.sigmoid(inner))))


@operator("Softsign")
def softsign(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
    divisor = emit(relax.op.add(relax.op.abs(data), emit.scalar(1, data)))
    return emit(relax.op.divide(data, divisor))


@operator("ThresholdedRelu")
def thresholded_relu(emit: NodeEmitter, data: relax.Expr, *, alpha: float = 1.0) -> relax.Expr:
    above = emit(relax.op.greater(data, emit.scalar(alpha, data)))
    return emit(relax.op.where(above, data, emit.scalar(0, data)))


@operator("Shrink")
def shrink(
    emit: NodeEmitter, data: relax.Expr, *, bias: float = 0.0, lambd: float = 0.5
) -> relax.Expr:
    """Move elements towards 0 by the bias; those within the threshold become 0."""
    dtype = dtype_of(data)
    if dtype not in ("float32", "float64"):  # of which the limit and the bias may be no values
        wide = emit.cast(data, "float32" if is_float(dtype) else "float64")
        return emit.cast(shrink(emit, wide, bias=bias, lambd=lambd), dtype)
    limit, moved = relax.const(lambd, dtype), emit.scalar(bias, data)
    below = emit(relax.op.less(data, emit.scalar(-lambd, data)))
    above = emit(relax.op.greater(data, limit))
    lower = emit(relax.op.subtract(data, moved))
    inner = emit(relax.op.where(above, lower, emit.scalar(0, data)))
    return emit(relax.op.where(below, emit(relax.op.add(data, moved)), inner))


@operator("Softmax", since=13)
def softmax(emit: NodeEmitter, data: relax.Expr, *, axis: int = -1) -> relax.Expr:
    return emit(relax.op.nn.softmax(data, emit.axis(axis, len(shape_of(data)))))


@operator("LogSoftmax", since=13)
def log_softmax(emit: NodeEmitter, data: relax.Expr, *, axis: int = -1) -> relax.Expr:
    return emit(relax.op.nn.log_softmax(data, emit.axis(axis, len(shape_of(data)))))


@operator("Hardmax", since=13)
def hardmax(emit: NodeEmitter, data: relax.Expr, *, axis: int = -1) -> relax.Expr:
    """Return 1 for the first largest element along an axis, and 0 for others."""
    ndim = len(shape_of(data))
    axis = emit.axis(axis, ndim)
    place = emit(relax.op.argmax(data, axis, True))
    places = emit.along(emit.positions(shape_of(data)[axis], dtype_of(place)), axis, ndim)
    return emit.cast(emit(relax.op.equal(places, place)), dtype_of(data))


def _of_rows(emit: NodeEmitter, data: relax.Expr, axis: int) -> relax.Expr:
    """Return the data as a matrix, whose rows are all axes from ``axis`` on."""
    shape = shape_of(data)
    axis = axis if axis == len(shape) else emit.axis(axis, len(shape))
    return emit.reshape(data, [math.prod(shape[:axis]), math.prod(shape[axis:])])


@operator("Softmax")
def softmax_of_rows(emit: NodeEmitter, data: relax.Expr, *, axis: int = 1) -> relax.Expr:
    rows = softmax(emit, _of_rows(emit, data, axis))
    return emit.reshape(rows, shape_of(data))


@operator("LogSoftmax")
def log_softmax_of_rows(emit: NodeEmitter, data: relax.Expr, *, axis: int = 1) -> relax.Expr:
    rows = log_softmax(emit, _of_rows(emit, data, axis))
    return emit.reshape(rows, shape_of(data))


@operator("Hardmax")
def hardmax_of_rows(emit: NodeEmitter, data: relax.Expr, *, axis: int = 1) -> relax.Expr:
    return emit.reshape(hardmax(emit, _of_rows(emit, data, axis)), shape_of(data))
