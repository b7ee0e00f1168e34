# SPDX-License-Identifier: Apache-2.0
"""Which kernel an operator gets on a CPU: one rule per kind."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tvm import relax

from ..graph.operators import Operator
from ..graph.recognise import is_float32, op_name, static_shape
from ..kernels.concat import concat_kernel
from ..kernels.conv2d import Conv2d, conv2d_kernel
from ..kernels.emit import Window
from ..kernels.kernel import Kernel
from ..kernels.layout import PLAIN, Layout
from ..kernels.matmul import Matmul, matmul_kernel, pack_matrix
from ..kernels.planes import Planes, global_average_kernel, planes_kernel
from ..target import VectorISA
from .feeds import Feed, Feeder, NoRule


@dataclass(frozen=True)
class Choice:
    """A kernel, what feeds it, and how its result lies in memory."""

    kernel: Kernel
    feeds: tuple[Feed, ...]
    layout: Layout


Rule = Callable[[Operator, Feeder, VectorISA], Choice]


@dataclass(frozen=True)
class ConvGeometry:
    """A convolution's windows over rows and columns, and its groups."""

    rows: Window
    columns: Window
    groups: int


def conv_geometry(conv: relax.Call) -> ConvGeometry:
    """The geometry of a ``nn.conv2d`` in NCHW of float32.

    Raises
    ------
    NoRule
        When it is in another layout or type.
    """
    attrs = conv.attrs
    layouts = (attrs.data_layout, attrs.kernel_layout, attrs.out_layout)
    if layouts not in (("NCHW", "OIHW", "NCHW"), ("NCHW", "OIHW", "")):
        raise NoRule
    if not (is_float32(conv) and all(map(is_float32, conv.args))):
        raise NoRule
    source, kernel = _shape(conv.args[0]), _shape(conv.args[1])
    result = _shape(conv)
    windows = [
        Window(
            size=source[axis],
            out=result[axis],
            kernel=kernel[axis],
            stride=int(attrs.strides[axis - 2]),
            dilation=int(attrs.dilation[axis - 2]),
            before=int(attrs.padding[axis - 2]),
        )
        for axis in (2, 3)
    ]
    return ConvGeometry(windows[0], windows[1], int(attrs.groups))


