# SPDX-License-Identifier: Apache-2.0
"""Sequences of tensors, whose lengths and places are constant."""

from __future__ import annotations

from tvm import relax

from ...emitter import shape_of
from ..node_emitter import NodeEmitter
from .table import TAKES, Value, operator

Tensors = tuple[relax.Expr, ...]


@operator("SequenceConstruct")
def sequence_construct(emit: NodeEmitter, *tensors: relax.Expr) -> Value:
    return (tuple(tensors),)


@operator("SequenceEmpty")
def sequence_empty(emit: NodeEmitter, *, dtype: int = 1) -> Value:
    return ((),)


@operator("SequenceAt")
def sequence_at(emit: NodeEmitter, sequence: Tensors, position: relax.Expr) -> relax.Expr:
    return sequence[_place(emit, position, len(sequence))]


@operator("SequenceErase")
def sequence_erase(
    emit: NodeEmitter, sequence: Tensors, position: relax.Expr | None = None
) -> Value:
    place = len(sequence) - 1
    if position is not None:
        place = _place(emit, position, len(sequence))
    return (sequence[:place] + sequence[place + 1 :],)


@operator("SequenceInsert")
def sequence_insert(
    emit: NodeEmitter,
    sequence: Tensors,
    tensor: relax.Expr,
    position: relax.Expr | None = None,
) -> Value:
    place = len(sequence)
    if position is not None:
        place = _place(emit, position, len(sequence), 1)
    return ((*sequence[:place], tensor, *sequence[place:]),)


@operator("SequenceLength")
def sequence_length(emit: NodeEmitter, sequence: Tensors) -> relax.Expr:
    return relax.const(len(sequence), "int64")


@operator("ConcatFromSequence")
def concat_from_sequence(
    emit: NodeEmitter, sequence: Tensors, *, axis: int, new_axis: int = 0
) -> relax.Expr:
    if not sequence:
        raise emit.error("joins an empty sequence.")
    ndim = len(shape_of(sequence[0]))
    if new_axis:
        return emit(relax.op.stack(list(sequence), emit.axis(axis, ndim + 1)))
    if len(sequence) == 1:
        return sequence[0]
    return emit(relax.op.concat(list(sequence), emit.axis(axis, ndim)))


@operator("SplitToSequence")
def split_to_sequence(
    emit: NodeEmitter,
    data: relax.Expr,
    split: relax.Expr | None = None,
    *,
    axis: int = 0,
    keepdims: int = 1,
) -> Value:
    """Split into parts of given sizes, of one size, or of one element each."""
    axis = emit.axis(axis, len(shape_of(data)))
    length = shape_of(data)[axis]
    sizes = [1] * length
    if split is not None:
        given = emit.integers(split, "the sizes of its parts")
        sizes = given if shape_of(split) else _chunks(length, given[0])
    emit.expect(len(sizes))
    parts, begin = [], 0
    for size in sizes:
        part = emit.slice(data, axis, begin, begin + size)
        if split is None and not keepdims:
            shape = shape_of(part)
            part = emit.reshape(part, [*shape[:axis], *shape[axis + 1 :]])
        parts.append(part)
        begin += size
    return (tuple(parts),)


def _chunks(length: int, size: int) -> list[int]:
    return [min(size, length - begin) for begin in range(0, length, size)]


def _place(emit: NodeEmitter, position: relax.Expr, length: int, beyond: int = 0) -> int:
    place = int(emit.number(position, "its position"))
    if not -length <= place < length + beyond:
        raise emit.error(f"has position {place} in a sequence of {length}.")
    return place + length if place < 0 else place


@operator("Optional", narrow=TAKES)
def optional(emit: NodeEmitter, value: Value = None, *, type: object = None) -> Value:
    return (value,)


@operator("OptionalHasElement", narrow=TAKES)
def optional_has_element(emit: NodeEmitter, value: Value = None) -> relax.Expr:
    return relax.const(value is not None, "bool")


@operator("OptionalGetElement", narrow=TAKES)
def optional_get_element(emit: NodeEmitter, value: Value) -> Value:
    if value is None:
        raise emit.error("takes the element of an empty optional.")
    return (value,)
