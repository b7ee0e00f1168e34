# SPDX-License-Identifier: Apache-2.0
"""Normalisations of sums, and over groups of channels."""

from __future__ import annotations

from tvm import relax

from ....emitter import dtype_of, shape_of
from ...node_emitter import NodeEmitter
from .. import normalization
from ..activation import swish
from ..table import Value, operator
from .convolution import to_channels_first, to_channels_last
from .domain import check_shape, contributed, with_bias


@operator("SimplifiedLayerNormalization")
def simplified_layer_normalization(
    emit: NodeEmitter,
    data: relax.Expr,
    scale: relax.Expr,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> relax.Expr:
    """Divide by a root mean square; ONNX Runtime has this operator in ONNX's own domain."""
    _check_no_statistics(emit)
    return normalization.rms_normalization(
        emit, data, scale, axis=axis, epsilon=epsilon, stash_type=stash_type
    )


def _check_no_statistics(emit: NodeEmitter) -> None:
    if emit.wants(1) or emit.wants(2):
        raise emit.error("returns statistics for training; export the model in inference mode.")


@contributed("SkipLayerNormalization")
def skip_layer_normalization(
    emit: NodeEmitter,
    data: relax.Expr,
    skip: relax.Expr,
    gamma: relax.Expr,
    beta: relax.Expr | None = None,
    bias: relax.Expr | None = None,
    *,
    epsilon: float = 1e-12,
) -> Value:
    """Normalise the rows of a sum; the sum is the last result."""
    _check_no_statistics(emit)
    total = _skipped(emit, data, skip, bias)
    return layer_normalised(emit, total, gamma, beta, epsilon), None, None, total


@contributed("SkipSimplifiedLayerNormalization")
def skip_simplified_layer_normalization(
    emit: NodeEmitter,
    data: relax.Expr,
    skip: relax.Expr,
    gamma: relax.Expr,
    bias: relax.Expr | None = None,
    *,
    epsilon: float = 1e-12,
) -> Value:
    """Divide the rows of a sum by their root mean square; the sum is the last result."""
    _check_no_statistics(emit)
    total = _skipped(emit, data, skip, bias)
    check_shape(emit, gamma, shape_of(total)[-1:], "a factor")
    result = normalization.rms_normalization(emit, total, gamma, epsilon=epsilon)
    return result, None, None, total


def _skipped(
    emit: NodeEmitter, data: relax.Expr, skip: relax.Expr, bias: relax.Expr | None
) -> relax.Expr:
    """Add rows that images may share, and a bias."""
    shape, given = shape_of(data), shape_of(skip)
    if given not in (shape, (1, *shape[1:]), shape[1:]) or len(given) < 2:
        raise emit.error(f"adds a tensor of {list(given)} to rows of {list(shape)}.")
    return with_bias(emit, emit(relax.op.add(data, skip)), bias)


def layer_normalised(
    emit: NodeEmitter,
    data: relax.Expr,
    gamma: relax.Expr,
    beta: relax.Expr | None,
    epsilon: float,
) -> relax.Expr:
    """Normalise rows, each column with a factor and an offset of its own."""
    for vector, what in ((gamma, "a factor"), (beta, "an offset")):
        if vector is not None:
            check_shape(emit, vector, shape_of(data)[-1:], what)
    results = normalization.layer_normalization(emit, data, gamma, beta, epsilon=epsilon)
    assert isinstance(results, tuple), "it may have statistics, too"
    return results[0]


@contributed("GroupNorm")
def group_norm(
    emit: NodeEmitter,
    data: relax.Expr,
    gamma: relax.Expr,
    beta: relax.Expr,
    *,
    activation: int,
    channels_last: int = 1,
    epsilon: float = 1e-5,
    groups: int,
) -> relax.Expr:
    """Normalise groups of channels, in the type of the factors, and apply SiLU if it says so."""
    if activation not in (0, 1):
        raise emit.error(f"has activation={activation}, which is neither 0 nor 1 (SiLU).")
    if len(shape_of(data)) != 4:
        raise emit.error(f"has data of {list(shape_of(data))}; it must have 4 axes.")
    image = to_channels_first(emit, data) if channels_last else data
    channels = shape_of(image)[1]
    if groups < 1 or channels % groups:
        raise emit.error(f"divides {channels} channels into {groups} groups.")
    for vector, what in ((gamma, "a factor"), (beta, "an offset")):
        check_shape(emit, vector, [channels], what)
    wide = emit.cast(image, dtype_of(gamma))
    result = normalization.group_normalization(
        emit, wide, gamma, beta, epsilon=epsilon, num_groups=groups
    )
    if activation:
        result = swish(emit, result)
    result = emit.cast(result, dtype_of(data))
    return to_channels_last(emit, result) if channels_last else result


@contributed("SkipGroupNorm")
def skip_group_norm(
    emit: NodeEmitter,
    data: relax.Expr,
    gamma: relax.Expr,
    beta: relax.Expr,
    skip: relax.Expr,
    bias: relax.Expr | None = None,
    *,
    activation: int,
    channels_last: int = 1,
    epsilon: float = 1e-5,
    groups: int,
) -> Value:
    """Normalise groups of channels of a sum, which is the second result."""
    if not channels_last:
        raise emit.error("adds to images with their channels first, which is not supported.")
    shape, given = shape_of(data), shape_of(skip)
    if given == (shape[0], shape[-1]):
        skip = emit.reshape(skip, [shape[0], 1, 1, shape[-1]])
    elif given not in (shape, (shape[0], 1, 1, shape[-1])):
        raise emit.error(f"adds a tensor of {list(given)} to images of {list(shape)}.")
    total = with_bias(emit, emit(relax.op.add(data, skip)), bias)
    result = group_norm(
        emit, total, gamma, beta, activation=activation, epsilon=epsilon, groups=groups
    )
    return result, total
