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
    _check(moved, (c * h * w, w, 1, h * w), c, layout)
    memory = (n, h * w, c // layout.block, layout.block)
    steps = (c * h * w, layout.block, h * w * layout.block, 1)
    arguments = tuple(_broadcast(expr, result, memory) for expr in op.arguments)
    strided = StridedMap(memory, Strides(math.prod(result), steps), op.epilogue, arguments)
    bindings = (InputBinding(source), *map(binder.plain, op.arguments))
    shapes = [layout.spec((n, c, h, w)).shape, *map(shape_of, op.arguments)]
    kernel = with_shapes(strided_kernel(strided, config.core), shapes, [result])
    return Choice(replace(kernel, order="rows"), bindings, PLAIN)


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
    block = layout.block
    memory = layout.spec(result).shape
    natural = (c * h * w, h * w * block, block, 1)
    kinds = {
        "full": Strides(math.prod(result), natural),
        "channel": Strides(c, (0, block, 0, 1)),
    }
    strides = Strides(math.prod(result), (c * h * w, block, c, 1))
    inputs = epilogue_inputs(op, binder, layout)
    arguments = tuple(kinds[kind] for kind in op.epilogue.arguments)
    strided = StridedMap(memory, strides, op.epilogue, arguments)
    specs = {"full": memory, "channel": layout.spec((1, c, 1, 1)).shape}
    shapes = [shape_of(source), *(specs[kind] for kind in op.epilogue.arguments)]
    kernel = with_shapes(strided_kernel(strided, core), shapes, [memory])
    return Choice(replace(kernel, order="channels"), (binder.plain(source), *inputs), layout)


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
