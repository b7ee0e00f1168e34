# SPDX-License-Identifier: Apache-2.0
"""Quantised networks: values on a grid, and the convolutions that multiply their integers.

A value whose operator ends with ``clip(round(x), low, high) * scale`` is one of at most 256
multiples of a scale. It is stored as a byte if a convolution by weights on a grid reads it. That
one multiplies and adds integers, exactly, and its first step after that is the product of both
scales. Other operators compute in float32.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
from tvm import relax

from ....graph.fold import constant_array
from ....graph.operators import Operator, OperatorGraph
from ....schedule.rounding import QUADS
from ....tir.epilogue import Epilogue, Operand, Step
from ....tir.int8 import Grid
from ...shared.no_rule import shape_of
from ..kernels.conv2d import conv2d_kernel
from ..kernels.conv2d_shape import Conv2d
from ..kernels.layout import Layout, pack_lowest, pack_quads
from .base import Choice, LoweringConfig
from .bindings import InputBinder, InputBinding

_LARGEST = 127  # of the integers that weights are
_MOVING = ("concat", "max_pool2d", "strided_slice")
_SAMPLE = 16  # weights of a channel that tell most grids apart
_EXACT = 1e-4  # distance from an integer that rounding explains


def grid_of(epilogue: Epilogue) -> Grid | None:
    """Return the grid that an epilogue's result is on; None if it is on none of 256 values."""
    steps, scale = list(epilogue.steps), 1.0
    factor = _constants(steps, "multiply")
    if factor is not None and len(factor) == 1:
        scale = factor[0]
        steps.pop()
    limits = _constants(steps, "clip")
    if limits is None or len(steps) < 2 or steps[-2].op != "round":
        return None
    low, high = limits
    whole = low == int(low) and high == int(high) and 0 <= high - low <= 255
    if not whole or not np.finfo("float32").tiny <= scale < np.inf:
        return None
    return Grid(scale, int(low))


def _constants(steps: list[Step], op: str) -> list[float] | None:
    """Return the constants of the last step if it is ``op`` of the value before and of those."""
    if not steps or steps[-1].op != op:
        return None
    values = [operand for operand in steps[-1].operands if operand.kind != "constant"]
    if values != [Operand("value", len(steps) - 1)]:
        return None
    return [operand.index for operand in steps[-1].operands if operand.kind == "constant"]


def stored_on_grids(
    graph: OperatorGraph, config: LoweringConfig, wide: Collection[relax.Var]
) -> dict[relax.Var, Grid]:
    """Return the values that are stored as bytes.

    Parameters
    ----------
    graph : OperatorGraph
        The operators.
    config : LoweringConfig
        The lowering config.
    wide : collection of relax.Var
        Values that must be float32.
    """
    if not config.quads:
        return {}
    grids: dict[relax.Var, Grid] = {}
    for op in graph.operators:
        grid = _grid_of_parts(op, grids) if _moves(op) else grid_of(op.epilogue)
        if grid is not None and len(op.outputs) == 1 and op.outputs[0] not in wide:
            grids[op.outputs[0]] = grid
    read = {op.call.args[0] for op in graph.operators if _may_multiply(op, config, grids)}
    for op in reversed(graph.operators):  # readers before producers
        if _moves(op) and read.intersection(op.outputs):
            read.update(value for value in op.inputs if value in grids)
    return {value: grid for value, grid in grids.items() if value in read}


def _moves(op: Operator) -> bool:
    """Return whether all elements of an operator's results are elements of its inputs."""
    return op.kind in _MOVING and not op.epilogue.steps


def _grid_of_parts(op: Operator, grids: Mapping[relax.Var, Grid]) -> Grid | None:
    """Return the grid that all inputs are on; None if they are on none or on several."""
    found = {grids.get(value) for value in op.inputs}
    return found.pop() if len(found) == 1 else None


def _may_multiply(op: Operator, config: LoweringConfig, grids: Collection[relax.Var]) -> bool:
    return (
        op.kind == "conv2d"
        and not op.opaque
        and op.call.args[0] in grids
        and multiplied(op, config) is not None
    )


