# SPDX-License-Identifier: Apache-2.0
"""Gathering and sorting of elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm import relax

from ...emitter import dtype_of, shape_of
from ...onnx.operators.index import counted_from_the_begin, gather
from ...onnx.operators.table import Value
from ..node_emitter import AtenEmitter
from .table import operator


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
    places = counted(emit, data, indices)
    if len(axes) == 1:
        return emit(relax.op.take(data, places[0], axes[0]))
    rest = [axis for axis in range(len(shape_of(data))) if axis not in axes]
    front = emit.transpose(data, axes + rest)
    result = emit(relax.op.index_tensor(front, places))
    return emit.transpose(result, order_of_axes(axes, len(shape_of(result)) - len(rest), len(rest)))


def counted(
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


def order_of_axes(axes: Sequence[int], added: int, rest: int) -> list[int]:
    """Return where the axes of a result are from, whose first ones are those of the indices."""
    first = axes[0] if axes[-1] - axes[0] == len(axes) - 1 else 0
    return [*range(added, added + first), *range(added), *range(added + first, added + rest)]


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
