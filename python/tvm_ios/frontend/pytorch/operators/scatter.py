# SPDX-License-Identifier: Apache-2.0
"""Writing of elements, or of what they are combined to, at places of a tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tvm import relax

from ...emitter import constant, dtype_of, shape_of
from ...onnx.numbers import is_float
from ...onnx.operators.index import counted_from_the_begin
from ...onnx.operators.parts import concat
from ..node_emitter import AtenEmitter
from .index import counted, order_of_axes
from .shapes import strided_places
from .table import operator


@operator("index_put.default", "_unsafe_index_put.default")
def index_put(
    emit: AtenEmitter,
    data: relax.Expr,
    indices: Sequence[relax.Expr | None],
    values: relax.Expr,
    accumulate: bool,
) -> relax.Expr:
    """Return the data with other values at ``x[:, i, j]``, or with these added."""
    axes = [axis for axis, each in enumerate(indices) if each is not None]
    if len(axes) == 1 and dtype_of(indices[axes[0]]) == "bool":
        return _masked(emit, data, indices[axes[0]], axes[0], values, accumulate)
    starts = counted(emit, data, indices)
    common = list(np.broadcast_shapes(*map(shape_of, starts)))
    shape = shape_of(data)
    rest = [axis for axis in range(len(shape)) if axis not in axes]
    front = emit.transpose(data, axes + rest)
    places = [emit.reshape(emit.cast(emit.broadcast(each, common), "int64"), [*common, 1])
              for each in starts]  # fmt: skip
    places = [emit(relax.op.concat(places, len(common)))] if len(places) > 1 else places
    order = order_of_axes(axes, len(common), len(rest))
    selected = [*common, *(shape[axis] for axis in rest)]
    moved = emit.broadcast(emit.operand(values), [selected[axis] for axis in order])
    updates = emit.transpose(moved, [order.index(axis) for axis in range(len(order))])
    kind = "add" if accumulate else "update"
    result = emit(relax.op.scatter_nd(front, places[0], updates, kind))
    back = axes + rest
    return emit.transpose(result, [back.index(axis) for axis in range(len(back))])


def _masked(
    emit: AtenEmitter,
    data: relax.Expr,
    mask: relax.Expr,
    axis: int,
    values: relax.Expr,
    accumulate: bool,
) -> relax.Expr:
    """Write values, or add them, where a mask of some axes is true."""
    shape, own = list(shape_of(data)), list(shape_of(mask))
    behind = shape[axis + len(own) :]
    condition = emit.reshape(mask, [*[1] * axis, *own, *[1] * len(behind)])
    values = emit.operand(values)
    if math.prod(shape_of(values)) == 1:
        values = emit.reshape(values, [])
    elif len(shape_of(values)) == axis + 1 + len(behind) and shape_of(values)[axis] != 1:
        if axis:
            raise emit.error("writes values where a mask of axes that are not the first is true, "
                             "which is not supported.")  # fmt: skip
        rows = emit.broadcast(values, [shape_of(values)[0], *behind])
        values = emit.reshape(_in_order(emit, mask, rows), shape)
    elif len(shape_of(values)) > len(behind):
        kept = list(shape_of(values))
        sizes = [*kept[: -len(behind) - 1], *[1] * len(own), *kept[len(kept) - len(behind) :]]
        values = emit.reshape(values, sizes)
    if accumulate:
        values = emit(relax.op.add(data, values))
    return emit(relax.op.where(condition, values, data))


def _in_order(emit: AtenEmitter, mask: relax.Expr, rows: relax.Expr) -> relax.Expr:
    """Return for each element of a mask the row of which it is the first, second, ... true one."""
    flat = emit.reshape(mask, [math.prod(shape_of(mask))])
    number = emit(relax.op.cumsum(emit.cast(flat, "int64"), 0, "int64"))
    places = emit(relax.op.subtract(number, emit.scalar(1, number)))
    return emit(relax.op.take(rows, emit(relax.op.maximum(places, emit.scalar(0, places))), 0))


@operator("put.default")
def put(
    emit: AtenEmitter, data: relax.Expr, indices: relax.Expr, source: relax.Expr, accumulate: bool
) -> relax.Expr:
    """Write elements at places of the flattened data, or add them."""
    count, number = math.prod(shape_of(data)), math.prod(shape_of(indices))
    flat = emit.reshape(data, [count])
    places = counted_from_the_begin(emit, emit.reshape(indices, [number]), [count])
    kind = "add" if accumulate else "update"
    updates = emit.reshape(emit.operand(source), [number])
    return emit.reshape(_scattered(emit, flat, 0, places, updates, kind), shape_of(data))


@operator("diagonal_scatter.default")
def diagonal_scatter(
    emit: AtenEmitter, data: relax.Expr, source: relax.Expr, offset: int, first: int, second: int
) -> relax.Expr:
    """Return matrices with other diagonals, which are on the last axis of the source."""
    shape = list(shape_of(data))
    rows, columns = emit.axis(first, len(shape)), emit.axis(second, len(shape))
    rest = [axis for axis in range(len(shape)) if axis not in (rows, columns)]
    order = [*rest, rows, columns]
    grid = np.arange(shape[columns]) - np.arange(shape[rows])[:, None]
    emit.allocate(grid.shape, "bool")
    # The number of a diagonal's element is that of its row, or of its column.
    begins = emit.filled([*(shape[a] for a in rest), max(-offset, 0)], 0, dtype_of(data))
    spread = emit.operand(source)
    padding = shape[rows] - max(-offset, 0) - shape_of(spread)[-1]
    ends = emit.filled([*(shape[a] for a in rest), padding], 0, dtype_of(data))
    column = concat(emit, begins, spread, ends, axis=-1)
    column = emit.reshape(column, [*shape_of(column), 1])
    matrices = emit.transpose(data, order)
    result = emit(relax.op.where(constant(grid == offset), column, matrices))
    return emit.transpose(result, [order.index(axis) for axis in range(len(shape))])


@operator("as_strided_scatter.default", "prims.as_strided_scatter.default")
def as_strided_scatter(
    emit: AtenEmitter,
    data: relax.Expr,
    source: relax.Expr,
    sizes: Sequence[int],
    strides: Sequence[int],
    offset: int | None,
) -> relax.Expr:
    """Write elements at places of the flattened data, which PyTorch lays out in its axes' order."""
    places = strided_places(emit, sizes, strides, offset).reshape(-1)
    if len(np.unique(places)) != len(places):
        raise emit.error("writes several elements to a place, which is not supported.")
    count = math.prod(shape_of(data))
    flat, updates = emit.reshape(data, [count]), emit.reshape(source, [len(places)])
    result = _scattered(emit, flat, 0, constant(places), emit.operand(updates), "update")
    return emit.reshape(result, shape_of(data))


