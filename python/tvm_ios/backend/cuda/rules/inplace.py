# SPDX-License-Identifier: Apache-2.0
"""Concatenation in place: which parts of feature maps need no copy.

With the channels last, a part of a concatenation is a range of channels of each pixel. Kernels that
compute or read such a part access a slice of the concatenated tensor.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from itertools import accumulate

import tvm
from tvm import relax, te, tirx

from ....graph.operators import Operator, OperatorGraph
from ....lowering.implementation import Implementation
from ....lowering.inplace import Concatenation, Slots, parts_of, place, resolve
from ....lowering.no_rule import NoRule
from ....relax_ir.expressions import static_shape
from ..kernels.contiguity import MAX_BYTES
from ..kernels.kernel import CudaKernel
from ..kernels.slices import ChannelSlice, within_slices

_CHANNELS = 1
"""The axis of channels in Relax."""

_EVERY_BYTE = range(2**31)


def place_concatenations(
    graph: OperatorGraph, layouts: Mapping[relax.Var, str], results: Collection[relax.Var]
) -> Slots:
    """Return the slots of values that are computed in place.

    Results of the network and its parameters keep tensors of their own, whose memory belongs to the
    caller.
    """
    computed = {value for op in graph.operators for value in op.outputs} & layouts.keys()

    def suits(concatenation: Concatenation, slots: Slots) -> list[int]:
        parts, places = concatenation.parts, concatenation.places(slots)
        result = concatenation.result
        if result in slots and (result in results or not _aligned(result, *resolve(result, slots))):
            return []
        suitable = [
            part in computed and part not in results and _aligned(part, root, offset)
            for part, (root, offset) in zip(parts, places, strict=True)
        ]
        taken = [
            part in slots and resolve(part, slots) != there
            for part, there in zip(parts, places, strict=True)
        ]
        copied = [
            i
            for i in range(len(parts))
            if not suitable[i] or taken[i] or sum(map(parts[i].same_as, parts)) > 1
        ]
        span = range(copied[0], copied[-1] + 1) if copied else ()  # that one kernel copies
        return [i for i in range(len(parts)) if i not in span]

    return place((c for op in graph.operators if (c := concatenation_of(op, layouts))), suits)


def concatenation_of(op: Operator, layouts: Mapping[relax.Var, str]) -> Concatenation | None:
    """Return an operator as a concatenation of channels; None if it is something else."""
    if op.opaque or op.kind != "concat" or len(op.bindings) != 1 or op.outputs[0] not in layouts:
        return None
    parts, axis = parts_of(op), op.call.attrs.axis
    if axis is None or int(axis) % 4 != _CHANNELS or not parts:
        return None
    return Concatenation(op, tuple(parts), tuple(map(_pixel_bytes, parts)))


def slice_of(value: relax.Var, slots: Slots) -> ChannelSlice | None:
    """Return where a value lies in a larger tensor; None if it has a tensor of its own."""
    if value not in slots:
        return None
    root, offset = resolve(value, slots)
    return ChannelSlice(offset // _element_bytes(value), _channels(root))


def bytes_of(value: relax.Var, slots: Slots) -> range:
    """Return which bytes of each pixel of the tensor that holds a value are the value."""
    if value not in slots:
        return _EVERY_BYTE
    _, begin = resolve(value, slots)
    return range(begin, begin + _pixel_bytes(value))


def copied_parts(
    concatenation: Concatenation, slots: Slots
) -> tuple[tirx.PrimFunc, tuple[relax.Expr, ...]]:
    """Return the function that copies the parts that are not in place, and these parts.

    Raises
    ------
    NoRule
        If there are none.
    """
    copied = concatenation.copied(slots)
    if not copied:
        raise NoRule
    parts = concatenation.parts[copied[0] : copied[-1] + 1]
    assert len(parts) == len(copied), "the parts that are copied lie side by side"
    result = concatenation.result
    whole = slice_of(result, slots) or ChannelSlice(0, _channels(result))
    before = concatenation.offsets[copied[0]] // _element_bytes(result)
    slices = {i: s for i, part in enumerate(parts) if (s := slice_of(part, slots)) is not None}
    slices[len(parts)] = ChannelSlice(whole.begin + before, whole.total)
    return within_slices(_side_by_side(parts), slices), parts


def in_place(op: Operator) -> Implementation[CudaKernel]:
    """Return the implementation of a concatenation whose parts are all in place."""
    kernel = CudaKernel("concat", ("in place",), (), (), function=None)
    return Implementation((op.index,), kernel, (), op.outputs)


def _side_by_side(parts: tuple[relax.Expr, ...]) -> tirx.PrimFunc:
    """Build the function that writes feature maps side by side along the last axis."""
    images, _, rows, columns = static_shape(parts[0], "a feature map")
    sources = [
        te.placeholder((images, rows, columns, _channels(part)), str(part.ty.dtype), f"p{i}")
        for i, part in enumerate(parts)
    ]

    def element(image: tirx.Var, row: tirx.Var, column: tirx.Var, channel: tirx.Var) -> tvm.ir.Expr:
        value = sources[0](image, row, column, channel)
        for source, begin in zip(sources[1:], accumulate(map(_channels, parts)), strict=False):
            there = source(image, row, column, channel - begin)
            value = tirx.if_then_else(channel >= begin, there, value)
        return value

    total = sum(map(_channels, parts))
    result = te.compute((images, rows, columns, total), element, "concatenated")
    return te.create_prim_func([*sources, result])


def _aligned(part: relax.Expr, root: relax.Var, offset: int) -> bool:
    """Return whether a slice can be accessed in vectors as wide as those of a whole tensor."""
    widest = math.gcd(MAX_BYTES, _pixel_bytes(part))
    return offset % widest == 0 and _pixel_bytes(root) % widest == 0


def _pixel_bytes(value: relax.Expr) -> int:
    return _channels(value) * _element_bytes(value)


def _channels(value: relax.Expr) -> int:
    return static_shape(value, "a feature map")[_CHANNELS]


def _element_bytes(value: relax.Expr) -> int:
    return max(1, tvm.DataType(str(value.ty.dtype)).bits // 8)
