# SPDX-License-Identifier: Apache-2.0
"""Gathering and scattering of elements at computed positions."""

from __future__ import annotations

import math

import numpy as np
from tvm import relax, tirx

from ...frontend.emitter import Emitter, constant, constant_array, dtype_of, shape_of
from .table import operator

_REDUCTIONS = ("update", "add", "mul", "mean", "min", "max")


@operator("take")
def take(
    emit: Emitter,
    data: relax.Expr,
    indices: relax.Expr,
    *,
    batch_dims: int = 0,
    axis: int | None = None,
    mode: str = "clip",
) -> relax.Expr:
    """Take elements along an axis; without one, from the flattened tensor.

    The mode ``fast`` does not define the result outside the bounds, so indices are clipped.
    """
    if batch_dims:
        raise emit.error(f"has batch_dims={batch_dims}, but only 0 is converted.")
    if axis is None:
        data, axis = emit.reshape(data, (math.prod(shape_of(data)),)), 0
    axis = emit.axis(axis, len(shape_of(data)))
    return emit(relax.op.take(data, indices, axis, "clip" if mode == "fast" else mode))


@operator("gather")
def gather(emit: Emitter, data: relax.Expr, indices: relax.Expr, *, axis: int) -> relax.Expr:
    axis = emit.axis(axis, len(shape_of(data)))
    return emit(relax.op.gather_elements(data, indices, axis))


@operator("gather_nd")
def gather_nd(
    emit: Emitter,
    data: relax.Expr,
    indices: relax.Expr,
    *,
    batch_dims: int = 0,
    index_rank: int | None = None,
) -> relax.Expr:
    return emit(relax.op.gather_nd(data, _tuples_last(emit, indices), batch_dims))


def _tuples_last(emit: Emitter, indices: relax.Expr) -> relax.Expr:
    """Move coordinates from the first axis, where Relay has them, to the last."""
    axes = range(1, len(shape_of(indices)))
    return emit.cast(emit.transpose(indices, [*axes, 0]), "int64")


@operator("scatter_elements")
def scatter_elements(
    emit: Emitter,
    data: relax.Expr,
    indices: relax.Expr,
    updates: relax.Expr,
    *,
    axis: int = 0,
    reduction: str = "update",
) -> relax.Expr:
    if reduction not in _REDUCTIONS:
        raise emit.error(f"has reduction {reduction!r}; there are: {', '.join(_REDUCTIONS)}.")
    axis = emit.axis(axis, len(shape_of(data)))
    indices = emit.cast(indices, "int64")
    return emit(relax.op.scatter_elements(data, indices, updates, axis, reduction))


@operator("scatter")
def scatter(
    emit: Emitter,
    data: relax.Expr,
    indices: relax.Expr,
    updates: relax.Expr,
    *,
    axis: int = 0,
) -> relax.Expr:
    """Convert the form of ``scatter_elements`` before v0.11."""
    return scatter_elements(emit, data, indices, updates, axis=axis)


@operator("scatter_add")
def scatter_add(
    emit: Emitter,
    data: relax.Expr,
    indices: relax.Expr,
    updates: relax.Expr,
    *,
    axis: int = 0,
) -> relax.Expr:
    """Convert the form of ``scatter_elements`` with ``add`` before v0.11."""
    return scatter_elements(emit, data, indices, updates, axis=axis, reduction="add")


@operator("scatter_nd")
def scatter_nd(
    emit: Emitter,
    data: relax.Expr,
    indices: relax.Expr,
    updates: relax.Expr,
    *,
    mode: str = "update",
) -> relax.Expr:
    if mode not in _REDUCTIONS:
        raise emit.error(f"has mode {mode!r}; there are: {', '.join(_REDUCTIONS)}.")
    return emit(relax.op.scatter_nd(data, _tuples_last(emit, indices), updates, mode))


@operator("one_hot")
def one_hot(
    emit: Emitter,
    indices: relax.Expr,
    on_value: relax.Expr,
    off_value: relax.Expr,
    *,
    depth: int = 1,
    axis: int = -1,
    dtype: str | None = None,
) -> relax.Expr:
    dtype = dtype or dtype_of(on_value)
    on, off = (
        tirx.const(emit.number(value, f"its {what}_value"), dtype)
        for value, what in ((on_value, "on"), (off_value, "off"))
    )
    return emit(relax.op.one_hot(indices, on, off, depth, axis))


@operator("adv_index", of_tuple=True)
def adv_index(emit: Emitter, tensors: tuple[relax.Expr, ...]) -> relax.Expr:
    """Index the first tensor with the others, as NumPy does."""
    data, *indices = tensors
    return emit(relax.op.index_tensor(data, list(indices)))


@operator("sequence_mask")
def sequence_mask(
    emit: Emitter,
    data: relax.Expr,
    valid_length: relax.Expr,
    *,
    mask_value: float = 0.0,
    axis: int = 0,
) -> relax.Expr:
    """Set the elements beyond the length of each sequence to ``mask_value``."""
    shape = shape_of(data)
    if axis not in (0, 1):
        raise emit.error(f"has axis {axis}; it must be 0 or 1.")
    lengths = emit.along(valid_length, 1 - axis, len(shape))
    positions = emit.positions(shape[axis], dtype_of(valid_length))
    valid = relax.op.less(emit.along(positions, axis, len(shape)), lengths)
    return emit(relax.op.where(emit(valid), data, emit.scalar(mask_value, data)))


@operator("unravel_index")
def unravel_index(emit: Emitter, indices: relax.Expr, shape: relax.Expr) -> relax.Expr:
    """Return coordinates, along a new first axis, of positions in a tensor of a known shape."""
    sizes = constant_array(shape)
    if sizes is None:
        raise emit.error("needs its shape as a constant; bind it as a parameter.")
    rows, rest = [], indices
    emit.expect(sizes.size)
    for size in sizes.reshape(-1)[::-1]:
        rows.append(emit(relax.op.floor_mod(rest, emit.scalar(int(size), indices))))
        rest = emit(relax.op.floor_divide(rest, emit.scalar(int(size), indices)))
    return emit(relax.op.stack(rows[::-1], 0))


@operator("invert_permutation")
def invert_permutation(emit: Emitter, data: relax.Expr) -> relax.Expr:
    """Return the position of each number in a permutation."""
    positions = emit.positions(shape_of(data)[0], dtype_of(data))
    return scatter_elements(emit, positions, data, positions)


@operator("sliding_window")
def sliding_window(
    emit: Emitter,
    data: relax.Expr,
    *,
    axis: int,
    window_shape: tuple[int, ...],
    strides: tuple[int, ...],
) -> relax.Expr:
    """Return all windows of the axes from ``axis`` on; the windows' own axes come last."""
    first = emit.axis(axis, len(shape_of(data)))
    for i, (size, step) in enumerate(zip(window_shape, strides, strict=True)):
        at, shape = first + 2 * i, shape_of(data)
        count = len(range(0, shape[at] - size + 1, step))
        emit.allocate([count, size], "int64")
        begins = np.arange(count) * step
        places = constant((begins[:, None] + np.arange(size)).reshape(-1))
        rows = emit(relax.op.take(data, places, at, "clip"))
        data = emit.reshape(rows, (*shape[:at], len(begins), size, *shape[at + 1 :]))
    ndim = len(shape_of(data))
    windows = range(first, ndim, 2)
    return emit.transpose(data, [*range(first), *windows, *(axis + 1 for axis in windows)])
