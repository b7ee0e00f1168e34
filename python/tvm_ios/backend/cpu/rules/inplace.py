# SPDX-License-Identifier: Apache-2.0
"""Concatenation in place: producers write directly into the concatenated tensor.

Along the channels of blocked feature maps of one image, a concatenation consists of its parts one
after another, provided that each begins at a whole block. Such a part needs no tensor of its own:
it occupies a slot of the concatenation, and nothing is copied. A part can occupy one slot only, so
the largest of several concatenations gets it. A concatenation whose parts already lie side by side
in the right order becomes a slot itself. DenseNet is an example: each of its layers concatenates a
prefix of what the last layer concatenates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tvm import relax

from ....graph.operators import Operator
from ....graph.recognise import static_shape
from ...shared.implementation import Implementation, Slot
from ..kernels.concat import whole_blocks
from ..kernels.kernel import Kernel
from .base import CpuLoweredGraph
from .concat import copying, parts

_BYTES, _NARROW_BYTES = 4, 2  # of a float32, and of a bfloat16


def place_concatenations(lowered: CpuLoweredGraph) -> CpuLoweredGraph:
    """Remove the copies that concatenations do not need.

    If any operator is left to TVM's default lowering, nothing is placed: TVM's memory planning then
    decides where tensors lie.
    """
    if lowered.opaque:
        return lowered
    concats = [op for op in lowered.graph.operators if _placeable(lowered, op)]
    slots: dict[relax.Var, Slot] = {}
    for op in sorted(concats, key=lambda op: (-_size(op.anchor), -op.index)):
        _place(lowered, op, slots)
    implementations = list(lowered.implementations)
    for op in concats:
        implementations[op.index] = _copying(lowered, op, slots)
    return replace(lowered, implementations=tuple(implementations), slots=slots)


def resolve(value: relax.Var, slots: Mapping[relax.Var, Slot]) -> tuple[relax.Var, int]:
    """Return the value whose tensor ``value`` lies in, and its byte offset there."""
    offset = 0
    while value in slots:
        offset += slots[value].offset
        value = slots[value].target
    return value, offset


def _placeable(lowered: CpuLoweredGraph, op: Operator) -> bool:
    """Return whether ``op`` concatenates parts of one image that begin at whole blocks."""
    if op.kind != "concat" or op.outputs[0] not in lowered.layouts:
        return False
    fields, layout = parts(op), lowered.layouts[op.outputs[0]]
    shapes = [static_shape(field, "a feature map") for field in fields]
    return bool(fields) and shapes[0][0] == 1 and whole_blocks(_channels(shapes), layout)


def _place(lowered: CpuLoweredGraph, op: Operator, slots: dict[relax.Var, Slot]) -> None:
    """Assign slots to the parts of ``op``, or one to ``op`` itself if they have theirs."""
    (result,), fields = op.outputs, parts(op)
    offsets = _offsets(lowered, op)
    placed = [resolve(field, slots) if field in slots else None for field in fields]
    first = placed[0]
    if (
        result not in slots
        and first is not None
        and placed == [(first[0], first[1] + o) for o in offsets]
    ):
        slots[result] = Slot(*first)
        return
    for field, offset in zip(fields, offsets, strict=True):
        computed_here = field in lowered.layouts
        alike = (field in lowered.narrow) == (result in lowered.narrow)
        once = sum(other is field or other.same_as(field) for other in fields) == 1
        if computed_here and alike and once and field not in slots:
            slots[field] = Slot(result, offset)


def _copying(
    lowered: CpuLoweredGraph, op: Operator, slots: Mapping[relax.Var, Slot]
) -> Implementation[Kernel]:
    """Return the concatenation that copies the parts that are not in place."""
    fields = parts(op)
    there = resolve(op.outputs[0], slots)
    copied = tuple(
        i
        for i, (field, offset) in enumerate(zip(fields, _offsets(lowered, op), strict=True))
        if field not in slots or resolve(field, slots) != (there[0], there[1] + offset)
    )
    choice = copying(op, lowered.binder, lowered.config, copied)
    return lowered.implementation((op.index,), choice.kernel, choice.bindings, op.outputs)


def _offsets(lowered: CpuLoweredGraph, op: Operator) -> list[int]:
    """Return the byte at which each part begins; all but the last fill their blocks."""
    element = _NARROW_BYTES if op.outputs[0] in lowered.narrow else _BYTES
    sizes = [_size(field) * element for field in parts(op)]
    return [sum(sizes[:i]) for i in range(len(sizes))]


def _size(expr: relax.Expr) -> int:
    return math.prod(static_shape(expr, "a feature map"))


def _channels(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(shape[1] for shape in shapes)
