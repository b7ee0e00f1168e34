# SPDX-License-Identifier: Apache-2.0
"""Concatenation in place: which parts of blocked feature maps need no copy.

Along the channels of blocked feature maps of one image, or of an open number of images, a
concatenation consists of its parts one after another, provided that each begins at a whole block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ....graph.operators import Operator
from ....lowering.implementation import Implementation
from ....lowering.inplace import Concatenation, Slots, parts_of, place
from ....relax_ir.expressions import static_shape
from ....sizes.size import is_open
from ..kernels.kernel import Kernel
from ..kernels.maps.concat import whole_blocks
from .base import CpuLoweredGraph
from .concat import copying

_BYTES = 4  # of a float32


def place_concatenations(lowered: CpuLoweredGraph) -> CpuLoweredGraph:
    """Remove the copies that concatenations do not need.

    If any operator is left to TVM's default lowering, nothing is placed: TVM's memory planning then
    decides where tensors lie.
    """
    if lowered.opaque:
        return lowered
    found = [_concatenation(lowered, op) for op in lowered.graph.operators]
    concatenations = [c for c in found if c is not None]

    def suits(concatenation: Concatenation, _slots: Slots) -> list[int]:
        formats = lowered.narrow
        whole = formats.get(concatenation.result)
        parts = enumerate(concatenation.parts)
        return [i for i, p in parts if p in lowered.layouts and formats.get(p) == whole]

    slots = place(concatenations, suits)
    implementations = list(lowered.implementations)
    for concatenation in concatenations:
        implementations[concatenation.op.index] = _copying(lowered, concatenation, slots)
    return replace(lowered, implementations=tuple(implementations), slots=slots)


def _concatenation(lowered: CpuLoweredGraph, op: Operator) -> Concatenation | None:
    """Return an operator that concatenates parts that begin at whole blocks, one after another."""
    if op.kind != "concat" or op.outputs[0] not in lowered.layouts:
        return None
    if int(op.call.attrs.axis) % len(static_shape(op.anchor, "a feature map")) != 1:
        return None
    parts, layout = parts_of(op), lowered.layouts[op.outputs[0]]
    shapes = [static_shape(part, "a feature map") for part in parts]
    if not parts or not whole_blocks(_channels(shapes), layout):
        return None
    if not is_open(shapes[0][:1]) and shapes[0][0] != 1:
        return None
    narrow = lowered.narrow.get(op.outputs[0])
    element = _BYTES if narrow is None else narrow.num_bytes
    return Concatenation(op, tuple(parts), tuple(math.prod(shape) * element for shape in shapes))


def _copying(
    lowered: CpuLoweredGraph, concatenation: Concatenation, slots: Slots
) -> Implementation[Kernel]:
    """Return the concatenation that copies the parts that are not in place."""
    op, copied = concatenation.op, concatenation.copied(slots)
    choice = copying(op, lowered.binder, lowered.config, copied)
    return lowered.implementation((op.index,), choice.kernel, choice.bindings, op.outputs)


def _channels(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(shape[1] for shape in shapes)
