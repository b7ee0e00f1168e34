# SPDX-License-Identifier: Apache-2.0
"""Parts of tensors, and tensors of parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax

from ...emitter import constant, dtype_of, shape_of
from ...onnx.operators.parts import concat, pad, picked, tile
from ...onnx.operators.table import Value
from ..node_emitter import AtenEmitter
from .table import operator


@operator("cat.default")
def cat(emit: AtenEmitter, tensors: Sequence[relax.Expr], axis: int) -> relax.Expr:
    """Join along an axis; vectors without elements fit any shape."""
    filled = [emit.operand(x) for x in tensors if shape_of(x) != (0,)] or [tensors[0]]
    return concat(emit, *filled, axis=axis)


@operator("stack.default")
def stack(emit: AtenEmitter, tensors: Sequence[relax.Expr], axis: int) -> relax.Expr:
    axis = emit.axis(axis, len(emit.shape))
    shape = list(emit.shape)
    shape[axis] = 1
    return concat(emit, *(emit.reshape(emit.operand(x), shape) for x in tensors), axis=axis)


@operator("split_with_sizes.default")
def split_with_sizes(emit: AtenEmitter, data: relax.Expr, sizes: Sequence[int], axis: int) -> Value:
    axis = emit.axis(axis, len(shape_of(data)))
    emit.expect(len(sizes))
    if 0 in sizes or len(sizes) == 1:
        ends = np.cumsum(sizes)
        return tuple(
            _slice(emit, data, axis, int(end) - size, int(end), 1)
            for size, end in zip(sizes, ends, strict=True)
        )
    parts = emit(relax.op.split(data, [int(end) for end in np.cumsum(sizes)[:-1]], axis))
    return tuple(emit(relax.TupleGetItem(parts, i)) for i in range(len(sizes)))


@operator("split.Tensor")
def split(emit: AtenEmitter, data: relax.Expr, size: int, axis: int) -> Value:
    length = shape_of(data)[axis]
    sizes = [min(size, length - begin) for begin in range(0, length, size)] if length else [0]
    return split_with_sizes(emit, data, sizes, axis)


@operator("unbind.int")
def unbind(emit: AtenEmitter, data: relax.Expr, axis: int) -> Value:
    axis = emit.axis(axis, len(shape_of(data)))
    emit.expect(shape_of(data)[axis])
    return tuple(picked(emit, data, place, axis) for place in range(shape_of(data)[axis]))


@operator("slice.Tensor")
def slice_(
    emit: AtenEmitter,
    data: relax.Expr,
    axis: int,
    begin: int | None,
    end: int | None,
    step: int,
) -> relax.Expr:
    axis = emit.axis(axis, len(shape_of(data)))
    return _slice(emit, data, axis, *slice(begin, end, step).indices(shape_of(data)[axis]))


def _slice(
    emit: AtenEmitter, data: relax.Expr, axis: int, begin: int, end: int, step: int
) -> relax.Expr:
    count = len(range(begin, end, step))
    if count == 0:
        shape = list(shape_of(data))
        shape[axis] = 0
        return constant(np.zeros(shape, dtype_of(data)))
    return emit.slice(data, axis, begin, end, step)


@operator("narrow.default")
def narrow(emit: AtenEmitter, data: relax.Expr, axis: int, begin: int, size: int) -> relax.Expr:
    return slice_(emit, data, axis, begin, begin + size, 1)


@operator("select.int")
def select(emit: AtenEmitter, data: relax.Expr, axis: int, place: int) -> relax.Expr:
    axis = emit.axis(axis, len(shape_of(data)))
    return picked(emit, data, place % shape_of(data)[axis], axis)


@operator("select_scatter.default")
def select_scatter(
    emit: AtenEmitter, data: relax.Expr, source: relax.Expr, axis: int, place: int
) -> relax.Expr:
    """Return the data with another part at a place of an axis."""
    shape = list(shape_of(data))
    axis = emit.axis(axis, len(shape))
    place %= shape[axis]
    part = emit.reshape(emit.operand(source), [*shape[:axis], 1, *shape[axis + 1 :]])
    return replaced(emit, data, part, axis, [place])


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
    places = range(*slice(begin, end, step).indices(shape_of(data)[axis]))
    return replaced(emit, data, emit.operand(source), axis, list(places))


def replaced(
    emit: AtenEmitter, data: relax.Expr, part: relax.Expr, axis: int, places: list[int]
) -> relax.Expr:
    """Return the data with a part at places of an axis, which follow each other or have gaps."""
    shape = shape_of(data)
    length = shape[axis]
    part = emit.broadcast(part, [*shape[:axis], len(places), *shape[axis + 1 :]])
    if not places:
        return data
    first, last = places[0], places[-1] + 1
    if len(places) == last - first:
        pieces = [emit.slice(data, axis, 0, first)] if first else []
        pieces += [part]
        pieces += [emit.slice(data, axis, last, length)] if last < length else []
        return concat(emit, *pieces, axis=axis)
    joined = concat(emit, data, part, axis=axis)
    order = np.arange(length)
    order[places] = length + np.arange(len(places))
    return emit(relax.op.take(joined, constant(order.astype("int64")), axis))


@operator("repeat.default", "tile.default")
def repeat(emit: AtenEmitter, data: relax.Expr, counts: Sequence[int]) -> relax.Expr:
    if 0 in emit.shape:
        return constant(np.zeros(emit.shape, dtype_of(data)))
    shape = shape_of(data)
    ndim = max(len(shape), len(counts))
    data = emit.reshape(data, [*[1] * (ndim - len(shape)), *shape])
    times = [*[1] * (ndim - len(counts)), *counts]
    return tile(emit, data, constant(np.array(times, "int64"))) if ndim else data


@operator("constant_pad_nd.default")
def constant_pad(
    emit: AtenEmitter, data: relax.Expr, widths: Sequence[int], value: float
) -> relax.Expr:
    return _padded(emit, data, widths, "constant", relax.const(value, dtype_of(data)))


@operator("reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default")
def reflection_pad(emit: AtenEmitter, data: relax.Expr, widths: Sequence[int]) -> relax.Expr:
    return _padded(emit, data, widths, "reflect")


@operator("replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default")
def replication_pad(emit: AtenEmitter, data: relax.Expr, widths: Sequence[int]) -> relax.Expr:
    return _padded(emit, data, widths, "edge")


def _padded(
    emit: AtenEmitter, data: relax.Expr, widths: Sequence[int], mode: str, *value: Any
) -> relax.Expr:
    """Pad; PyTorch has the numbers of the last axis first."""
    ndim = len(shape_of(data))
    axes = [ndim - 1 - i for i in range(len(widths) // 2)]
    pads = constant(np.array([*widths[0::2], *widths[1::2]], "int64"))
    filler = value[0] if value else None
    return pad(emit, data, pads, filler, constant(np.array(axes, "int64")), mode=mode)


@operator("roll.default")
def roll(
    emit: AtenEmitter, data: relax.Expr, shifts: Sequence[int], axes: Sequence[int]
) -> relax.Expr:
    shape = list(shape_of(data))
    if not axes:
        rolled = _rolled(emit, emit.reshape(data, [int(np.prod(shape))]), shifts[0], 0)
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
