# SPDX-License-Identifier: Apache-2.0
"""Other shapes and orders of the same elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax

from ....sizes.size import AnySize, is_open
from ...emitter import constant, shape_of
from ..node_emitter import AtenEmitter
from .table import operator


@operator(
    "alias.default",
    "clone.default",
    "contiguous.default",
    "detach.default",
    "lift_fresh_copy.default",
)
def same(emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
    return data


@operator("view.default", "reshape.default", "_unsafe_view.default")
def view(emit: AtenEmitter, data: relax.Expr, _: Sequence[int]) -> relax.Expr:
    return emit.reshape(data, emit.shape)


@operator("squeeze.default", "squeeze.dim", "squeeze.dims")
def squeeze(
    emit: AtenEmitter, data: relax.Expr, axes: int | Sequence[int] | None = None
) -> relax.Expr:
    """Leave out axes of one element; sizes that stay open are assumed to be others."""
    shape = shape_of(data)
    given = range(len(shape)) if axes is None else [axes] if isinstance(axes, int) else axes
    for axis in given if shape else ():
        if is_open([shape[axis]]) and shape[axis] == 1:
            raise emit.error("leaves out an axis whose size stays open, which is not supported.")
    return emit.reshape(data, emit.shape)


@operator("unsqueeze.default", "flatten.using_ints")
def reshaped(emit: AtenEmitter, data: relax.Expr, *_: Any) -> relax.Expr:
    return emit.reshape(data, emit.shape)


@operator("permute.default")
def permute(emit: AtenEmitter, data: relax.Expr, axes: Sequence[int]) -> relax.Expr:
    return emit.transpose(data, [emit.axis(axis, len(axes)) for axis in axes])


@operator("transpose.int")
def transpose(emit: AtenEmitter, data: relax.Expr, first: int, second: int) -> relax.Expr:
    ndim = len(shape_of(data))
    order = list(range(ndim))
    if ndim:
        first, second = emit.axis(first, ndim), emit.axis(second, ndim)
        order[first], order[second] = order[second], order[first]
    return emit.transpose(data, order)


@operator("expand.default")
def expand(emit: AtenEmitter, data: relax.Expr, _: Sequence[int], **__: Any) -> relax.Expr:
    return emit.broadcast(data, emit.shape)


@operator("prims.broadcast_in_dim.default")
def broadcast_in_dim(
    emit: AtenEmitter, data: relax.Expr, shape: Sequence[int], axes: Sequence[int]
) -> relax.Expr:
    """Broadcast; ``axes`` says where the axes of the data are in the result."""
    sizes: list[AnySize] = [1] * len(shape)
    for axis, size in zip(axes, shape_of(data), strict=True):
        sizes[axis] = size
    return emit.broadcast(emit.reshape(data, sizes), emit.shape)


@operator("copy.default")
def copy(emit: AtenEmitter, data: relax.Expr, source: relax.Expr, _: bool) -> relax.Expr:
    return emit.broadcast(emit.operand(source), emit.shape)


@operator("flip.default")
def flip(emit: AtenEmitter, data: relax.Expr, axes: Sequence[int]) -> relax.Expr:
    for axis in axes:
        data = emit(relax.op.flip(data, emit.axis(axis, max(len(shape_of(data)), 1))))
    return data


@operator("as_strided.default")
def as_strided(
    emit: AtenEmitter,
    data: relax.Expr,
    sizes: Sequence[int],
    strides: Sequence[int],
    offset: int | None,
) -> relax.Expr:
    """Read elements of the flattened data, which PyTorch lays out in the order of its axes."""
    places = strided_places(emit, sizes, strides, offset)
    count = math.prod(shape_of(data))
    if np.array_equal(places.reshape(-1), np.arange(count)):
        return emit.reshape(data, sizes)
    flat = emit.reshape(data, [count])
    taken = emit(relax.op.take(flat, constant(places.reshape(-1)), 0))
    return emit.reshape(taken, sizes)


def strided_places(
    emit: AtenEmitter, sizes: Sequence[int], strides: Sequence[int], offset: int | None
) -> np.ndarray:
    """Return where elements are in the flattened first argument."""
    if not _is_contiguous(emit):
        raise emit.error("reads another layout than that of its axes, which is not supported.")
    emit.allocate(sizes, "int64")
    places = np.full(sizes, offset or 0, "int64")
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        shape = [-1 if i == axis else 1 for i in range(len(sizes))]
        places = places + (np.arange(size) * stride).reshape(shape)
    return places


def _is_contiguous(emit: AtenEmitter) -> bool:
    value = emit.argument(0)
    return bool(value.is_contiguous()) and value.storage_offset() == 0


@operator("diagonal.default")
def diagonal(
    emit: AtenEmitter, data: relax.Expr, offset: int, first: int, second: int
) -> relax.Expr:
    """Return the diagonals of matrices on a new last axis."""
    shape = list(shape_of(data))
    rows, columns = emit.axis(first, len(shape)), emit.axis(second, len(shape))
    rest = [axis for axis in range(len(shape)) if axis not in (rows, columns)]
    matrices = emit.transpose(data, [*rest, rows, columns])
    flat = emit.reshape(matrices, [*(shape[a] for a in rest), shape[rows] * shape[columns]])
    begin = max(-offset, 0) * shape[columns] + max(offset, 0)
    places = emit.steps(begin, shape[columns] + 1, emit.shape[-1])
    return emit(relax.op.take(flat, places, len(rest)))


@operator("unfold.default")
def unfold(emit: AtenEmitter, data: relax.Expr, axis: int, size: int, step: int) -> relax.Expr:
    """Return windows along an axis, each on a new last axis."""
    shape = list(shape_of(data))
    if not shape:
        return emit.reshape(data, emit.shape)
    axis = emit.axis(axis, len(shape))
    count = (shape[axis] - size) // step + 1
    begins = emit.reshape(emit.steps(0, step, count), [count, 1])
    places = emit.sum(begins, constant(np.arange(size, dtype="int64")))
    windows = emit(relax.op.take(data, emit.reshape(places, [count * size]), axis))
    windows = emit.reshape(windows, [*shape[:axis], count, size, *shape[axis + 1 :]])
    order = [i for i in range(len(shape) + 1) if i != axis + 1]
    return emit.transpose(windows, [*order, axis + 1])