_REDUCTIONS = {"sum": "add", "add": "add", "mean": "add", "prod": "mul", "multiply": "mul",
               "amax": "max", "amin": "min"}  # fmt: skip


def _scattered(
    emit: AtenEmitter,
    data: relax.Expr,
    axis: int,
    indices: relax.Expr,
    source: relax.Expr,
    kind: str,
) -> relax.Expr:
    """Write elements of the source, of which there may be more than indices."""
    shape = shape_of(data)
    data, indices, source = (emit.reshape(x, shape_of(x) or [1]) for x in (data, indices, source))
    axis = emit.axis(axis, len(shape_of(data)))
    for place, size in enumerate(shape_of(indices)):
        source = emit.slice(source, place, 0, size)
    if 0 in shape_of(indices):
        return emit.reshape(data, shape)
    result = emit(relax.op.scatter_elements(data, indices, source, axis, kind))
    return emit.reshape(result, shape)


@operator("scatter.src")
def scatter(
    emit: AtenEmitter, data: relax.Expr, axis: int, indices: relax.Expr, source: relax.Expr
) -> relax.Expr:
    return _scattered(emit, data, axis, indices, emit.operand(source), "update")


@operator("scatter.value")
def scatter_value(
    emit: AtenEmitter, data: relax.Expr, axis: int, indices: relax.Expr, value: float
) -> relax.Expr:
    source = emit.filled(shape_of(indices), value, emit.dtype)
    return _scattered(emit, data, axis, indices, source, "update")


@operator("scatter_add.default")
def scatter_add(
    emit: AtenEmitter, data: relax.Expr, axis: int, indices: relax.Expr, source: relax.Expr
) -> relax.Expr:
    return _scattered(emit, data, axis, indices, emit.operand(source), "add")


@operator("scatter_reduce.two", "scatter.reduce")
def scatter_reduce(
    emit: AtenEmitter,
    data: relax.Expr,
    axis: int,
    indices: relax.Expr,
    source: relax.Expr,
    reduce: str,
    *,
    include_self: bool = True,
) -> relax.Expr:
    """Combine elements of the source at each place, with the data or in their place."""
    if reduce not in _REDUCTIONS:
        raise emit.error(f"has the reduction {reduce!r}, which is not supported.")
    source = emit.operand(source)
    start = data
    if not include_self:
        neutral = emit.filled(shape_of(indices), _neutral(reduce, emit.dtype), emit.dtype)
        start = _scattered(emit, data, axis, indices, neutral, "update")
    result = _scattered(emit, start, axis, indices, source, _REDUCTIONS[reduce])
    if reduce != "mean":
        return result
    own = emit.filled(shape_of(data), int(include_self), emit.dtype)
    ones = emit.filled(shape_of(indices), 1, emit.dtype)
    counts = _scattered(emit, own, axis, indices, ones, "add")
    counts = emit(relax.op.maximum(counts, emit.scalar(1, counts)))
    build = relax.op.divide if is_float(emit.dtype) else relax.op.floor_divide
    return emit(build(result, counts))


def _neutral(reduce: str, dtype: str) -> float:
    """Return the number that changes no result of a reduction."""
    if reduce in ("prod", "multiply"):
        return 1
    if reduce not in ("amax", "amin"):
        return 0
    if is_float(dtype):
        return -math.inf if reduce == "amax" else math.inf
    limits = np.iinfo(dtype)
    return int(limits.min if reduce == "amax" else limits.max)


@operator("index_reduce.default")
def index_reduce(
    emit: AtenEmitter,
    data: relax.Expr,
    axis: int,
    indices: relax.Expr,
    source: relax.Expr,
    reduce: str,
    *,
    include_self: bool = True,
) -> relax.Expr:
    """Combine slices of the source at each place of an axis."""
    shape = shape_of(source) or (1,)
    axis = emit.axis(axis, len(shape))
    row = emit.reshape(emit.cast(indices, "int64"), [math.prod(shape_of(indices))])
    places = emit.broadcast(emit.along(row, axis, len(shape)), shape)
    source = emit.reshape(source, shape)
    return scatter_reduce(emit, data, axis, places, source, reduce, include_self=include_self)


@operator("masked_scatter.default")
def masked_scatter(
    emit: AtenEmitter, data: relax.Expr, mask: relax.Expr, source: relax.Expr
) -> relax.Expr:
    """Write elements of the source, in their order, where a mask is true."""
    mask = emit.broadcast(mask, emit.shape)
    row = emit.reshape(source, [math.prod(shape_of(source))])
    chosen = emit.reshape(_in_order(emit, mask, row), emit.shape)
    return emit(relax.op.where(mask, chosen, emit.broadcast(data, emit.shape)))
