# SPDX-License-Identifier: Apache-2.0
"""Attention of several heads."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ....graph.operators import Operator
from ....lowering.no_rule import NoRule, shape_of
from ....lowering.value import Value
from ....relax_ir.constants import constant_array
from ....relax_ir.expressions import is_float32
from ....schedule.rounding import BF16
from ....sizes.arithmetic import largest, smallest
from ....sizes.size import AnyShape, AnySize, is_open, known_equal
from ..kernels.attention.attention import MOST_DEPTH, attention_kernel, pack_bias
from ..kernels.attention.strip import Attention, Bias
from ..kernels.layout import PLAIN
from ..kernels.winograd.model import variant_name
from .base import Choice, LoweringConfig, epilogue_inputs, row_major
from .bindings import InputBinder, InputBinding
from .precision import rounds_operands


def attention(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Compute an attention; a bias that differs between queries must be constant.

    Raises
    ------
    NoRule
        If a tensor is empty or not of float32, its heads are large or shared, the window slides,
        a computed bias differs between queries, or a size of the heads is open.
    """
    attrs, operands = op.call.attrs, op.call.args[:3]
    (batch, queries, heads, depth), keys, values = (shape_of(operand) for operand in operands)
    if is_open((heads, depth, *keys[2:], *values[2:])):
        raise NoRule
    shared = keys[2] != heads or values[2] != heads
    if not all(map(is_float32, op.call.args)) or attrs.window_size is not None or shared:
        raise NoRule
    if max(depth, values[3]) > MOST_DEPTH or 0 in (batch, queries, heads, depth, *values):
        raise NoRule
    scale = 1 / math.sqrt(depth) if attrs.scale is None else float(attrs.scale.value)
    bias = _bias(op, queries, keys[1])
    shape = None if bias is None else bias.shape if isinstance(bias, np.ndarray) else shape_of(bias)
    found = Attention(
        batch,
        heads,
        queries,
        keys[1],
        depth,
        values[3],
        scale,
        None if shape is None else _shape_of_bias(shape),
        op.epilogue,
        _visible(op, queries, keys[1]),
    )
    bf16 = rounds_operands(op, config)
    bindings = (
        *(binder.bf16(x, PLAIN) if bf16 else binder.plain(x) for x in operands),
        *_bound(bias, binder, config.core.lanes),
        *epilogue_inputs(op, binder, PLAIN),
    )
    kernel = attention_kernel(found, config.core, "pairs" if bf16 else "single")
    if config.precision != "fp32":
        kernel = replace(kernel, variant=BF16 if bf16 else variant_name(None))
    return row_major(kernel, bindings, op)


def _shape_of_bias(shape: AnyShape) -> Bias:
    batch, heads, queries, _ = shape
    return Bias(batch, heads, of_queries=not known_equal(queries, 1))


def _visible(op: Operator, queries: AnySize, keys: AnySize) -> AnySize | None:
    """Return how many keys more than its number a query sees; None if :func:`_bias` says it."""
    mask = op.call.attrs.causal_mask
    if mask is None or not is_open((queries, keys)):
        return None
    return 1 if str(mask) == "TopLeft" else largest(queries, keys) - smallest(queries, keys) + 1


def _bias(op: Operator, queries: AnySize, keys: AnySize) -> Value | None:
    """Return what is added to the scores; a causal mask is infinite where it hides a key.

    That of an open attention is no bias.
    """
    bias = op.call.args[3] if len(op.call.args) > 3 else None
    array = None if bias is None else constant_array(bias)
    mask = op.call.attrs.causal_mask
    if bias is not None and array is None:
        masked = mask is not None and not is_open((queries, keys))
        if masked or not known_equal(shape_of(bias)[2], 1):
            raise NoRule
        return bias
    if mask is None or is_open((queries, keys)):
        return array
    after = {"TopLeft": 0, "BottomRight": abs(queries - keys)}[str(mask)]
    hidden = np.triu(np.full((1, 1, queries, keys), -np.inf, "float32"), after + 1)
    return hidden if array is None else array + hidden


def _bound(bias: Value | None, binder: InputBinder, lanes: int) -> tuple[InputBinding, ...]:
    if bias is None:
        return ()
    if isinstance(bias, np.ndarray):
        return (InputBinding(pack_bias(bias, lanes) if bias.shape[2] > 1 else bias),)
    return (binder.plain(bias),)
