# SPDX-License-Identifier: Apache-2.0
"""Convolutions and transposed convolutions of one to three dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from ...emitter import shape_of
from ...onnx.operators.convolution import conv, conv_transpose
from ...onnx.operators.deformed import deform_conv
from ..node_emitter import AtenEmitter
from .table import operator

Sizes = Sequence[int]


@operator("convolution.default")
def convolution(
    emit: AtenEmitter,
    data: relax.Expr,
    weight: relax.Expr,
    bias: relax.Expr | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> relax.Expr:
    rank = len(shape_of(weight)) - 2
    window = {
        "strides": spread(stride, rank),
        "pads": spread(padding, rank) * 2,
        "dilations": spread(dilation, rank),
    }
    if not transposed:
        return conv(emit, data, weight, bias, group=groups, **window)
    added = spread(output_padding, rank)
    return conv_transpose(emit, data, weight, bias, group=groups, output_padding=added, **window)


@operator("torchvision.deform_conv2d.default")
def deformed(
    emit: AtenEmitter,
    data: relax.Expr,
    weight: relax.Expr,
    offset: relax.Expr,
    mask: relax.Expr,
    bias: relax.Expr,
    *numbers: int,
) -> relax.Expr:
    """Convert a convolution, of two numbers each of stride, padding, dilation and groups."""
    *moves, groups, offset_groups, masks = numbers
    return deform_conv(
        emit,
        data,
        weight,
        offset,
        bias,
        mask if masks else None,
        group=groups,
        offset_group=offset_groups,
        strides=moves[:2],
        pads=moves[2:4] * 2,
        dilations=moves[4:],
    )


def spread(numbers: Sizes, rank: int) -> list[int]:
    """Return a number for each axis, where one may stand for all."""
    return list(numbers) * rank if len(numbers) == 1 else list(numbers)
