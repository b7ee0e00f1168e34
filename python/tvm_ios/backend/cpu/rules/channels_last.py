# SPDX-License-Identifier: Apache-2.0
"""Permutations between blocked feature maps and rows of channels, vector by vector.

Networks that mix convolutions with layer normalisation or matrix products permute ``[N, C, H, W]``
to ``[N, H, W, C]`` and back. A block of a pixel's channels is contiguous in both, so that no
element changes its lane.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tvm import relax

from ....graph.operators import Operator
from ....graph.rearrange import Rearrangement
from ....lowering.no_rule import NoRule, shape_of
from ....ops.strides import Strides
from ....sizes.size import AnyShape, AnySize, known_equal
from ..kernels.compose import with_shapes
from ..kernels.layout import PLAIN, Layout
from ..kernels.rows.strided import strided_kernel
from ..kernels.rows.strided_axes import StridedMap
from .base import Choice, LoweringConfig, epilogue_inputs
from .bindings import InputBinder, InputBinding
from .strided import movement_of


def to_channels_last(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Permute a blocked feature map to row-major ``[N, H, W, C]``.

    Raises
    ------
    NoRule
        If the operand is not blocked, the last block is not full, or it is another permutation.
    """
    source, moved = op.call.args[0], movement_of(op)
    layout, result = binder.layout(source), moved.shape
    if not layout.block or len(result) != 4:
        raise NoRule
    n, h, w, c = result
    if not all(map(known_equal, shape_of(source), (n, c, h, w))):
        raise NoRule  # the strides of some permutations of other maps are the same
    _check(moved, (c * h * w, w, 1, h * w), c, layout)
    memory = (n, h * w, c // layout.block, layout.block)
    image = layout.spec((n, c, h, w))
    across, down, pixel, lane = image.steps
    steps = Strides(math.prod(result), (across, pixel, down, lane))
    arguments = tuple(_broadcast(expr, result, memory) for expr in op.arguments)
    strided = StridedMap(memory, steps, op.epilogue, arguments)
    bindings = (InputBinding(source), *map(binder.plain, op.arguments))
    shapes = [image.shape, *map(shape_of, op.arguments)]
    kernel = with_shapes(strided_kernel(strided, config.core), shapes, [result])
    inputs = (image, *kernel.inputs[1:])
    return Choice(replace(kernel, inputs=inputs, order="rows"), bindings, PLAIN)


def to_channels_first(op: Operator, binder: InputBinder, config: LoweringConfig) -> Choice:
    """Permute row-major ``[N, H, W, C]`` to a blocked feature map.

    Raises
    ------
    NoRule
        If the operand is blocked, the last block is not full, or it is another permutation.
    """
    source, moved, core = op.call.args[0], movement_of(op), config.core
    layout, result = Layout(core.lanes), moved.shape
    if binder.layout(source).block or len(result) != 4:
        raise NoRule
    _, c, h, w = result
    _check(moved, (c * h * w, 1, w * c, c), c, layout)
    image, block = layout.spec(result), layout.block
    axes = (0, 1, 2, 3) if image.strides is None else (1, 0, 2, 3)  # as they are in memory

    def along(steps: AnyShape, size: AnySize) -> Strides:
        return Strides(size, tuple(steps[axis] for axis in axes))

    size = math.prod(result)
    kinds = {"full": along(image.steps, size), "channel": along((0, block, 0, 1), c)}
    inputs = epilogue_inputs(op, binder, layout)
    arguments = tuple(kinds[kind] for kind in op.epilogue.arguments)
    memory = tuple(image.shape[axis] for axis in axes)
    steps = along((c * h * w, block, c, 1), size)
    kernel = strided_kernel(StridedMap(memory, steps, op.epilogue, arguments), core)
    specs = {"full": image, "channel": layout.spec((1, c, 1, 1))}
    read = [specs[kind] for kind in op.epilogue.arguments]
    shapes = [shape_of(source), *(spec.shape for spec in read)]
    kernel = with_shapes(kernel, shapes, [image.shape])
    kernel = replace(kernel, inputs=(kernel.inputs[0], *read), outputs=(image,), order="channels")
    return Choice(kernel, (binder.plain(source), *inputs), layout)


def _check(moved: Rearrangement, steps: tuple[int, ...], channels: int, layout: Layout) -> None:
    """Raise NoRule unless the permutation has these strides, and all blocks are full."""
    whole = moved.shape == moved.stored and not moved.strides.offset
    sizes = zip(moved.shape, moved.strides.steps, steps, strict=True)
    same = all(size == 1 or step == expected for size, step, expected in sizes)
    if not whole or not same or channels % layout.block:
        raise NoRule


def _broadcast(expr: relax.Expr, shape: tuple[int, ...], memory: tuple[int, ...]) -> Strides:
    """Return how an argument of an epilogue is read for each element of the result in memory."""
    argument = Rearrangement.of(shape_of(expr)).broadcast(shape).reshaped(memory)
    if argument.stored != memory:
        raise NoRule
    return argument.strides
