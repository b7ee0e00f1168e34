# SPDX-License-Identifier: Apache-2.0
"""Concatenation."""

from __future__ import annotations

from tvm import relax

from ...graph.operators import Operator
from ...graph.recognise import is_float32
from ...kernels.concat import concat_kernel
from ...kernels.layout import Layout
from ..feeds import Feeder, NoRule
from .base import Choice, Preferences, shape_of


def concat(op: Operator, feeder: Feeder, preferences: Preferences) -> Choice:
    """Concatenation of feature maps along the channels, some of them blocked."""
    core = preferences.core
    result, layout = shape_of(op.anchor), Layout(core.lanes)
    fields = list(op.anchor.args[0].fields) if isinstance(op.anchor.args[0], relax.Tuple) else []
    blocked = any(feeder.layout(field).block for field in fields)
    axis = op.anchor.attrs.axis
    if len(result) != 4 or axis is None or int(axis) % 4 != 1 or op.program.steps or not blocked:
        raise NoRule
    if not is_float32(op.anchor):
        raise NoRule
    channels = tuple(shape_of(field)[1] for field in fields)
    kernel = concat_kernel(result[0], channels, result[2] * result[3], layout)
    feeds = tuple(feeder.feature_map(field, layout) for field in fields)
    return Choice(kernel, feeds, layout)