def conv2d(op: Operator, feeder: Feeder, isa: VectorISA) -> Choice:
    geometry = conv_geometry(op.anchor)
    data, weights = op.anchor.args
    batch, channels = _shape(data)[:2]
    out_channels, groups = _shape(op.anchor)[1], geometry.groups
    source, result = feeder.layout(data), Layout(isa.lanes)
    if groups > 1:
        if (out_channels // groups) % isa.lanes:
            raise NoRule
        if source.block and (channels // groups) % source.block:
            source = PLAIN
    conv = Conv2d(
        batch, channels, geometry.rows, geometry.columns, (out_channels,), groups, op.program
    )
    feeds = (
        feeder.feature_map(data, source),
        feeder.weights(weights, source.block or 1, isa.lanes, groups),
        *_program_feeds(op, feeder, result),
    )
    return Choice(conv2d_kernel(conv, source, result, isa), feeds, result)


def depthwise_conv2d(op: Operator, feeder: Feeder, isa: VectorISA) -> Choice:
    geometry = conv_geometry(op.anchor)
    data, weights = op.anchor.args
    batch, channels = _shape(data)[:2]
    if _shape(op.anchor)[1] != channels:
        raise NoRule
    layout = Layout(isa.lanes)

    def pack(array: np.ndarray) -> np.ndarray:
        packed = layout.pack(array.transpose(1, 0, 2, 3))
        return packed.reshape(-1, geometry.rows.kernel, geometry.columns.kernel, isa.lanes)

    planes = Planes(
        "depthwise", batch, channels, geometry.rows, geometry.columns, program=op.program
    )
    feeds = (
        feeder.feature_map(data, layout),
        feeder.constant(weights, pack),
        *_program_feeds(op, feeder, layout),
    )
    return Choice(planes_kernel(planes, layout, isa), feeds, layout)


def pool2d(op: Operator, feeder: Feeder, isa: VectorISA) -> Choice:
    attrs, data = op.anchor.attrs, op.anchor.args[0]
    if attrs.layout != "NCHW" or not is_float32(data) or any(int(d) != 1 for d in attrs.dilation):
        raise NoRule
    source, result, layout = _shape(data), _shape(op.anchor), Layout(isa.lanes)
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
    feeds = (feeder.feature_map(data, layout), *_program_feeds(op, feeder, layout))
    return Choice(planes_kernel(planes, layout, isa), feeds, layout)


def global_average(op: Operator, feeder: Feeder, isa: VectorISA) -> Choice:
    """``adaptive_avg_pool2d`` to one pixel, or ``mean`` over height and width."""
    data, result = op.anchor.args[0], _shape(op.anchor)
    source = _shape(data)
    if len(source) != 4 or result != (*source[:2], 1, 1) or not is_float32(data):
        raise NoRule
    axes = op.anchor.attrs.axis if op.kind == "mean" else (2, 3)
    if axes is None or sorted(int(a) % 4 for a in axes) != [2, 3]:
        raise NoRule
    if op.kind != "mean" and op.anchor.attrs.layout != "NCHW":
        raise NoRule
    layout = Layout(isa.lanes)
    batch, channels, pixels = source[0], source[1], source[2] * source[3]
    kernel = global_average_kernel(batch, channels, pixels, op.program, layout, isa)
    feeds = (feeder.feature_map(data, layout), *_program_feeds(op, feeder, layout))
    return Choice(kernel, feeds, layout)


def concat(op: Operator, feeder: Feeder, isa: VectorISA) -> Choice:
    """Concatenation of feature maps along the channels, some of them blocked."""
    result, layout = _shape(op.anchor), Layout(isa.lanes)
    fields = list(op.anchor.args[0].fields) if isinstance(op.anchor.args[0], relax.Tuple) else []
    blocked = any(feeder.layout(field).block for field in fields)
    axis = op.anchor.attrs.axis
    if len(result) != 4 or axis is None or int(axis) % 4 != 1 or op.program.steps or not blocked:
        raise NoRule
    if not is_float32(op.anchor):
        raise NoRule
    channels = tuple(_shape(field)[1] for field in fields)
    kernel = concat_kernel(result[0], channels, result[2] * result[3], layout)
    feeds = tuple(feeder.feature_map(field, layout) for field in fields)
    return Choice(kernel, feeds, layout)


def matmul(op: Operator, feeder: Feeder, isa: VectorISA) -> Choice:
    """A matrix times constant weights."""
    data, weights = op.anchor.args
    source, matrix = _shape(data), _shape(weights)
    if len(source) != 2 or len(matrix) != 2 or not (is_float32(data) and is_float32(weights)):
        raise NoRule
    product = Matmul(source[0], source[1], matrix[1], op.program)
    feeds = (
        feeder.plain(data),
        feeder.constant(weights, lambda array: pack_matrix(array, isa.lanes)),
        *_program_feeds(op, feeder, PLAIN),
    )
    return Choice(matmul_kernel(product, isa), feeds, PLAIN)


def elementwise(op: Operator, feeder: Feeder, isa: VectorISA) -> Choice:
    """Elementwise operations on feature maps that are blocked already."""
    if op.source is None:
        raise NoRule
    result, layout = _shape(op.outputs[0]), Layout(isa.lanes)
    blocked = any(feeder.layout(expr).block for expr in (op.source, *op.arguments))
    if len(result) != 4 or not blocked:
        raise NoRule
    identity = [Window(size, size, 1) for size in result[2:]]
    planes = Planes("identity", result[0], result[1], identity[0], identity[1], program=op.program)
    feeds = (feeder.feature_map(op.source, layout), *_program_feeds(op, feeder, layout))
    return Choice(planes_kernel(planes, layout, isa), feeds, layout)


RULES: dict[str, Rule] = {
    "conv2d": conv2d,
    "depthwise_conv2d": depthwise_conv2d,
    "max_pool2d": pool2d,
    "avg_pool2d": pool2d,
    "adaptive_avg_pool2d": global_average,
    "mean": global_average,
    "concat": concat,
    "matmul": matmul,
    "elementwise": elementwise,
}


def _program_feeds(op: Operator, feeder: Feeder, layout: Layout) -> tuple[Feed, ...]:
    shape = _shape(op.outputs[0])
    pairs = zip(op.arguments, op.program.arguments, strict=True)
    return tuple(feeder.argument(expr, kind, layout, shape) for expr, kind in pairs)


def _shape(expr: relax.Expr) -> tuple[int, ...]:
    """The static shape of a tensor; no rule covers anything else."""
    if not isinstance(expr.ty, relax.TensorType) or expr.ty.shape is None:
        raise NoRule
    shape = static_shape(expr, op_name(expr) or "a tensor")
    if math.prod(shape) == 0:
        raise NoRule
    return shape
