# SPDX-License-Identifier: Apache-2.0
"""Convolutions of all channels."""

from __future__ import annotations

from dataclasses import replace

from tvm import relax

from ....graph.fold import constant_array
from ....graph.operators import Operator
from ...shared.convolution import conv_geometry
from ...shared.no_rule import NoRule, shape_of
from ..kernels.conv2d import Conv2d, conv2d_kernel
from ..kernels.kernel import Kernel
from ..kernels.layout import PLAIN, Layout
from ..kernels.winograd import pack_winograd, winograd_kernel
from ..kernels.winograd_model import (
    VARIANTS,
    WinogradTiling,
    choose_winograd,
    is_filter,
    named_tiling,
    variant_name,
)
from .base import Choice, Preferences, program_feeds
from .feeds import Feed, Feeder


def conv2d(op: Operator, feeder: Feeder, preferences: Preferences) -> Choice:
    """Compute a convolution by the direct kernel or by Winograd's algorithm.

    Parameters
    ----------
    op : Operator
        A convolution with an epilogue.
    feeder : Feeder
        Makes the input bindings.
    preferences : Preferences
        The lowering config.

    Returns
    -------
    Choice
        A kernel with a blocked result.

    Raises
    ------
    NoRule
        If the convolution's layouts, types or groups are not supported.
    """
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
    variant = preferences.variants.get(op.name)
    kernel, packed = convolve(conv, source, weights, feeder, preferences, variant)
    feeds = (feeder.feature_map(data, source), packed, *program_feeds(op, feeder, result))
    return Choice(kernel, feeds, result)


def convolve(
    conv: Conv2d,
    source: Layout,
    weights: relax.Expr,
    feeder: Feeder,
    preferences: Preferences,
    variant: str | None = None,
) -> tuple[Kernel, Feed]:
    """Return the kernel of a convolution of one result, and the binding of its weights.

    Parameters
    ----------
    conv : Conv2d
        The convolution.
    source : Layout
        Layout of the feature map.
    weights : relax.Expr
        The weights, ``[K, C / groups, R, S]``.
    feeder : Feeder
        Makes the binding of the weights.
    preferences : Preferences
        The lowering config.
    variant : str, optional
        The kernel to use, of :data:`~tvm_ios.backend.cpu.kernels.winograd_model.VARIANTS`; by
        default the one that is predicted to be the fastest.

    Returns
    -------
    (Kernel, Feed)
        The kernel, and the weights packed for it.
    """
    core = preferences.core
    blocked = source.block == core.lanes
    choice = is_filter(conv) and blocked and constant_array(weights) is not None
    tiling = _winograd_tiling(conv, preferences, variant) if choice else None
    name = variant_name(tiling) if choice else None
    if tiling is not None:
        kernel = replace(winograd_kernel(conv, tiling, source, core), variant=name)
        return kernel, feeder.constant(weights, lambda w: pack_winograd(w, tiling, core.lanes))
    kernel = replace(conv2d_kernel(conv, source, Layout(core.lanes), core), variant=name)
    return kernel, feeder.weights(weights, source.block or 1, core.lanes, conv.groups)


def _winograd_tiling(
    conv: Conv2d, preferences: Preferences, variant: str | None
) -> WinogradTiling | None:
    """Return the tiling for Winograd's algorithm, None if the direct kernel is used."""
    if not preferences.winograd:
        return None
    core, workers, transfers = preferences.core, preferences.workers, preferences.transfers
    if variant in VARIANTS:
        return named_tiling(variant, conv, core, workers, transfers)
    return choose_winograd(conv, core, workers, transfers)
