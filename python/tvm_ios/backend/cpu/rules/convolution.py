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
from ....schedule.rounding import BF16, WIDENED
from ..core import Core
from ..kernels.conv.conv2d import conv2d_kernel
from ..kernels.conv.fold import folds
from ..kernels.conv.image import IMAGE
from ..kernels.conv.packed import pack_columns, packed_kernel, packing_of
from ..kernels.conv.shape import Conv2d
from ..kernels.either import either_kernel
from ..kernels.kernel import Kernel
from ..kernels.layout import PLAIN, Layout, pack_weights
from ..kernels.winograd.convolution import pack_winograd, winograd_kernel
from ..kernels.winograd.model import (
    WinogradTiling,
    choose_winograd,
    named_tiling,
    variant_name,
    variants,
)
from ..kernels.winograd.open_model import choose_open, pixels_of, tiles_of
from .base import Choice, LoweringConfig, epilogue_inputs
from .bindings import InputBinder, InputBinding
from .precision import bf16_speed, rounds_operands
from .quantized import convolve_int8


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
    int8 = convolve_int8(op, conv, arguments, binder, config)
    if int8 is not None:
        return int8
    variant = config.variants.get(op.name)
    operands: tuple[InputBinding, ...]
    if rounds_operands(op, config):
        kernel, operands = _convolve_rounded(conv, data, source, weights, binder, config, variant)
    else:
        kernel, operands = convolve(conv, data, source, weights, binder, config, variant)
        if config.precision != "fp32":
            kernel = replace(kernel, variant=kernel.variant or variant_name(None))
    return Choice(kernel, (*operands, *arguments), result)


def _convolve_rounded(
    conv: Conv2d,
    data: relax.Expr,
    source: Layout,
    weights: relax.Expr,
    binder: InputBinder,
    config: LoweringConfig,
    variant: str | None,
) -> tuple[Kernel, tuple[InputBinding, InputBinding]]:
    """Return the kernel of a convolution that reads bfloat16, and the bindings of its operands.

    It multiplies bfloat16, or float32 where ``variant`` says so. Without a variant it computes by
    Winograd's algorithm if that is predicted to be faster than bf16 dot2. The parameters are those
    of :func:`convolve`.
    """
    # An image that folds is read as it is, and as bfloat16 if it is rounded.
    choice = config.winograd and variants(conv) and not folds(conv) and source.block
    if choice and variant != BF16:
        own = None if variant is None else variant.removeprefix(WIDENED)
        tiling = _winograd_tiling(conv, config, own, bf16_speed(config.core))
        if variant is not None or tiling is not None:
            kernel, operands = _convolve_by(tiling, conv, data, source, weights, binder, config)
            return replace(kernel, variant=WIDENED + variant_name(tiling)), operands
    kernel, operands = convolve_bf16(conv, data, [weights], binder, config.core)
    return replace(kernel, variant=BF16), operands


