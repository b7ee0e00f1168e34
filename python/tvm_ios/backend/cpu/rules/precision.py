# SPDX-License-Identifier: Apache-2.0
"""Half precision: the operators that multiply bfloat16, and the values stored so.

Convolutions, products by weights and attentions multiply bfloat16, and add in float32. A value that
one of them reads is stored as bfloat16, so that its producer rounds it once. So are the feature
maps that such a value is made of by poolings, sums and concatenations, and what is reshaped or
permuted to it: they move half the bytes. All other values, such as those between layer
normalisations, softmax and sums of transformers, stay in float32.

Winograd's algorithm reads bfloat16 where it takes the place of such a convolution, but multiplies
float32.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress

import numpy as np
from tvm import relax

from ....graph.operators import Operator, OperatorGraph
from ....graph.rearrange import moves
from ....lowering.convolution import conv_geometry
from ....lowering.no_rule import NoRule, shape_of
from ....lowering.product import product_of
from ....relax_ir.constants import constant_array, held_array
from ....relax_ir.expressions import is_float32
from ....schedule.rounding import BF16, INT8, WIDENED, rounds
from ....sizes.size import is_open
from ..core import Core
from ..isa import amx, bfmmla
from ..isa.bfloat16 import Bfloat16
from ..isa.storage import Format
from ..kernels.conv.fold import folds
from ..kernels.conv.shape import Conv2d
from ..kernels.winograd.model import predicted_times, variant_name, variants
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

_ATTENTIONS = frozenset(("attention", "attention_bias"))

# Of products of bfloat16 over those of float32. Pairs were measured. Instructions for matrices are
# predicted by their throughput: no processor with them was at hand.
_SPEED = {None: 2.0, amx.PRODUCTS: 8.0, bfmmla.PRODUCTS: 3.0}
PROMISING = 1.6  # times the shortest predicted time; predictions are seldom further off
_WHOLE = 256  # the whole numbers up to it are exact in bfloat16
_SAMPLE = 64  # elements that tell most weights apart from whole numbers


def rounds_operands(op: Operator, config: LoweringConfig) -> bool:
    """Return whether an operator reads what it multiplies as bfloat16.

    This does not depend on which of the kernels that read bfloat16 is chosen.
    """
    if config.precision == "fp32" or op.opaque:
        return False
    variant = config.variants.get(op.name)
    if variant is not None and not rounds(variant):
        return False
    with suppress(NoRule):
        if op.kind == "conv2d":
            return _rounds_convolution(op, config)
        if op.kind == "matmul":
            return _rounds_product(op)
        return op.kind in _ATTENTIONS and _rounds_attention(op)
    return False


def _rounds_attention(op: Operator) -> bool:
    """Return whether an attention has a kernel in bfloat16; one of open sizes has none."""
    queries, keys = (shape_of(operand) for operand in op.call.args[:2])
    return not is_open((queries[1], keys[1], queries[3])) and queries[3] % 2 == 0


def _rounds_product(op: Operator) -> bool:
    """Return whether a product by weights has a kernel in bfloat16."""
    product = product_of(op)
    if not product.weights or product.depth % 2:
        return False
    return not _counts(held_array(op.call.args[1]))


def _rounds_convolution(op: Operator, config: LoweringConfig) -> bool:
    """Return whether a convolution has a kernel in bfloat16."""
    core, weights = config.core, constant_array(op.call.args[1])
    conv = conv_of(op)
    sizes = (conv.channels // conv.groups, conv.out_channels[0] // conv.groups)
    whole = conv.groups == 1 or not any(size % core.lanes for size in sizes)
    # Guarded tiles copy float32, see `kernels/conv/tile.py`.
    return whole and not conv.is_open and weights is not None and not _counts(weights)


def bf16_speed(core: Core) -> float:
    """Return how many times faster products of bfloat16 are than those of float32."""
    return _SPEED[core.tile_matmul]


def possible_kernels(op: Operator, config: LoweringConfig) -> frozenset[str]:
    """Return the kernels that a schedule may name of an operator that has a choice."""
    exact = {variant_name(None), *(variants(conv_of(op)) if op.kind == "conv2d" else ())}
    rounded = {BF16, *(WIDENED + name for name in exact)} if config.precision != "fp32" else set()
    return frozenset(exact | rounded | ({INT8} if config.int8 else set()))


def promising_kernels(op: Operator, chosen: str, config: LoweringConfig) -> tuple[str, ...]:
    """Return which kernels of a convolution may be as fast as the ``chosen`` one, which is first.

    All read the same input: if it is bfloat16, the direct one multiplies bfloat16.
    """
    conv = conv_of(op)
    alone = chosen == INT8 or (rounds(chosen) and folds(conv))
    if not config.winograd or alone or not variants(conv):
        return (chosen,)
    core, workers, balance = config.core, config.workers, config.balance
    speed = bf16_speed(core) if rounds(chosen) else 1.0
    times = predicted_times(conv, core, workers, balance, speed)
    limit = PROMISING * min(times.values())
    likely = sorted((name for name, time in times.items() if time <= limit), key=times.__getitem__)
    if rounds(chosen):
        likely = [BF16 if name == variant_name(None) else WIDENED + name for name in likely]
    return (chosen, *(name for name in likely if name != chosen))


def conv_of(op: Operator) -> Conv2d:
    """Return the geometry of a convolution."""
    geometry = conv_geometry(op.anchor)
    (batch, channels), results = shape_of(op.call.args[0])[:2], shape_of(op.anchor)[1]
    return Conv2d(
        batch,
        channels,
        geometry.rows,
        geometry.columns,
        (results,),
        geometry.groups,
        op.epilogue,
    )


def _factors(op: Operator) -> Sequence[relax.Expr]:
    """Return the operands that an operator multiplies, if they are not weights."""
    return op.call.args[: 3 if op.kind in _ATTENTIONS else 1]


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
        if rounds_operands(op, config):
            narrow |= allowed.intersection(_factors(op))
        if not narrow.intersection(op.outputs):
            continue
        if op.anchor is not None and moves(op.anchor) and not op.epilogue.steps:
            narrow |= allowed.intersection(op.inputs)
        if op.kind in _FEATURE_MAPS:
            narrow |= {value for value in op.inputs if value in allowed and value.ty.ndim == 4}
    return dict.fromkeys(narrow, Bfloat16(config.core.bf16_dot2_lanes))
