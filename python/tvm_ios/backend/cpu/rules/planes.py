# SPDX-License-Identifier: Apache-2.0
"""Operators on each channel of its own: depthwise convolution, pooling, elementwise."""

from __future__ import annotations

import numpy as np

from ....graph.operators import Operator
from ....graph.recognise import is_float32
from ....tir.window import Window
from ...shared.convolution import conv_geometry
from ...shared.no_rule import NoRule, shape_of
from ..kernels.layout import Layout
from ..kernels.planes import Planes, global_average_kernel, planes_kernel
from .base import Choice, Preferences, program_feeds
from .feeds import Feeder


def depthwise_conv2d(op: Operator, feeder: Feeder, preferences: Preferences) -> Choice:
    core = preferences.core
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
        "depthwise", batch, channels, geometry.rows, geometry.columns, program=op.program
    )
    feeds = (
        feeder.feature_map(data, layout),
        feeder.constant(weights, pack),
        *program_feeds(op, feeder, layout),
    )
    return Choice(planes_kernel(planes, layout, core), feeds, layout)


def pool2d(op: Operator, feeder: Feeder, preferences: Preferences) -> Choice:
    core = preferences.core
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
        gather="max" if op.kind == "max_pool2d" else "average",
        batch=source[0],
        channels=source[1],
        rows=windows[0],
        columns=windows[1],
        pad_after=(int(attrs.padding[2]), int(attrs.padding[3])),
        include_pad=bool(attrs.count_include_pad),
        program=op.program,
    )
    feeds = (feeder.feature_map(data, layout), *program_feeds(op, feeder, layout))
    return Choice(planes_kernel(planes, layout, core), feeds, layout)


def global_average(op: Operator, feeder: Feeder, preferences: Preferences) -> Choice:
    """``adaptive_avg_pool2d`` to one pixel, or ``mean`` over height and width."""
    core = preferences.core
    data, result = op.call.args[0], shape_of(op.anchor)
    source = shape_of(data)
    if len(source) != 4 or result != (*source[:2], 1, 1) or not is_float32(data):
        raise NoRule
    axes = op.call.attrs.axis if op.kind == "mean" else (2, 3)
    if axes is None or sorted(int(a) % 4 for a in axes) != [2, 3]:
        raise NoRule
    if op.kind != "mean" and op.call.attrs.layout != "NCHW":
        raise NoRule
    layout = Layout(core.lanes)
    batch, channels, pixels = source[0], source[1], source[2] * source[3]
    kernel = global_average_kernel(batch, channels, pixels, op.program, layout, core)
    feeds = (feeder.feature_map(data, layout), *program_feeds(op, feeder, layout))
    return Choice(kernel, feeds, layout)


def elementwise(op: Operator, feeder: Feeder, preferences: Preferences) -> Choice:
    """Elementwise operations on feature maps that are blocked already."""
    core = preferences.core
    if op.source is None:
        raise NoRule
    result, layout = shape_of(op.outputs[0]), Layout(core.lanes)
    blocked = any(feeder.layout(expr).block for expr in (op.source, *op.arguments))
    if len(result) != 4 or not blocked:
        raise NoRule
    identity = [Window(size, size, 1) for size in result[2:]]
    planes = Planes("identity", result[0], result[1], identity[0], identity[1], program=op.program)
    feeds = (feeder.feature_map(op.source, layout), *program_feeds(op, feeder, layout))
    return Choice(planes_kernel(planes, layout, core), feeds, layout)
