# SPDX-License-Identifier: Apache-2.0
"""Half precision: the operators that multiply pairs of bfloat16, and the values stored so.

Convolutions and products by weights multiply bfloat16, and add in float32. A value that one of them
reads is stored as bfloat16, so that its producer rounds it once. So are the feature maps that such
a value is made of by poolings, sums and concatenations: they move half the bytes. All other values,
such as those between layer normalisations, softmax and sums of transformers, stay in float32.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

import numpy as np
from tvm import relax

from ....graph.fold import constant_array, held_array
from ....graph.operators import Operator, OperatorGraph
from ....graph.recognise import is_float32
from ....schedule.rounding import PAIRED
from ....tir.bfloat16 import Bfloat16
from ....tir.storage import Format
from ...shared.convolution import conv_geometry
from ...shared.no_rule import NoRule, shape_of
from ...shared.product import product_of
from ..kernels.conv2d_shape import Conv2d
from ..kernels.winograd_model import choose_winograd, is_filter
from .base import LoweringConfig

_FEATURE_MAPS = frozenset(
    (
        "conv2d",
        "depthwise_conv2d",
        "max_pool2d",
        "avg_pool2d",
        "concat",
        "elementwise",
        "strided_slice",
        "group_norm",
        "instance_norm",
    )
)
"""The kinds of operators whose operands are stored as their result is."""

_SPEED = 2.0  # of products of pairs over those of float32
_WHOLE = 256  # the whole numbers up to it are exact in bfloat16
_SAMPLE = 64  # elements that tell most weights apart from whole numbers


def is_paired(op: Operator, config: LoweringConfig) -> bool:
    """Return whether an operator multiplies pairs of bfloat16."""
    if config.precision == "fp32" or op.opaque:
        return False
    variant = config.variants.get(op.name)
    if variant is not None and variant != PAIRED:
        return False
    with suppress(NoRule):
        if op.kind == "matmul":
            product = product_of(op)
            if not product.weights or product.depth % 2:
                return False
            return not _counts(held_array(op.call.args[1]))
        if op.kind == "conv2d":
            return _multiplies_pairs(op, config, chosen=variant is not None)
    return False


def _multiplies_pairs(op: Operator, config: LoweringConfig, chosen: bool) -> bool:
    """Return whether a convolution has such a kernel, and it is ``chosen`` or the fastest one."""
    geometry, core = conv_geometry(op.anchor), config.core
    data, weights = op.call.args
    (batch, channels), results = shape_of(data)[:2], shape_of(op.anchor)[1]
    groups = geometry.groups
    whole = groups == 1 or not (channels // groups % core.lanes or results // groups % core.lanes)
    array = constant_array(weights)
    if not whole or array is None or _counts(array):
        return False
    conv = Conv2d(batch, channels, geometry.rows, geometry.columns, (results,), groups, op.epilogue)
    if chosen or not config.winograd or not is_filter(conv):
        return True
    return choose_winograd(conv, core, config.workers, config.balance, _SPEED) is None


def _counts(weights: np.ndarray) -> bool:
    """Return whether weights are whole numbers beyond those that bfloat16 holds.

    They are indices, positions or strides, which must not be rounded.
    """
    with np.errstate(invalid="ignore"):  # infinities are no whole numbers
        if not weights.size or (weights.ravel()[:_SAMPLE] % 1).any():
            return False
        return bool(np.abs(weights).max() > _WHOLE and not (weights % 1).any())


def narrow_values(
    graph: OperatorGraph, config: LoweringConfig, wide: Collection[relax.Var]
) -> dict[relax.Var, Format]:
    """Return the values that are not stored as float32, with their formats.

    Parameters
    ----------
    graph : OperatorGraph
        The operators.
    config : LoweringConfig
        The lowering config.
    wide : collection of relax.Var
        Values that must be float32.
    """
    if config.precision == "fp32":
        return {}
    computed = {value for op in graph.operators for value in op.outputs if is_float32(value)}
    allowed = computed - set(wide)
    narrow: set[relax.Var] = set()
    for op in reversed(graph.operators):  # readers before producers
        if is_paired(op, config):
            narrow |= {op.call.args[0]} & allowed
        if op.kind in _FEATURE_MAPS and narrow.intersection(op.outputs):
            narrow |= {value for value in op.inputs if value in allowed and value.ty.ndim == 4}
    return dict.fromkeys(narrow, Bfloat16(config.core.pair_lanes))
