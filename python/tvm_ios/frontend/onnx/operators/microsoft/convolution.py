# SPDX-License-Identifier: Apache-2.0
"""Convolutions with what follows them, and those of images with their channels last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax

from ....emitter import shape_of
from ...node_emitter import NodeEmitter
from .. import convolution
from ..window import WINDOW
from .activation import activated
from .domain import check_shape, contributed

_CONV = WINDOW | {"group"}


@contributed("FusedConv", shared=_CONV)
def fused_conv(
    emit: NodeEmitter,
    data: relax.Expr,
    weight: relax.Expr,
    bias: relax.Expr | None = None,
    summand: relax.Expr | None = None,
    *,
    activation: str | None = None,
    activation_params: Sequence[float] = (),
    **conv: Any,
) -> relax.Expr:
    """Convolve, add a tensor of the result's shape, and apply an activation."""
    result = convolution.conv(emit, data, weight, bias, **conv)
    if summand is not None:
        check_shape(emit, summand, shape_of(result), "a summand")
        result = emit(relax.op.add(result, summand))
    return activated(emit, result, activation, activation_params)


@contributed("NhwcFusedConv", shared=_CONV | {"activation", "activation_params"})
def nhwc_fused_conv(
    emit: NodeEmitter,
    data: relax.Expr,
    weight: relax.Expr,
    bias: relax.Expr | None = None,
    summand: relax.Expr | None = None,
    **fused: Any,
) -> relax.Expr:
    """Convolve images with their channels last; the channels of the weights are not."""
    added = None if summand is None else to_channels_first(emit, summand)
    result = fused_conv(emit, to_channels_first(emit, data), weight, bias, added, **fused)
    return to_channels_last(emit, result)


@contributed("NhwcConv", shared=_CONV)
def nhwc_conv(
    emit: NodeEmitter,
    data: relax.Expr,
    weight: relax.Expr,
    bias: relax.Expr | None = None,
    **conv: Any,
) -> relax.Expr:
    """Convolve images with their channels last, which those of the weights are, too.

    That is what ONNX Runtime's optimiser writes and its kernel reads, whatever the documentation of
    the operator says.
    """
    channels, group = shape_of(data)[-1], conv.get("group", 1)
    if shape_of(weight)[-1] * group != channels:
        raise emit.error(
            f"has weights of {list(shape_of(weight))} for {channels} channels in {group} groups; "
            "their channels must be the last axis."
        )
    moved = [to_channels_first(emit, x) for x in (data, weight)]
    return to_channels_last(emit, convolution.conv(emit, *moved, bias, **conv))


def to_channels_first(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
    """Move the last axis behind the first one."""
    rank = len(shape_of(data))
    return emit.transpose(data, [0, rank - 1, *range(1, rank - 1)])


def to_channels_last(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
    """Move the second axis to the end."""
    return emit.transpose(data, [0, *range(2, len(shape_of(data))), 1])


@contributed("ConvTransposeWithDynamicPads", shared=_CONV | {"output_padding"})
def conv_transpose_with_pads(
    emit: NodeEmitter,
    data: relax.Expr,
    weight: relax.Expr,
    pads: relax.Expr | None = None,
    bias: relax.Expr | None = None,
    **conv: Any,
) -> relax.Expr:
    """Convert a transposed convolution whose padding is an input, which must be constant."""
    if pads is not None:
        conv["pads"] = emit.integers(pads, "its padding")
    return convolution.conv_transpose(emit, data, weight, bias, **conv)
