# SPDX-License-Identifier: Apache-2.0
"""Operators that only change the order of the channels of blocked feature maps."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tvm import relax

from ....graph.operators import Operator
from ....lowering.no_rule import NoRule, shape_of
from ....ops.strides import Strides
from ....ops.window import Window
from ....sizes.size import AnyShape, AnySize, hint_of, hints_of, is_open, known_equal
from ..kernels.layout import Layout
from ..kernels.maps.channels import Channel, channels_kernel, runs_of
from ..kernels.maps.planes import Planes
from .base import Choice, LoweringConfig, epilogue_inputs
from .bindings import InputBinder, InputBinding
from .strided import movement_of

_MOST_PATTERNS = 32  # blocks of a result, each with code of its own


def reordered(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Slice, shuffle or permute the channels of a blocked feature map; the result stays blocked.

    Raises
    ------
    NoRule
        If the operand is not blocked, or the operator affects other axes.
    """
    source, moved = op.call.args[0], movement_of(op)
    shape, result = shape_of(source), moved.shape
    if not binder.layout(source).block or len(result) != 4:
        raise NoRule
    if (shape[0], *shape[2:]) != (result[0], *result[2:]):
        raise NoRule
    channels = [(0, channel) for channel in _channels(moved.stored, moved.strides, shape)]
    return from_channels(op, [source], channels, binder, config)


def from_channels(
    op: Operator,
    sources: Sequence[relax.Expr],
    channels: Sequence[Channel],
    binder: InputBinder,
    config: LoweringConfig,
) -> Choice:
    """Gather the channels of feature maps of equal planes.

    Parameters
    ----------
    op : Operator
        The operator, whose epilogue is applied.
    sources : sequence of relax.Expr
        The feature maps.
    channels : sequence of Channel
        Where each channel of the result is found.
    binder : InputBinder
        Makes the input bindings.
    config : LoweringConfig
        The lowering config.

    Raises
    ------
    NoRule
        If the order is so irregular that the code would be long.
    """
    core, layout = config.core, Layout(config.core.lanes)
    if sum(len(run.lanes) for run in runs_of(channels, core.lanes)) > _MOST_PATTERNS:
        raise NoRule
    batch, _, *size = shape_of(sources[0])
    rows, columns = (Window(extent, extent, 1) for extent in size)
    planes = Planes("identity", batch, len(channels), rows, columns, epilogue=op.epilogue)
    counts = [shape_of(source)[1] for source in sources]
    maps: list[InputBinding] = [binder.feature_map(source, layout) for source in sources]
    kernel = channels_kernel(planes, counts, channels, layout, core)
    return Choice(kernel, (*maps, *epilogue_inputs(op, binder, layout)), layout)


def _channels(stored: AnyShape, strides: Strides, shape: AnyShape) -> list[int]:
    """Return the channels of ``[N, C, H, W]`` that a rearrangement takes, in its order.

    Raises
    ------
    NoRule
        If it affects other axes.
    """
    plane = math.prod(shape[2:])
    natural = (shape[1] * plane, shape[3], 1)
    outer = (stored[0], *stored[-2:]) == (shape[0], *shape[2:]) and len(stored) >= 4
    if not outer or is_open(stored[1:-2]):
        raise NoRule
    steps = strides.steps
    kept = zip((stored[0], *stored[-2:]), (steps[0], *steps[-2:]), natural, strict=True)
    if any(not known_equal(size, 1) and step != expected for size, step, expected in kept):
        raise NoRule
    places = np.array([_planes(strides.offset, plane)])
    for size, step in zip(hints_of(stored[1:-2]), steps[1:-2], strict=True):
        places = (places[:, None] + _planes(step, plane) * np.arange(size)).reshape(-1)
    return [int(place) for place in places]


def _planes(distance: AnySize, plane: AnySize) -> int:
    """Return how many planes a distance is."""
    count = hint_of(distance) // hint_of(plane)
    if not known_equal(distance, count * plane):
        raise NoRule
    return count
