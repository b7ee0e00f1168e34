# SPDX-License-Identifier: Apache-2.0
"""Concatenation."""

from __future__ import annotations

from tvm import relax

from ....graph.operators import Operator
from ....graph.recognise import is_float32
from ...shared.no_rule import NoRule, shape_of
from ..kernels.concat import concat_kernel
from ..kernels.layout import Layout
from .base import Choice, Preferences
from .feeds import Feeder


def concat(op: Operator, feeder: Feeder, preferences: Preferences) -> Choice:
    """Concatenation of feature maps along the channels, some of them blocked."""
    result, fields = shape_of(op.anchor), parts(op)
    blocked = any(feeder.layout(field).block for field in fields)
    axis = op.call.attrs.axis
    if len(result) != 4 or axis is None or int(axis) % 4 != 1 or not blocked:
        raise NoRule
    if not is_float32(op.anchor):
        raise NoRule
    return copying(op, feeder, preferences, tuple(range(len(fields))))


def copying(
    op: Operator, feeder: Feeder, preferences: Preferences, copied: tuple[int, ...]
) -> Choice:
    """The concatenation when only the parts ``copied`` are not in place already."""
    result, layout = shape_of(op.anchor), Layout(preferences.core.lanes)
    fields = parts(op)
    channels = tuple(shape_of(field)[1] for field in fields)
    kernel = concat_kernel(result[0], channels, result[2] * result[3], layout, copied)
    feeds = tuple(feeder.feature_map(fields[i], layout) for i in copied)
    return Choice(kernel, feeds, layout)


def parts(op: Operator) -> list[relax.Expr]:
    """What is concatenated; nothing where the tuple is not written out."""
    operand = op.call.args[0]
    return list(operand.fields) if isinstance(operand, relax.Tuple) else []
