# SPDX-License-Identifier: Apache-2.0
"""Parts of tensors, and tensors of parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from tvm import relax

from ....sizes.arithmetic import largest, smallest
from ....sizes.size import AnySize, Size, is_open, known_equal
from ...emitter import constant, dtype_of, has_shape, shape_of
from ...onnx.operators.parts import concat, pad, picked, tile
from ...onnx.operators.table import Value
from ..node_emitter import AtenEmitter
from .table import operator


@operator("cat.default")
def cat(emit: AtenEmitter, tensors: Sequence[relax.Expr], axis: int) -> relax.Expr:
    """Join along an axis; vectors without elements fit any shape."""
    filled = [emit.operand(x) for x in tensors if not has_shape(x, [0])] or [tensors[0]]
    return concat(emit, *filled, axis=axis)


@operator("stack.default")
def stack(emit: AtenEmitter, tensors: Sequence[relax.Expr], axis: int) -> relax.Expr:
    axis = emit.axis(axis, len(emit.shape))
    shape = list(emit.shape)
    shape[axis] = 1
    return concat(emit, *(emit.reshape(emit.operand(x), shape) for x in tensors), axis=axis)


@operator("split_with_sizes.default")
def split_with_sizes(
    emit: AtenEmitter, data: relax.Expr, sizes: Sequence[AnySize], axis: int
) -> Value:
    axis = emit.axis(axis, len(shape_of(data)))
    emit.expect(len(sizes))
    ends = list(accumulate(sizes))
    if is_open(sizes) or 0 in sizes or len(sizes) == 1:
        return tuple(
            _slice(emit, data, axis, end - size, size, 1)
            for size, end in zip(sizes, ends, strict=True)
        )
    parts = emit(relax.op.split(data, ends[:-1], axis))
    return tuple(emit(relax.TupleGetItem(parts, i)) for i in range(len(sizes)))


@operator("split.Tensor")
def split(emit: AtenEmitter, data: relax.Expr, size: int, axis: int) -> Value:
    sizes = [emit.shape_of_result(i)[axis] for i in range(emit.num_outputs)]
    return split_with_sizes(emit, data, sizes, axis)


@operator("unbind.int")
def unbind(emit: AtenEmitter, data: relax.Expr, axis: int) -> Value:
    axis = emit.axis(axis, len(shape_of(data)))
    emit.expect(emit.num_outputs)
    return tuple(picked(emit, data, place, axis) for place in range(emit.num_outputs))


@operator("slice.Tensor")
def slice_(
    emit: AtenEmitter,
    data: relax.Expr,
    axis: int,
    begin: AnySize | None,
    end: AnySize | None,
    step: int,
) -> relax.Expr:
    axis = emit.axis(axis, len(shape_of(data)))
    length, count = shape_of(data)[axis], emit.shape[axis]
    return _slice(emit, data, axis, _first(begin, end, step, length), count, step)


def _first(begin: AnySize | None, end: AnySize | None, step: int, length: AnySize) -> AnySize:
    """Return the place of the first element of a slice that has one."""
    if not isinstance(length, Size) and not isinstance(begin, Size):
        return slice(begin, None, step).indices(length)[0]
    return largest(0, from_begin(0 if begin is None else begin, length))


def from_begin(place: AnySize, length: AnySize) -> AnySize:
    """Return a place, which counts from the end if it is negative, from the begin."""
    return place + length if place < 0 else place


def _slice(
    emit: AtenEmitter, data: relax.Expr, axis: int, begin: AnySize, count: AnySize, step: int
) -> relax.Expr:
    """Return elements along an axis: the first one, how many, and how far they are apart."""
    if count == 0:
        shape = list(shape_of(data))
        shape[axis] = 0
        return emit.full(shape, 0, dtype_of(data))
    if known_equal(count, shape_of(data)[axis]):
        return data
    return emit.slice(data, axis, begin, begin + (count - 1) * step + 1, step)


@operator("narrow.default")
def narrow(
    emit: AtenEmitter, data: relax.Expr, axis: int, begin: AnySize, size: AnySize
) -> relax.Expr:
    axis = emit.axis(axis, len(shape_of(data)))
    return _slice(emit, data, axis, from_begin(begin, shape_of(data)[axis]), size, 1)


@operator("select.int")
def select(emit: AtenEmitter, data: relax.Expr, axis: int, place: AnySize) -> relax.Expr:
    axis = emit.axis(axis, len(shape_of(data)))
    return picked(emit, data, from_begin(place, shape_of(data)[axis]), axis)


@operator("select_scatter.default")
def select_scatter(
    emit: AtenEmitter, data: relax.Expr, source: relax.Expr, axis: int, place: int
) -> relax.Expr:
    """Return the data with another part at a place of an axis."""
    shape = list(shape_of(data))
    axis = emit.axis(axis, len(shape))
    part = emit.reshape(emit.operand(source), [*shape[:axis], 1, *shape[axis + 1 :]])
    return _with_run(emit, data, part, axis, from_begin(place, shape[axis]), 1)


@operator("slice_scatter.default")
def slice_scatter(
    emit: AtenEmitter,
    data: relax.Expr,
    source: relax.Expr,
    axis: int,
    begin: int | None,
    end: int | None,
    step: int,
) -> relax.Expr:
    """Return the data with other elements in a slice."""
    axis = emit.axis(axis, len(shape_of(data)))
    length, part = shape_of(data)[axis], emit.operand(source)
    if not is_open([length]):
        places = range(*slice(begin, end, step).indices(length))
        return replaced(emit, data, part, axis, list(places))
    if step != 1:
        raise emit.error("replaces parts of an open axis, which is not supported.")
    first = _first(begin, end, step, length)
    last = smallest(length if end is None else from_begin(end, length), length)
    return _with_run(emit, data, part, axis, first, last - first)


def _with_run(
    emit: AtenEmitter,
    data: relax.Expr,
    part: relax.Expr,
    axis: int,
    first: AnySize,
    count: AnySize,
) -> relax.Expr:
    """Return the data with a part in place of elements that follow each other."""
    shape = shape_of(data)
    length, last = shape[axis], first + count
    part = emit.broadcast(part, [*shape[:axis], count, *shape[axis + 1 :]])
    pieces = [emit.slice(data, axis, 0, first)] if first else []
    pieces += [part]
    pieces += [] if known_equal(last, length) else [emit.slice(data, axis, last, length)]
    return concat(emit, *pieces, axis=axis)


def replaced(
    emit: AtenEmitter, data: relax.Expr, part: relax.Expr, axis: int, places: list[int]
) -> relax.Expr:
    """Return the data with a part at places of an axis, which follow each other or have gaps."""
    shape = shape_of(data)
    length = shape[axis]
    part = emit.broadcast(part, [*shape[:axis], len(places), *shape[axis + 1 :]])
    if not places:
        return data
    if len(places) == places[-1] + 1 - places[0]:
        return _with_run(emit, data, part, axis, places[0], len(places))
    joined = concat(emit, data, part, axis=axis)
    order = np.arange(length)
    order[places] = length + np.arange(len(places))
    return emit(relax.op.take(joined, constant(order.astype("int64")), axis))


@operator("repeat.default", "tile.default")
def repeat(emit: AtenEmitter, data: relax.Expr, counts: Sequence[AnySize]) -> relax.Expr:
    if 0 in emit.shape:
        return emit.full(emit.shape, 0, dtype_of(data))
    shape = shape_of(data)
    ndim = max(len(shape), len(counts))
    data = emit.reshape(data, [*[1] * (ndim - len(shape)), *shape])
    times = [*[1] * (ndim - len(counts)), *counts]
    return tile(emit, data, emit.sizes(times)) if ndim else data


@operator("constant_pad_nd.default")
def constant_pad(
    emit: AtenEmitter, data: relax.Expr, widths: Sequence[AnySize], value: float
) -> relax.Expr:
    return _padded(emit, data, widths, "constant", relax.const(value, dtype_of(data)))


@operator("reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default")
def reflection_pad(emit: AtenEmitter, data: relax.Expr, widths: Sequence[AnySize]) -> relax.Expr:
    return _padded(emit, data, widths, "reflect")


@operator("replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default")
def replication_pad(emit: AtenEmitter, data: relax.Expr, widths: Sequence[AnySize]) -> relax.Expr:
    return _padded(emit, data, widths, "edge")


def _padded(
    emit: AtenEmitter, data: relax.Expr, widths: Sequence[AnySize], mode: str, *value: Any
) -> relax.Expr:
    """Pad; PyTorch has the numbers of the last axis first."""
    ndim = len(shape_of(data))
    axes = [ndim - 1 - i for i in range(len(widths) // 2)]
    pads = emit.sizes([*widths[0::2], *widths[1::2]])
    filler = value[0] if value else None
    return pad(emit, data, pads, filler, constant(np.array(axes, "int64")), mode=mode)


@operator("roll.default")
def roll(
    emit: AtenEmitter, data: relax.Expr, shifts: Sequence[int], axes: Sequence[int]
) -> relax.Expr:
    shape = list(shape_of(data))
    if not axes:
        rolled = _rolled(emit, emit.reshape(data, [math.prod(shape)]), shifts[0], 0)
        return emit.reshape(rolled, shape)
    for shift, axis in zip(shifts, axes, strict=True):
        data = _rolled(emit, data, shift, emit.axis(axis, len(shape)))
    return data


def _rolled(emit: AtenEmitter, data: relax.Expr, shift: int, axis: int) -> relax.Expr:
    length = shape_of(data)[axis]
    first = -shift % length if length else 0
    if not first:
        return data
    parts = [emit.slice(data, axis, first, length), emit.slice(data, axis, 0, first)]
    return concat(emit, *parts, axis=axis)
