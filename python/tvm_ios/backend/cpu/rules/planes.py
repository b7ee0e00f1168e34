# SPDX-License-Identifier: Apache-2.0
"""Operators that treat each channel on its own: depthwise convolution, pooling, elementwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from tvm import relax

from ....graph.operators import Operator
from ....graph.recognise import normalises_channels
from ....lowering.convolution import conv_geometry
from ....lowering.no_rule import NoRule, shape_of
from ....ops.epilogue import Broadcast, Epilogue
from ....ops.window import Window
from ....relax_ir.expressions import is_float32
from ....sizes.arithmetic import same_shape
from ....sizes.size import AnyShape, is_open
from ..kernels.conv.grouped import Groups, grouped_kernel, pack_grouped
from ..kernels.layout import Layout
from ..kernels.maps.channel_norm import ChannelNorm, channel_norm_kernel
from ..kernels.maps.group_norm import GroupNorm, group_norm_kernel
from ..kernels.maps.planes import Planes, plane_sum_kernel, planes_kernel
from .base import Choice, LoweringConfig, epilogue_inputs
from .bindings import InputBinder, InputBinding


def depthwise_conv2d(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Compute a depthwise convolution of one output channel per input channel.

    Raises
    ------
    NoRule
        If the convolution has more output than input channels, or is not supported.
    """
    core = config.core
    geometry = conv_geometry(op.anchor)
    data, weights = op.call.args
    batch, channels = shape_of(data)[:2]
    if shape_of(op.anchor)[1] != channels:
        raise NoRule
    layout = Layout(core.lanes)

    def pack(array: np.ndarray) -> np.ndarray:
        packed = layout.pack(array.transpose(1, 0, 2, 3))
        return packed.reshape(-1, geometry.rows.kernel, geometry.columns.kernel, core.lanes)

    planes = Planes(
        "depthwise", batch, channels, geometry.rows, geometry.columns, epilogue=op.epilogue
    )
    bindings = (
        binder.feature_map(data, layout),
        binder.constant(weights, pack),
        *epilogue_inputs(op, binder, layout),
    )
    return Choice(planes_kernel(planes, layout, core), bindings, layout)