def multiplied(op: Operator, config: LoweringConfig) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the integers of a convolution's weights, and the scale of each result's channel.

    None if the convolution computes in float32.
    """
    variant = config.variants.get(op.name)
    if not config.quads or variant not in (None, QUADS):
        return None
    groups, lanes = int(op.call.attrs.groups), config.core.lanes
    channels, results = shape_of(op.call.args[0])[1], shape_of(op.call)[1]
    if groups > 1 and (channels // groups % lanes or results // groups % lanes):
        return None
    weights = constant_array(op.call.args[1])
    return None if weights is None else integers_of(weights)


def integers_of(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the integers that weights are multiples of, by each channel of the result.

    Parameters
    ----------
    weights : numpy.ndarray
        float32 ``[K, C / groups, R, S]``.

    Returns
    -------
    (numpy.ndarray, numpy.ndarray) or None
        int8 of -127 to 127, and float32 ``[K]``: their product is the weights, but for rounding.
        None if there are none.
    """
    rows = weights.reshape(len(weights), -1)
    largest = np.abs(rows).max(axis=1)
    if weights.dtype != np.float32 or not np.isfinite(largest).all():
        return None
    samples = rows[:, :: max(1, rows.shape[1] // _SAMPLE)]
    scales = np.where(largest > 0, 0.0, 1.0).astype("float32")
    for count in range(1, _LARGEST + 1):
        scale = largest / np.float32(count)
        open_ = np.flatnonzero(scales == 0)
        likely = open_[_on_grid(samples[open_], scale[open_])]
        sure = likely[_on_grid(rows[likely], scale[likely])]
        scales[sure] = scale[sure]
        if (scales > 0).all():
            integers = np.rint(rows / scales[:, None]).astype("int8")
            return integers.reshape(weights.shape), scales
    return None


def _on_grid(rows: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Return which rows are multiples of their scales."""
    quotients = rows / scales[:, None]
    return np.abs(quotients - np.rint(quotients)).max(axis=1, initial=0.0) < _EXACT


def convolve_quads(
    op: Operator,
    conv: Conv2d,
    arguments: tuple[InputBinding, ...],
    binder: InputBinder,
    config: LoweringConfig,
) -> Choice | None:
    """Return the kernel of a convolution of bytes; None if its operands are no bytes.

    Parameters
    ----------
    op : Operator
        The convolution.
    conv : Conv2d
        Its geometry.
    arguments : tuple of InputBinding
        Of its epilogue.
    binder : InputBinder
        Makes the bindings.
    config : LoweringConfig
        The lowering config.
    """
    data, core = op.call.args[0], config.core
    grid, found = binder.format(data), multiplied(op, config)
    if not isinstance(grid, Grid) or found is None:
        return None
    integers, scales = found
    layout = Layout(core.lanes)
    conv = replace(conv, epilogue=_scaled(conv.epilogue))
    kernel = conv2d_kernel(conv, layout, layout, core, factors="quads", low=grid.low)
    bindings = [
        binder.on_grid(data, layout, grid),
        InputBinding(pack_quads(integers, layout.block, core.lanes, conv.groups)),
        *([InputBinding(pack_lowest(integers, grid.low, core.lanes))] if grid.low else []),
        *arguments,
        InputBinding(layout.pack((scales * np.float32(grid.scale)).reshape(1, -1, 1, 1))),
    ]
    return Choice(replace(kernel, variant=QUADS), tuple(bindings), layout)


def _scaled(epilogue: Epilogue) -> Epilogue:
    """Return an epilogue that multiplies by one more argument, of each channel, first."""
    factor = Operand("argument", len(epilogue.arguments))
    first = Step("multiply", (Operand("value", 0), factor))

    def later(operand: Operand) -> Operand:
        return replace(operand, index=operand.index + 1) if operand.kind == "value" else operand

    steps = (replace(s, operands=tuple(map(later, s.operands))) for s in epilogue.steps)
    return Epilogue((first, *steps), (*epilogue.arguments, "channel"))
