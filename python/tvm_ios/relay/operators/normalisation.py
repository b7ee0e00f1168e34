# SPDX-License-Identifier: Apache-2.0
"""Normalisation over a batch, a layer, an instance, groups or neighbouring channels."""

from __future__ import annotations

import math

from tvm import relax

from ...frontend.emitter import Emitter, dtype_of, shape_of
from .table import integers, operator


def _factors(
    emit: Emitter, gamma: relax.Expr, beta: relax.Expr, scale: bool, center: bool
) -> tuple[relax.Expr, relax.Expr]:
    """Return the final factor and offset; ones and zeros if they are disabled."""
    if not scale:
        gamma = emit.full(shape_of(gamma), 1, dtype_of(gamma))
    if not center:
        beta = emit.full(shape_of(beta), 0, dtype_of(beta))
    return gamma, beta


@operator("nn.batch_norm")
def batch_norm(
    emit: Emitter,
    data: relax.Expr,
    gamma: relax.Expr,
    beta: relax.Expr,
    moving_mean: relax.Expr,
    moving_var: relax.Expr,
    *,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> tuple[relax.Expr, ...]:
    """Return the result with the given mean and variance, which do not change at inference."""
    gamma, beta = _factors(emit, gamma, beta, scale, center)
    axis = emit.axis(axis, len(shape_of(data)))
    statistics = (gamma, beta, moving_mean, moving_var)
    norm = emit(
        relax.op.nn.batch_norm(data, *statistics, axis=axis, epsilon=epsilon, training=False)
    )
    return emit(relax.TupleGetItem(norm, 0)), moving_mean, moving_var


@operator("nn.layer_norm")
def layer_norm(
    emit: Emitter,
    data: relax.Expr,
    gamma: relax.Expr,
    beta: relax.Expr,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> relax.Expr:
    gamma, beta = _factors(emit, gamma, beta, scale, center)
    axis = emit.axis(axis, len(shape_of(data)))
    last = axis == len(shape_of(data)) - 1
    axes = [-1] if last else [axis]
    return emit(relax.op.nn.layer_norm(data, gamma, beta, axes=axes, epsilon=epsilon))


@operator("nn.instance_norm")
def instance_norm(
    emit: Emitter,
    data: relax.Expr,
    gamma: relax.Expr,
    beta: relax.Expr,
    *,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> relax.Expr:
    gamma, beta = _factors(emit, gamma, beta, scale, center)
    ndim = len(shape_of(data))
    axis = emit.axis(axis, ndim)
    axes = [i for i in range(1, ndim) if i != axis]
    return emit(relax.op.nn.instance_norm(data, gamma, beta, axis, axes, epsilon))


@operator("nn.group_norm")
def group_norm(
    emit: Emitter,
    data: relax.Expr,
    gamma: relax.Expr,
    beta: relax.Expr,
    *,
    num_groups: int = 0,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> relax.Expr:
    gamma, beta = _factors(emit, gamma, beta, scale, center)
    ndim = len(shape_of(data))
    axis = emit.axis(axis, ndim)
    axes = list(range(axis + 1, ndim))
    return emit(relax.op.nn.group_norm(data, gamma, beta, num_groups, axis, axes, epsilon))


@operator("nn.l2_normalize")
def l2_normalize(
    emit: Emitter, data: relax.Expr, *, eps: float, axis: int | tuple[int, ...] | None
) -> relax.Expr:
    axes = list(axis) if isinstance(axis, tuple) else [axis]
    squares = emit(relax.op.sum(relax.op.multiply(data, data), axes, keepdims=True))
    norm = relax.op.sqrt(relax.op.maximum(squares, emit.scalar(eps, data)))
    return emit(relax.op.divide(data, norm))


@operator("nn.lrn")
def lrn(
    emit: Emitter,
    data: relax.Expr,
    *,
    size: int = 5,
    axis: int = 1,
    bias: float = 2.0,
    alpha: float = 1e-4,
    beta: float = 0.75,
) -> relax.Expr:
    """Divide by a power of the mean square of ``size`` neighbours, an average pooling."""
    shape = shape_of(data)
    axis = emit.axis(axis, len(shape))
    rows = (math.prod(shape[:axis]), 1, shape[axis], math.prod(shape[axis + 1 :]))
    squares = emit.reshape(emit(relax.op.multiply(data, data)), rows)
    (size,) = integers(emit, size, 1, "size")
    padding = (size // 2, 0, size - 1 - size // 2, 0)
    mean = relax.op.nn.avg_pool2d(squares, (size, 1), padding=padding, count_include_pad=True)
    mean = emit.reshape(emit(mean), shape)
    base = relax.op.add(relax.op.multiply(mean, emit.scalar(alpha, data)), emit.scalar(bias, data))
    return emit(relax.op.divide(data, relax.op.power(base, emit.scalar(beta, data))))