def narrow_groups(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Compute a convolution of groups that are narrower than a vector, or no multiple of one.

    Raises
    ------
    NoRule
        If the groups are too many different ones for one kernel, or not supported.
    """
    core = config.core
    geometry = conv_geometry(op.anchor)
    data, weights = op.call.args
    batch, channels = shape_of(data)[:2]
    out_channels = shape_of(op.anchor)[1]
    groups = Groups(channels // geometry.groups, out_channels // geometry.groups)
    if geometry.groups == 1 or not groups.computable(core.lanes, geometry.columns.kernel):
        raise NoRule
    layout = Layout(core.lanes)
    planes = Planes(
        "depthwise", batch, out_channels, geometry.rows, geometry.columns, epilogue=op.epilogue
    )
    bindings = (
        binder.feature_map(data, layout),
        binder.constant(weights, lambda array: pack_grouped(array, core.lanes)),
        *epilogue_inputs(op, binder, layout),
    )
    return Choice(grouped_kernel(planes, groups, channels, layout, core), bindings, layout)


def pool2d(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Compute the maximum or the mean of each window.

    Raises
    ------
    NoRule
        If the layout is not NCHW, the type not float32, or the window dilated.
    """
    core = config.core
    attrs, data = op.call.attrs, op.call.args[0]
    if attrs.layout != "NCHW" or not is_float32(data) or any(int(d) != 1 for d in attrs.dilation):
        raise NoRule
    source, result, layout = shape_of(data), shape_of(op.anchor), Layout(core.lanes)
    windows = [
        Window(
            size=source[axis],
            out=result[axis],
            kernel=int(attrs.pool_size[axis - 2]),
            stride=int(attrs.strides[axis - 2]),
            before=int(attrs.padding[axis - 2]),
        )
        for axis in (2, 3)
    ]
    planes = Planes(
        window_reduce="max" if op.kind == "max_pool2d" else "average",
        batch=source[0],
        channels=source[1],
        rows=windows[0],
        columns=windows[1],
        pad_after=(int(attrs.padding[2]), int(attrs.padding[3])),
        include_pad=bool(attrs.count_include_pad),
        epilogue=op.epilogue,
    )
    bindings = (binder.feature_map(data, layout), *epilogue_inputs(op, binder, layout))
    return Choice(planes_kernel(planes, layout, core), bindings, layout)


def plane_sum(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Compute ``adaptive_avg_pool2d`` to one pixel, or ``mean`` or ``sum`` over height and width.

    Raises
    ------
    NoRule
        For any other mean, sum or pooling.
    """
    core = config.core
    data, result = op.call.args[0], shape_of(op.anchor)
    source = shape_of(data)
    if len(source) != 4 or result != (*source[:2], 1, 1) or not is_float32(data):
        raise NoRule
    pools = op.kind == "adaptive_avg_pool2d"
    axes = (2, 3) if pools else op.call.attrs.axis
    if axes is None or sorted(int(a) % 4 for a in axes) != [2, 3]:
        raise NoRule
    if pools and op.call.attrs.layout != "NCHW":
        raise NoRule
    layout = Layout(core.lanes)
    batch, channels, pixels = source[0], source[1], source[2] * source[3]
    known = 1.0 / pixels if isinstance(pixels, int) else None
    factor = 1.0 if op.kind == "sum" else known
    kernel = plane_sum_kernel(batch, channels, pixels, factor, op.epilogue, layout, core)
    bindings = (binder.feature_map(data, layout), *epilogue_inputs(op, binder, layout))
    return Choice(kernel, bindings, layout)


def _per_channel(layout: Layout) -> Callable[[np.ndarray], np.ndarray]:
    """Return what packs a factor of each channel."""
    return lambda factor: layout.pack(factor.reshape(1, -1, 1, 1))


def group_norm(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Compute a normalisation of groups of channels, or of each channel of each image.

    Raises
    ------
    NoRule
        If the operand is not a feature map of float32, or the factors are computed.
    """
    data, gamma, beta = op.call.args
    shape, attrs, layout = shape_of(data), op.call.attrs, Layout(config.core.lanes)
    axes = sorted(int(axis) % 4 for axis in attrs.axes)
    of_planes = int(attrs.channel_axis) % 4 == 1 and axes == [2, 3]
    # TVM's own lowering multiplies and adds whatever these flags say.
    whole = attrs.scale and attrs.center
    if len(shape) != 4 or not is_float32(data) or not of_planes or not whole:
        raise NoRule
    groups = int(attrs.num_groups) if op.kind == "group_norm" else shape[1]
    norm = GroupNorm(
        shape[0], shape[1], shape[2] * shape[3], groups, float(attrs.epsilon), op.epilogue
    )

    bindings = (
        binder.feature_map(data, layout),
        *(binder.constant(factor, _per_channel(layout)) for factor in (gamma, beta)),
        *epilogue_inputs(op, binder, layout),
    )
    return Choice(group_norm_kernel(norm, layout, config.core), bindings, layout)


def channel_norm(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Compute a layer normalisation of the channels of each pixel.

    Raises
    ------
    NoRule
        If other axes are normalised, or the factors are computed.
    """
    data, gamma, beta = op.call.args
    attrs, layout = op.call.attrs, Layout(config.core.lanes)
    if not normalises_channels(op.call) or not is_float32(data):
        raise NoRule
    batch, channels, *size = shape_of(data)
    norm = ChannelNorm(batch, channels, size[0] * size[1], float(attrs.epsilon), op.epilogue)
    pack = _per_channel(layout)

    def factor(value: relax.Expr, used: bool, neutral: float) -> InputBinding:
        if used:
            return binder.constant(value, pack)
        return InputBinding(pack(np.full(channels, neutral, "float32")))

    bindings = (
        binder.feature_map(data, layout),
        factor(gamma, attrs.scale, 1.0),
        factor(beta, attrs.center, 0.0),
        *epilogue_inputs(op, binder, layout),
    )
    return Choice(channel_norm_kernel(norm, layout, config.core), bindings, layout)


def elementwise(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Compute elementwise operations on feature maps that are blocked already.

    Raises
    ------
    NoRule
        If no operand is blocked, or the operation starts from one that is broadcast.
    """
    core = config.core
    if op.source is None or not same_shape(shape_of(op.source), shape_of(op.outputs[0])):
        raise NoRule
    result, layout = shape_of(op.outputs[0]), Layout(core.lanes)
    blocked = any(binder.layout(expr).block for expr in (op.source, *op.arguments))
    if len(result) != 4 or not blocked:
        raise NoRule
    identity = [Window(size, size, 1) for size in result[2:]]
    epilogue = _of_images(op, result)
    planes = Planes("identity", result[0], result[1], identity[0], identity[1], epilogue=epilogue)
    arguments = epilogue_inputs(replace(op, epilogue=epilogue), binder, layout)
    bindings = (binder.feature_map(op.source, layout), *arguments)
    return Choice(planes_kernel(planes, layout, core), bindings, layout)


def _of_images(op: Operator, result: AnyShape) -> Epilogue:
    """Return the epilogue, told which of its arguments have a value for each image and channel.

    Where the number of images is open, those are the factors of one image, too.
    """
    if not is_open(result):
        return op.epilogue
    shape = (*result[:2], 1, 1)
    kinds: list[Broadcast] = [
        "image" if kind == "any" and same_shape(shape_of(expr), shape) else kind
        for expr, kind in zip(op.arguments, op.epilogue.arguments, strict=True)
    ]
    return replace(op.epilogue, arguments=tuple(kinds))
