# SPDX-License-Identifier: Apache-2.0
"""Gathering, scattering and sorting of elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax

from ...emitter import dtype_of, shape_of
from ...onnx.operators.index import counted_from_the_begin, gather
from ...onnx.operators.table import Value
from ..node_emitter import AtenEmitter
from .table import operator


@operator("embedding.default")
def embedding(emit: AtenEmitter, weight: relax.Expr, indices: relax.Expr, *_: Any) -> relax.Expr:
    return emit(relax.op.take(weight, indices, 0))


@operator("index_select.default")
def index_select(emit: AtenEmitter, data: relax.Expr, axis: int, indices: relax.Expr) -> relax.Expr:
    if not shape_of(data):
        return data
    result = emit(relax.op.take(data, indices, emit.axis(axis, len(shape_of(data)))))
    return emit.reshape(result, emit.shape)


@operator("take.default")
def take(emit: AtenEmitter, data: relax.Expr, indices: relax.Expr) -> relax.Expr:
    return gather(emit, emit.reshape(data, [math.prod(shape_of(data))]), indices)


@operator("gather.default")
def gather_elements(
    emit: AtenEmitter,
    data: relax.Expr,
    axis: int,
    indices: relax.Expr,
    *,
    sparse_grad: bool = False,
) -> relax.Expr:
    if not shape_of(indices):
        return emit.reshape(data, [])
    if not shape_of(data):
        return emit.broadcast(data, shape_of(indices))
    data = _cropped(emit, data, shape_of(indices), emit.axis(axis, len(shape_of(data))))
    places = emit.cast(indices, "int64")
    return emit(relax.op.gather_elements(data, places, emit.axis(axis, len(shape_of(data)))))


def _cropped(emit: AtenEmitter, data: relax.Expr, sizes: Sequence[int], axis: int) -> relax.Expr:
    """Return the first elements along all other axes, as many as there are indices."""
    for other, size in enumerate(sizes):
        if other != axis:
            data = emit.slice(data, other, 0, size)
    return data


@operator("index.Tensor", "_unsafe_index.Tensor")
def index(emit: AtenEmitter, data: relax.Expr, indices: Sequence[relax.Expr | None]) -> relax.Expr:
    """Return ``x[:, i, j]``; the axes of the indices, which are broadcast to one shape, take the
    place of those that they index, or come first if these are not neighbours.
    """
    axes = [axis for axis, each in enumerate(indices) if each is not None]
    counted = _counted(emit, data, indices)
    if len(axes) == 1:
        return emit(relax.op.take(data, counted[0], axes[0]))
    rest = [axis for axis in range(len(shape_of(data))) if axis not in axes]
    front = emit.transpose(data, axes + rest)
    result = emit(relax.op.index_tensor(front, counted))
    return emit.transpose(result, _order(axes, len(shape_of(result)) - len(rest), len(rest)))


def _counted(
    emit: AtenEmitter, data: relax.Expr, indices: Sequence[relax.Expr | None]
) -> list[relax.Expr]:
    """Return the indices that there are, from the begin."""
    counted = []
    for extent, each in zip(shape_of(data), indices, strict=False):
        if each is None:
            continue
        if dtype_of(each) in ("bool", "uint8"):
            raise emit.error("is indexed by a mask that it computes while it runs, which is not "
                             "supported; export a model that does not.")  # fmt: skip
        counted.append(counted_from_the_begin(emit, each, [extent]))
    return counted


def _order(axes: Sequence[int], added: int, rest: int) -> list[int]:
    """Return where the axes of a result are from, whose first ones are those of the indices."""
    first = axes[0] if axes[-1] - axes[0] == len(axes) - 1 else 0
    return [*range(added, added + first), *range(added), *range(added + first, added + rest)]


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
    if len(axes) == 1 and dtype_of(indices[axes[0]]) == "bool" and not accumulate:
        return _masked(emit, data, indices[axes[0]], axes[0], values)
    counted = _counted(emit, data, indices)
    common = list(np.broadcast_shapes(*map(shape_of, counted)))
    shape = shape_of(data)
    rest = [axis for axis in range(len(shape)) if axis not in axes]
    front = emit.transpose(data, axes + rest)
    places = [emit.reshape(emit.cast(emit.broadcast(each, common), "int64"), [*common, 1])
              for each in counted]  # fmt: skip
    places = [emit(relax.op.concat(places, len(common)))] if len(places) > 1 else places
    order = _order(axes, len(common), len(rest))
    selected = [*common, *(shape[axis] for axis in rest)]
    moved = emit.broadcast(emit.operand(values), [selected[axis] for axis in order])
    updates = emit.transpose(moved, [order.index(axis) for axis in range(len(order))])
    kind = "add" if accumulate else "update"
    result = emit(relax.op.scatter_nd(front, places[0], updates, kind))
    back = axes + rest
    return emit.transpose(result, [back.index(axis) for axis in range(len(back))])


def _masked(
    emit: AtenEmitter, data: relax.Expr, mask: relax.Expr, axis: int, values: relax.Expr
) -> relax.Expr:
    if math.prod(shape_of(values)) != 1:
        raise emit.error("writes values where a mask is true, which is not supported; export a "
                         "model that writes one.")  # fmt: skip
    behind = len(shape_of(data)) - axis - len(shape_of(mask))
    condition = emit.reshape(mask, [*[1] * axis, *shape_of(mask), *[1] * behind])
    value = emit.reshape(emit.operand(values), [])
    return emit(relax.op.where(condition, value, data))


_REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max",
               "amin": "min"}  # fmt: skip


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
    if not include_self or reduce not in _REDUCTIONS:
        left_out = "" if include_self else " without the data"
        raise emit.error(f"has the reduction {reduce!r}{left_out}, which is not supported.")
    kind = _REDUCTIONS[reduce]
    return _scattered(emit, data, axis, indices, emit.operand(source), kind)


@operator("masked_scatter.default")
def masked_scatter(
    emit: AtenEmitter, data: relax.Expr, mask: relax.Expr, source: relax.Expr
) -> relax.Expr:
    """Write elements of the source, in their order, where a mask is true."""
    count = math.prod(emit.shape)
    flat = emit.reshape(emit.broadcast(mask, emit.shape), [count])
    number = emit(relax.op.cumsum(emit.cast(flat, "int64"), 0, "int64"))
    places = emit(relax.op.subtract(number, emit.scalar(1, number)))
    row = emit.reshape(source, [math.prod(shape_of(source))])
    chosen = emit(relax.op.take(row, emit(relax.op.maximum(places, emit.scalar(0, places))), 0))
    old = emit.reshape(emit.broadcast(data, emit.shape), [count])
    return emit.reshape(emit(relax.op.where(flat, chosen, old)), emit.shape)


@operator("topk.default")
def topk(
    emit: AtenEmitter, data: relax.Expr, count: int, axis: int, largest: bool, _: bool
) -> Value:
    """Return the largest, or smallest, elements along an axis and their places, in their order."""
    return _sorted(emit, data, count, axis, largest)


@operator("sort.default")
def sort(emit: AtenEmitter, data: relax.Expr, axis: int, descending: bool) -> Value:
    length = shape_of(data)[axis] if shape_of(data) else 1
    return _sorted(emit, data, length, axis, descending)


@operator("sort.stable")
def sort_stable(
    emit: AtenEmitter, data: relax.Expr, *, stable: bool, dim: int = -1, descending: bool = False
) -> Value:
    return sort(emit, data, dim, descending)


@operator("argsort.default")
def argsort(
    emit: AtenEmitter, data: relax.Expr, axis: int = -1, descending: bool = False
) -> relax.Expr:
    result = sort(emit, data, axis, descending)
    assert isinstance(result, tuple)
    return result[1]


def _sorted(emit: AtenEmitter, data: relax.Expr, count: int, axis: int, descending: bool) -> Value:
    shape = shape_of(data)
    if not shape:
        return data, emit.full([], 0, "int64")
    axis = emit.axis(axis, len(shape))
    found = emit(relax.op.topk(data, count, axis, "both", descending, "int64"))
    return tuple(emit(relax.TupleGetItem(found, i)) for i in range(2))


@operator("bucketize.Tensor")
def bucketize(
    emit: AtenEmitter,
    data: relax.Expr,
    limits: relax.Expr,
    *,
    right: bool = False,
    out_int32: bool = False,
) -> relax.Expr:
    """Return how many limits are below each element, or not above it."""
    return _count_below(emit, data, limits, right)


@operator("searchsorted.Tensor")
def searchsorted(
    emit: AtenEmitter,
    limits: relax.Expr,
    data: relax.Expr,
    *,
    right: bool = False,
    side: str | None = None,
    out_int32: bool = False,
) -> relax.Expr:
    return _count_below(emit, data, limits, right or side == "right")


def _count_below(
    emit: AtenEmitter, data: relax.Expr, limits: relax.Expr, right: bool
) -> relax.Expr:
    shape, rows = list(shape_of(data)), list(shape_of(limits))
    if len(rows) > 1:
        limits = emit.reshape(limits, [*rows[:-1], 1, rows[-1]])
    dtype = emit.common_dtype()
    column = emit.reshape(emit.operand(data, dtype), [*shape, 1])
    build = relax.op.less_equal if right else relax.op.less
    below = emit(build(emit.operand(limits, dtype), column))
    total = emit(relax.op.sum(emit.cast(below, "int64"), [len(shape_of(below)) - 1]))
    return emit.cast(total, emit.dtype)
