# SPDX-License-Identifier: Apache-2.0
"""Convolutions of all channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from tvm import relax

from ....graph.operators import Operator
from ....lowering.convolution import conv_geometry
from ....lowering.no_rule import NoRule, shape_of
from ....relax_ir.constants import constant_array
from ....schedule.rounding import PAIRED, WIDENED
from ..core import Core
from ..kernels.conv.conv2d import conv2d_kernel
from ..kernels.conv.fold import folds
from ..kernels.conv.image import IMAGE
from ..kernels.conv.shape import Conv2d
from ..kernels.kernel import Kernel
from ..kernels.layout import PLAIN, Layout
from ..kernels.winograd.convolution import pack_winograd, winograd_kernel
from ..kernels.winograd.model import (
    WinogradTiling,
    choose_winograd,
    named_tiling,
    variant_name,
    variants,
)
from .base import Choice, LoweringConfig, epilogue_inputs
from .bindings import InputBinder, InputBinding
from .precision import rounded_kernel
from .quantized import convolve_quads


def conv2d(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Compute a convolution by the direct kernel or by Winograd's algorithm.

    Raises
    ------
    NoRule
        If the convolution's layouts, types or groups are not supported.
    """
    core = config.core
    geometry = conv_geometry(op.anchor)
    data, weights = op.call.args
    batch, channels = shape_of(data)[:2]
    out_channels, groups = shape_of(op.anchor)[1], geometry.groups
    source, result = binder.layout(data), Layout(core.lanes)
    if groups > 1:
        if (out_channels // groups) % core.lanes:
            raise NoRule
        if source.block and (channels // groups) % source.block:
            source = PLAIN
    conv = Conv2d(
        batch, channels, geometry.rows, geometry.columns, (out_channels,), groups, op.epilogue
    )
    arguments = epilogue_inputs(op, binder, result)
    quads = convolve_quads(op, conv, arguments, binder, config)
    if quads is not None:
        return quads
    rounded = rounded_kernel(op, config)
    if rounded == PAIRED or (rounded is not None and not source.block):
        kernel, operands = convolve_pairs(conv, data, [weights], binder, core)
        return Choice(replace(kernel, variant=PAIRED), (*operands, *arguments), result)
    variant = config.variants.get(op.name) if rounded is None else rounded.removeprefix(WIDENED)
    kernel, operands = convolve(conv, data, source, weights, binder, config, variant)
    if config.precision != "fp32":
        kernel = replace(kernel, variant=rounded or kernel.variant or variant_name(None))
    return Choice(kernel, (*operands, *arguments), result)


def convolve_pairs(
    conv: Conv2d,
    data: relax.Expr,
    weights: Sequence[relax.Expr],
    binder: InputBinder,
    core: Core,
) -> tuple[Kernel, tuple[InputBinding, InputBinding]]:
    """Return the kernel of a convolution of bfloat16, and the bindings of its two operands.

    A row-major image is blocked on the way, by four channels if it has no more: images mostly have
    three.

    Parameters
    ----------
    conv : Conv2d
        The convolution.
    data : relax.Expr
        The feature map.
    weights : sequence of relax.Expr
        The constant weights of each result.
    binder : InputBinder
        Makes the bindings.
    core : Core
        The core that runs the kernel.
    """
    source = paired_source(conv, data, binder, core)
    kernel = conv2d_kernel(conv, source, Layout(core.lanes), core, factors="pairs")
    return kernel, paired_operands(conv.groups, data, weights, source, binder, core)


def paired_source(conv: Conv2d, data: relax.Expr, binder: InputBinder, core: Core) -> Layout:
    """Return the layout in which a convolution of bfloat16 reads its feature map."""
    few = not binder.layout(data).block and conv.channels <= IMAGE.block
    return IMAGE if few else Layout(core.lanes)


def paired_operands(
    groups: int,
    data: relax.Expr,
    weights: Sequence[relax.Expr],
    source: Layout,
    binder: InputBinder,
    core: Core,
) -> tuple[InputBinding, InputBinding]:
    """Return the bindings of the feature map, in the layout ``source``, and of the weights."""
    packed = [binder.paired_weights(w, source.block, core.lanes, groups) for w in weights]
    together = InputBinding(np.concatenate([binding.value for binding in packed]))
    return binder.paired(data, source), together


def convolve(
    conv: Conv2d,
    data: relax.Expr,
    source: Layout,
    weights: relax.Expr,
    binder: InputBinder,
    config: LoweringConfig,
    variant: str | None = None,
) -> tuple[Kernel, tuple[InputBinding, InputBinding]]:
    """Return the kernel of a convolution of one result, and the bindings of its two operands.

    Parameters
    ----------
    conv : Conv2d
        The convolution.
    data : relax.Expr
        The feature map.
    source : Layout
        The layout in which the direct kernel reads it.
    weights : relax.Expr
        The weights, ``[K, C / groups, R, S]``.
    binder : InputBinder
        Makes the bindings.
    config : LoweringConfig
        The lowering config.
    variant : str, optional
        The kernel to use, of :func:`~tvm_ios.backend.cpu.kernels.winograd.model.variants`; by
        default the one that is predicted to be the fastest.

    Returns
    -------
    (Kernel, (InputBinding, InputBinding))
        The kernel, and the feature map and the weights as it reads them.
    """
    core = config.core
    suits = source.block == (0 if folds(conv) else core.lanes)
    choice = bool(variants(conv)) and suits and constant_array(weights) is not None
    tiling = _winograd_tiling(conv, config, variant) if choice else None
    name = variant_name(tiling) if choice else None
    image = binder.feature_map(data, source)
    if tiling is not None:
        kernel = replace(winograd_kernel(conv, tiling, source, core), variant=name)
        return kernel, (
            image,
            binder.constant(weights, lambda w: pack_winograd(w, conv, tiling, core.lanes)),
        )
    kernel = replace(conv2d_kernel(conv, source, Layout(core.lanes), core), variant=name)
    return kernel, (image, binder.weights(weights, source.block or 1, core.lanes, conv.groups))


def _winograd_tiling(
    conv: Conv2d, config: LoweringConfig, variant: str | None
) -> WinogradTiling | None:
    """Return the tiling for Winograd's algorithm, None if the direct kernel is used."""
    if not config.winograd:
        return None
    core, workers, balance = config.core, config.workers, config.balance
    if variant in variants(conv):
        return named_tiling(variant, conv, core, workers, balance)
    return choose_winograd(conv, core, workers, balance)
