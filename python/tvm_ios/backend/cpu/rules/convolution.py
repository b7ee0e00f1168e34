# SPDX-License-Identifier: Apache-2.0
"""Convolutions of all channels."""

from __future__ import annotations

from tvm import relax

from ....graph.fold import constant_array
from ....graph.operators import Operator
from ...shared.convolution import conv_geometry
from ...shared.no_rule import NoRule, shape_of
from ..kernels.conv2d import Conv2d, conv2d_kernel
from ..kernels.kernel import Kernel
from ..kernels.layout import PLAIN, Layout
from ..kernels.winograd import pack_winograd, winograd_kernel
from ..kernels.winograd_model import WinogradTiling, choose_winograd
from .base import Choice, Preferences, program_feeds
from .feeds import Feed, Feeder


def conv2d(op: Operator, feeder: Feeder, preferences: Preferences) -> Choice:
    core = preferences.core
    geometry = conv_geometry(op.anchor)
    data, weights = op.call.args
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