def convolve_bf16(
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
    source = bf16_source(conv, data, binder, core)
    kernel = conv2d_kernel(conv, source, Layout(core.lanes), core, factors="pairs")
    return kernel, bf16_operands(conv.groups, data, weights, source, binder, core)


def bf16_source(conv: Conv2d, data: relax.Expr, binder: InputBinder, core: Core) -> Layout:
    """Return the layout in which a convolution of bfloat16 reads its feature map."""
    few = not binder.layout(data).block and conv.channels <= IMAGE.block
    return IMAGE if few else Layout(core.lanes)


def bf16_operands(
    groups: int,
    data: relax.Expr,
    weights: Sequence[relax.Expr],
    source: Layout,
    binder: InputBinder,
    core: Core,
) -> tuple[InputBinding, InputBinding]:
    """Return the bindings of the feature map, in the layout ``source``, and of the weights."""
    packed = [binder.bf16_weights(w, source.block, core.lanes, groups) for w in weights]
    together = InputBinding(np.concatenate([binding.value for binding in packed]))
    return binder.bf16(data, source), together


def convolve(
    conv: Conv2d,
    data: relax.Expr,
    source: Layout,
    weights: relax.Expr,
    binder: InputBinder,
    config: LoweringConfig,
    variant: str | None = None,
) -> tuple[Kernel, tuple[InputBinding, ...]]:
    """Return the kernel of a convolution of one result, and the bindings of its operands.

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
    (Kernel, tuple of InputBinding)
        The kernel, and the feature map and the weights as it reads them, which may be packed in
        two ways.
    """
    suits = source.block == (0 if folds(conv.hinted) else config.core.lanes)
    choice = bool(variants(conv.hinted)) and suits and constant_array(weights) is not None
    if choice and conv.is_open:
        return _convolve_open(conv, data, source, weights, binder, config)
    tiling = _winograd_tiling(conv, config, variant) if choice else None
    kernel, operands = _convolve_by(tiling, conv, data, source, weights, binder, config)
    return replace(kernel, variant=variant_name(tiling) if choice else None), operands


def _convolve_open(
    conv: Conv2d,
    data: relax.Expr,
    source: Layout,
    weights: relax.Expr,
    binder: InputBinder,
    config: LoweringConfig,
) -> tuple[Kernel, tuple[InputBinding, ...]]:
    """Return the kernel of a convolution of open size, which may be either, and its operands."""
    found = None
    if config.winograd:
        found = choose_open(conv, config.core, config.workers, config.balance)
    given = (conv, data, source, weights, binder, config)
    if found is None:
        return _convolve_by(None, *given)
    kernel, operands = _convolve_by(found.tiling, *given)
    threshold = found.threshold
    if threshold is None:
        return kernel, operands
    sizes = tiles_of(conv, found.tiling), pixels_of(conv)
    direct, (_, packed) = _convolve_by(None, *given)
    both = either_kernel(lambda: threshold.holds(*sizes), threshold, kernel, direct)
    return (kernel, operands) if both is None else (both, (*operands, packed))


def _convolve_by(
    tiling: WinogradTiling | None,
    conv: Conv2d,
    data: relax.Expr,
    source: Layout,
    weights: relax.Expr,
    binder: InputBinder,
    config: LoweringConfig,
) -> tuple[Kernel, tuple[InputBinding, InputBinding]]:
    """Return the kernel of Winograd's algorithm, or the direct one, and its two operands."""
    core, image = config.core, binder.feature_map(data, source)
    if tiling is not None:
        packed = binder.constant(weights, lambda w: pack_winograd(w, conv, tiling, core.lanes))
        return winograd_kernel(conv, tiling, source, core), (image, packed)
    packing = packing_of(conv, core) if constant_array(weights) is not None else None
    if packing is not None:

        def pack(array: np.ndarray) -> np.ndarray:
            columns = pack_columns(array, conv, packing, core.lanes)
            return pack_weights(columns, source.block or 1, core.lanes, 1)

        return packed_kernel(conv, packing, source, core), (image, binder.constant(weights, pack))
    blocked = binder.weights(weights, source.block or 1, core.lanes, conv.groups)
    return conv2d_kernel(conv, source, Layout(core.lanes), core), (image, blocked)


def _winograd_tiling(
    conv: Conv2d, config: LoweringConfig, variant: str | None, direct_speed: float = 1.0
) -> WinogradTiling | None:
    """Return the tiling for Winograd's algorithm, None if the direct kernel is used."""
    if not config.winograd:
        return None
    core, workers, balance = config.core, config.workers, config.balance
    packing = packing_of(conv, core)
    direct_speed *= 1.0 if packing is None else packing.gain
    if variant in variants(conv.hinted):
        return named_tiling(variant, conv.hinted, core, workers, balance)
    return choose_winograd(conv, core, workers, balance, direct_speed)
