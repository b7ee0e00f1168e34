# SPDX-License-Identifier: Apache-2.0
"""Normalisation over a batch, a layer, an instance, groups or neighbouring channels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm import relax

from ....sizes.arithmetic import require_equal
from ...emitter import dtype_of, shape_of
from ..node_emitter import NodeEmitter
from ..tensors import name_of_type
from .table import Value, operator


@operator("BatchNormalization")
def batch_normalization(
    emit: NodeEmitter,
    data: relax.Expr,
    scale: relax.Expr,
    bias: relax.Expr,
    mean: relax.Expr,
    variance: relax.Expr,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
    training_mode: int = 0,
) -> Value:
    """Normalise by a given mean and variance, or by the batch's own in training mode.

    PyTorch standardises the weights of normaliser-free networks by the latter.
    """
    if not spatial:
        raise emit.error("has a mean for each element, which is not supported.")
    if training_mode:
        return _in_training(emit, data, scale, bias, [mean, variance], epsilon, momentum)
    factors = [emit.cast(factor, dtype_of(data)) for factor in (scale, bias, mean, variance)]
    channels = shape_of(data)[1]
    if not all(require_equal(size, channels) for factor in factors for size in shape_of(factor)):
        raise emit.error(f"has factors of other numbers of elements than {channels} channels.")
    norm = emit(relax.op.nn.batch_norm(data, *factors, axis=1, epsilon=epsilon, training=False))
    return (emit(relax.TupleGetItem(norm, 0)),)


def _in_training(
    emit: NodeEmitter,
    data: relax.Expr,
    scale: relax.Expr,
    bias: relax.Expr,
    running: Sequence[relax.Expr],
    epsilon: float,
    momentum: float,
) -> Value:
    channels = shape_of(data)[1]
    others = [axis for axis in range(len(shape_of(data))) if axis != 1]
    centred, variance, mean = _centred(emit, data, others)
    standard = _standardised(emit, centred, variance, epsilon)
    factors = [emit.cast(factor, dtype_of(data)) for factor in (scale, bias)]
    result = _of_channels(emit, standard, *factors)
    updated = []
    for place, (old, new) in enumerate(zip(running, (mean, variance), strict=True), 1):
        if not emit.wants(place):
            continue
        kept = emit(relax.op.multiply(old, emit.scalar(momentum, old)))
        flat = emit.cast(emit.reshape(new, [channels]), dtype_of(old))
        added = emit(relax.op.multiply(flat, emit.scalar(1 - momentum, flat)))
        updated.append(emit(relax.op.add(kept, added)))
    return (result, *updated)


def _centred(
    emit: NodeEmitter, data: relax.Expr, axes: list[int]
) -> tuple[relax.Expr, relax.Expr, relax.Expr]:
    """Return the distances from the mean, the variance and the mean."""
    mean = emit(relax.op.mean(data, axes, True))
    centred = emit(relax.op.subtract(data, mean))
    squares = emit(relax.op.multiply(centred, centred))
    return centred, emit(relax.op.mean(squares, axes, True)), mean


def _standardised(
    emit: NodeEmitter, centred: relax.Expr, variance: relax.Expr, epsilon: float
) -> relax.Expr:
    moved = relax.op.add(variance, emit.scalar(epsilon, variance))
    return emit(relax.op.divide(centred, emit(relax.op.sqrt(moved))))


def _of_channels(
    emit: NodeEmitter, data: relax.Expr, scale: relax.Expr, bias: relax.Expr
) -> relax.Expr:
    """Return the data times a factor of each channel, and an offset of it added."""
    ndim = len(shape_of(data))
    scaled = emit(relax.op.multiply(data, emit.along(scale, 1, ndim)))
    return emit(relax.op.add(scaled, emit.along(bias, 1, ndim)))


def _by_parts(
    emit: NodeEmitter,
    data: relax.Expr,
    scale: relax.Expr,
    bias: relax.Expr,
    axes: list[int],
    epsilon: float,
) -> relax.Expr:
    """Return an instance normalisation in terms of means."""
    centred, variance, _ = _centred(emit, data, axes)
    return _of_channels(emit, _standardised(emit, centred, variance, epsilon), scale, bias)


@operator("InstanceNormalization")
def instance_normalization(
    emit: NodeEmitter,
    data: relax.Expr,
    scale: relax.Expr,
    bias: relax.Expr,
    *,
    epsilon: float = 1e-5,
) -> relax.Expr:
    axes = list(range(2, len(shape_of(data))))
    if dtype_of(data) == "float64":  # which Relax's operators do not compute
        return _by_parts(emit, data, scale, bias, axes, epsilon)
    return emit(relax.op.nn.instance_norm(data, scale, bias, 1, axes, epsilon))


@operator("GroupNormalization", since=21)
def group_normalization(
    emit: NodeEmitter,
    data: relax.Expr,
    scale: relax.Expr,
    bias: relax.Expr,
    *,
    epsilon: float = 1e-5,
    num_groups: int,
    stash_type: int = 1,
) -> relax.Expr:
    shape = shape_of(data)
    axes = list(range(2, len(shape)))
    if dtype_of(data) in ("float64", "bfloat16"):  # which Relax's operator does not take
        each = math.prod(shape[1:]) // num_groups
        grouped = emit.reshape(data, [shape[0], num_groups, each])
        centred, variance, _ = _centred(emit, grouped, [2])
        standard = emit.reshape(_standardised(emit, centred, variance, epsilon), shape)
        return _of_channels(emit, standard, scale, bias)
    return emit(relax.op.nn.group_norm(data, scale, bias, num_groups, 1, axes, epsilon))


@operator("GroupNormalization")
def group_normalization_by_group(
    emit: NodeEmitter,
    data: relax.Expr,
    scale: relax.Expr,
    bias: relax.Expr,
    *,
    epsilon: float = 1e-5,
    num_groups: int,
) -> relax.Expr:
    """Normalise with a factor and an offset for each group, not for each channel."""
    each = shape_of(data)[1] // num_groups
    scale, bias = (_repeated(emit, factor, each) for factor in (scale, bias))
    return group_normalization(emit, data, scale, bias, epsilon=epsilon, num_groups=num_groups)


def _repeated(emit: NodeEmitter, vector: relax.Expr, count: int) -> relax.Expr:
    size = shape_of(vector)[0]
    return emit.reshape(
        emit.broadcast(emit.reshape(vector, [size, 1]), [size, count]), [size * count]
    )


@operator("LayerNormalization")
def layer_normalization(
    emit: NodeEmitter,
    data: relax.Expr,
    scale: relax.Expr,
    bias: relax.Expr | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Value:
    shape = shape_of(data)
    axes = list(range(emit.axis(axis, len(shape)), len(shape)))
    if emit.wants(1) or emit.wants(2) or dtype_of(data) == "float64":
        stash = name_of_type(emit, stash_type)
        return _with_statistics(emit, data, scale, bias, axes, epsilon, stash)
    normalised = shape[axes[0] :]
    scale = emit.broadcast(scale, normalised)
    if bias is None:
        bias = emit.full(normalised, 0, dtype_of(data))
    bias = emit.broadcast(bias, normalised)
    places = [place - len(shape) for place in axes]
    return (emit(relax.op.nn.layer_norm(data, scale, bias, places, epsilon)),)


def _with_statistics(
    emit: NodeEmitter,
    data: relax.Expr,
    scale: relax.Expr,
    bias: relax.Expr | None,
    axes: list[int],
    epsilon: float,
    stash: str,
) -> Value:
    """Return a layer normalisation, its mean, and the inverse of its standard deviation.

    The latter two are in the type ``stash``, in which 16 bits are computed.
    """
    dtype = dtype_of(data)
    wide = data if dtype in ("float32", "float64") else emit.cast(data, stash)
    centred, variance, mean = _centred(emit, wide, axes)
    moved = relax.op.add(variance, emit.scalar(epsilon, variance))
    inverse = emit(relax.op.divide(emit.scalar(1, variance), emit(relax.op.sqrt(moved))))
    standard = emit.cast(emit(relax.op.multiply(centred, inverse)), dtype)
    result = emit(relax.op.multiply(standard, scale))
    if bias is not None:
        result = emit(relax.op.add(result, bias))
    return result, emit.cast(mean, stash), emit.cast(inverse, stash)


@operator("RMSNormalization")
def rms_normalization(
    emit: NodeEmitter,
    data: relax.Expr,
    scale: relax.Expr,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> relax.Expr:
    shape = shape_of(data)
    axes = list(range(emit.axis(axis, len(shape)), len(shape)))
    squares = emit(relax.op.mean(emit(relax.op.multiply(data, data)), axes, True))
    return emit(relax.op.multiply(_standardised(emit, data, squares, epsilon), scale))


@operator("LpNormalization")
def lp_normalization(
    emit: NodeEmitter, data: relax.Expr, *, axis: int = -1, p: int = 2
) -> relax.Expr:
    """Divide by a norm; where that is 0, so are all elements."""
    axes = [emit.axis(axis, len(shape_of(data)))]
    if p == 1:
        norm = emit(relax.op.sum(emit(relax.op.abs(data)), axes, True))
    elif p == 2:
        squares = emit(relax.op.sum(emit(relax.op.multiply(data, data)), axes, True))
        norm = emit(relax.op.sqrt(squares))
    else:
        raise emit.error(f"has p={p}, which is neither 1 nor 2.")
    zero = emit(relax.op.equal(norm, emit.scalar(0, norm)))
    divisor = emit(relax.op.where(zero, emit.scalar(1, norm), norm))
    return emit(relax.op.divide(data, divisor))


@operator("MeanVarianceNormalization")
def mean_variance_normalization(
    emit: NodeEmitter, data: relax.Expr, *, axes: Sequence[int] = (0, 2, 3)
) -> relax.Expr:
    """Divide the distance from the mean by the standard deviation, which 1e-9 keeps from 0."""
    chosen = emit.axes(axes, len(shape_of(data)))
    centred, variance, _ = _centred(emit, data, chosen)
    deviation = emit(relax.op.sqrt(variance))
    divisor = emit(relax.op.add(deviation, emit.scalar(1e-9, deviation)))
    return emit(relax.op.divide(centred, divisor))


@operator("LRN")
def lrn(
    emit: NodeEmitter,
    data: relax.Expr,
    *,
    alpha: float = 1e-4,
    beta: float = 0.75,
    bias: float = 1.0,
    size: int,
) -> relax.Expr:
    """Divide by a power of the mean square of neighbouring channels, an average pooling."""
    shape = shape_of(data)
    rows = (shape[0], 1, shape[1], math.prod(shape[2:]))
    squares = emit.reshape(emit(relax.op.multiply(data, data)), rows)
    before = (size - 1) // 2
    padding = (before, 0, size - 1 - before, 0)
    mean = relax.op.nn.avg_pool2d(squares, (size, 1), padding=padding, count_include_pad=True)
    mean = emit.reshape(emit(mean), shape)
    base = relax.op.add(relax.op.multiply(mean, emit.scalar(alpha, data)), emit.scalar(bias, data))
    return emit(relax.op.divide(data, relax.op.power(emit(base), emit.scalar(beta, data))))
