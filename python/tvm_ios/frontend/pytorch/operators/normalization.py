# SPDX-License-Identifier: Apache-2.0
"""Normalisation over a batch, a layer or groups."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tvm import relax

from ...emitter import dtype_of, shape_of
from ...onnx.operators import normalization as onnx_normalization
from ...onnx.operators.table import Value
from ...onnx.tensors import code_of_dtype
from ..node_emitter import AtenEmitter, name_of_dtype
from .table import operator


def _factors(
    emit: AtenEmitter, data: relax.Expr, shape: Sequence[int], *given: relax.Expr | None
) -> list[relax.Expr]:
    """Return factors and offsets; those that are left out change nothing."""
    return [
        emit.full(shape, neutral, dtype_of(data)) if each is None else emit.operand(each)
        for neutral, each in zip((1, 0), given, strict=True)
    ]


@operator("native_layer_norm.default")
def layer_norm(
    emit: AtenEmitter,
    data: relax.Expr,
    shape: Sequence[int],
    weight: relax.Expr | None,
    bias: relax.Expr | None,
    epsilon: float,
) -> Value:
    factors = _factors(emit, data, shape, weight, bias)
    statistics = code_of_dtype(name_of_dtype(emit.result(1).dtype, emit.where))
    return onnx_normalization.layer_normalization(
        emit, data, *factors, axis=-len(shape), epsilon=epsilon, stash_type=statistics
    )


@operator("native_group_norm.default")
def group_norm(
    emit: AtenEmitter,
    data: relax.Expr,
    weight: relax.Expr | None,
    bias: relax.Expr | None,
    _batch: int,
    channels: int,
    _size: int,
    groups: int,
    epsilon: float,
) -> Value:
    factors = _factors(emit, data, [channels], weight, bias)
    shape = shape_of(data)
    if len(shape) == 2:
        data = emit.reshape(data, [*shape, 1])
    result = onnx_normalization.group_normalization(
        emit, data, *factors, num_groups=groups, epsilon=epsilon
    )
    statistics = [None, None]
    if emit.wants(1) or emit.wants(2):
        statistics = _statistics(emit, data, [shape[0], groups], epsilon)
    return (emit.reshape(result, shape), *statistics)


def _statistics(
    emit: AtenEmitter, data: relax.Expr, shape: list[int], epsilon: float
) -> list[relax.Expr]:
    """Return the mean of each group, and the inverse of its standard deviation."""
    rows = emit.reshape(data, [*shape, math.prod(shape_of(data)) // math.prod(shape)])
    mean = emit(relax.op.mean(rows, [2], True))
    centred = emit(relax.op.subtract(rows, mean))
    variance = emit(relax.op.mean(emit(relax.op.multiply(centred, centred)), [2]))
    moved = emit(relax.op.add(variance, emit.scalar(epsilon, variance)))
    return [emit.reshape(mean, shape), emit(relax.op.rsqrt(moved))]


@operator("_native_batch_norm_legit_no_training.default")
def batch_norm(
    emit: AtenEmitter,
    data: relax.Expr,
    weight: relax.Expr | None,
    bias: relax.Expr | None,
    mean: relax.Expr,
    variance: relax.Expr,
    _momentum: float,
    epsilon: float,
) -> Value:
    factors = _factors(emit, data, [shape_of(data)[1]], weight, bias)
    result = emit.called(
        onnx_normalization.batch_normalization, data, *factors, mean, variance, epsilon=epsilon
    )
    return result, *_of_given_statistics(emit)


def _of_given_statistics(emit: AtenEmitter) -> Iterator[relax.Expr | None]:
    """Yield what PyTorch returns of a mean and a variance that are given, which is empty."""
    for number in (1, 2):
        if not emit.wants(number):
            yield None
            continue
        tensor = emit.result(number)
        if tensor.numel():
            raise emit.error("returns its mean and variance, which is not supported.")
        yield emit.full([0], 0, name_of_dtype(tensor.dtype, emit.where))


@operator("_native_batch_norm_legit.no_stats")
def batch_norm_by_itself(
    emit: AtenEmitter,
    data: relax.Expr,
    weight: relax.Expr | None,
    bias: relax.Expr | None,
    _training: bool,
    _momentum: float,
    epsilon: float,
) -> Value:
    """Normalise by the batch's own mean and variance, as an instance normalisation of one does."""
    _check_statistics(emit)
    channels = shape_of(data)[1]
    factors = _factors(emit, data, [channels], weight, bias)
    if shape_of(data)[0] == 1:
        result = onnx_normalization.instance_normalization(emit, data, *factors, epsilon=epsilon)
        return result, None, None
    unused = [emit.full([channels], 0, dtype_of(data))] * 2
    result = emit.called(
        onnx_normalization.batch_normalization,
        data,
        *factors,
        *unused,
        epsilon=epsilon,
        training_mode=1,
    )
    return result, None, None


def _check_statistics(emit: AtenEmitter) -> None:
    if emit.wants(1) or emit.wants(2):
        raise emit.error("returns its mean and variance, which is not supported.")
