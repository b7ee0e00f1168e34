# SPDX-License-Identifier: Apache-2.0
"""Convolutions of all channels."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import relax

from ...graph.fold import constant_array
from ...graph.operators import Operator
from ...graph.recognise import is_float32
from ...kernels.conv2d import Conv2d, conv2d_kernel
from ...kernels.emit import Window
from ...kernels.kernel import Kernel
from ...kernels.layout import PLAIN, Layout
from ...kernels.winograd import pack_winograd, winograd_kernel
from ...kernels.winograd_model import WinogradTiling, choose_winograd
from ..feeds import Feed, Feeder, NoRule
from .base import Choice, Preferences, program_feeds, shape_of


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
    if not (is_float32(conv) and all(map(is_float32, conv.args))):
        raise NoRule
    return convolution_windows(conv)


def convolution_windows(conv: relax.Call) -> ConvGeometry:
    """The geometry of a ``nn.conv2d`` in NCHW of whatever type.

    Raises
    ------
    NoRule
        When it is in another layout.
    """
    attrs = conv.attrs
    layouts = (attrs.data_layout, attrs.kernel_layout, attrs.out_layout)
    if layouts not in (("NCHW", "OIHW", "NCHW"), ("NCHW", "OIHW", "")):
        raise NoRule
    source, kernel = shape_of(conv.args[0]), shape_of(conv.args[1])
    result = shape_of(conv)
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


def conv2d(op: Operator, feeder: Feeder, preferences: Preferences) -> Choice:
    core = preferences.core
    geometry = conv_geometry(op.anchor)
    data, weights = op.anchor.args
    batch, channels = shape_of(data)[:2]
    out_channels, groups = shape_of(op.anchor)[1], geometry.groups
    source, result = feeder.layout(data), Layout(core.lanes)
    if groups > 1:
        if (out_channels // groups) % core.lanes:
            raise NoRule
        if source.block and (channels // groups) % source.block:
            source = PLAIN
    conv = Conv2d(
        batch, channels, geometry.rows, geometry.columns, (out_channels,), groups, op.program
    )
    kernel, packed = convolve(conv, source, weights, feeder, preferences)
    feeds = (feeder.feature_map(data, source), packed, *program_feeds(op, feeder, result))
    return Choice(kernel, feeds, result)


def convolve(
    conv: Conv2d, source: Layout, weights: relax.Expr, feeder: Feeder, preferences: Preferences
) -> tuple[Kernel, Feed]:
    """The faster kernel of a convolution of one result, and its weights as it wants them."""
    core = preferences.core
    tiling = _winograd_tiling(conv, source, weights, preferences)
    if tiling is not None:
        kernel = winograd_kernel(conv, tiling, source, core)
        return kernel, feeder.constant(weights, lambda w: pack_winograd(w, tiling, core.lanes))
    kernel = conv2d_kernel(conv, source, Layout(core.lanes), core)
    return kernel, feeder.weights(weights, source.block or 1, core.lanes, conv.groups)


def _winograd_tiling(
    conv: Conv2d, source: Layout, weights: relax.Expr, preferences: Preferences
) -> WinogradTiling | None:
    """How to compute the convolution by Winograd's algorithm; None where the direct one is used."""
    possible = source.block == preferences.core.lanes and constant_array(weights) is not None
    if not (preferences.winograd and possible):
        return None
    return choose_winograd(conv, preferences.core, preferences.workers, preferences.transfers)
