# SPDX-License-Identifier: Apache-2.0
"""Gathering, scattering and sorting of elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import relax

from ....sizes.arithmetic import require_least, require_most
from ....sizes.size import AnySize, Size
from ...emitter import constant_array, dtype_of, shape_of
from ..counted import Counted
from ..node_emitter import NodeEmitter
from ..numbers import is_signed
from .table import MOVES, Value, operator

_REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "min": "min", "max": "max"}


def counted_from_the_begin(
    emit: NodeEmitter, indices: relax.Expr, extents: Sequence[AnySize]
) -> relax.Expr:
    """Return indices that may count from the end as ones from the begin.

    Parameters
    ----------
    emit : NodeEmitter
    indices : relax.Expr
    extents : sequence of size
        The length of the axis, or of the axis of each of the last axis' coordinates.
    """
    if not is_signed(dtype_of(indices)):
        return indices
    known = constant_array(indices)
    if known is not None:
        _require_places(known, extents)
        if not (known < 0).any():
            return indices
    lengths = emit.sizes(extents if len(extents) > 1 else extents[0], dtype_of(indices))
    negative = emit(relax.op.less(indices, emit.scalar(0, indices)))
    return emit(relax.op.where(negative, emit(relax.op.add(indices, lengths)), indices))


def _require_places(known: np.ndarray, extents: Sequence[AnySize]) -> None:
    """Assume that axes of open length have the places that constant indices name.

    Where they cannot, the indices are refused as those of an axis of known length are.
    """
    numbers = known.reshape(-1, len(extents))
    for extent, places in zip(extents, numbers.T, strict=True):
        if isinstance(extent, Size) and places.size:
            require_least(extent, max(int(places.max()) + 1, -int(places.min())))


@operator("Gather")
def gather(
    emit: NodeEmitter, data: relax.Expr, indices: relax.Expr, *, axis: int = 0
) -> relax.Expr:
    axis = emit.axis(axis, len(shape_of(data)))
    places = counted_from_the_begin(emit, indices, [shape_of(data)[axis]])
    return emit(relax.op.take(data, places, axis))


@operator("GatherElements")
def gather_elements(
    emit: NodeEmitter, data: relax.Expr, indices: relax.Expr, *, axis: int = 0
) -> relax.Expr:
    axis = emit.axis(axis, len(shape_of(data)))
    places = counted_from_the_begin(emit, indices, [shape_of(data)[axis]])
    return emit(relax.op.gather_elements(data, places, axis))


@operator("GatherND")
def gather_nd(
    emit: NodeEmitter, data: relax.Expr, indices: relax.Expr, *, batch_dims: int = 0
) -> relax.Expr:
    count = _coordinates(emit, indices)
    extents = shape_of(data)[batch_dims : batch_dims + count]
    places = counted_from_the_begin(emit, indices, extents)
    return emit(relax.op.gather_nd(data, places, batch_dims))


def _coordinates(emit: NodeEmitter, indices: relax.Expr) -> int:
    """Return how many numbers the last axis of indices has, which are the place of an element."""
    count = shape_of(indices)[-1]
    if isinstance(count, Size):
        raise emit.error(f"has places of {count} coordinates, whose number must not be open.")
    return count


@operator("Scatter", "ScatterElements")
def scatter_elements(
    emit: NodeEmitter,
    data: relax.Expr,
    indices: relax.Expr,
    updates: relax.Expr,
    *,
    axis: int = 0,
    reduction: str = "none",
) -> relax.Expr:
    axis = emit.axis(axis, len(shape_of(data)))
    kind = _reduction(emit, reduction, data)
    return emit(relax.op.scatter_elements(data, indices, updates, axis, kind))


@operator("ScatterND")
def scatter_nd(
    emit: NodeEmitter,
    data: relax.Expr,
    indices: relax.Expr,
    updates: relax.Expr,
    *,
    reduction: str = "none",
) -> relax.Expr:
    extents = shape_of(data)[: _coordinates(emit, indices)]
    places = counted_from_the_begin(emit, indices, extents)
    kind = _reduction(emit, reduction, data)
    return emit(relax.op.scatter_nd(data, places, updates, kind))


def _reduction(emit: NodeEmitter, name: str, data: relax.Expr) -> str:
    if name not in _REDUCTIONS:
        raise emit.error(f"has the reduction {name!r}; there are: {', '.join(_REDUCTIONS)}.")
    if name != "none":
        emit.reject_truths(data)
    return _REDUCTIONS[name]


@operator("OneHot")
def one_hot(
    emit: NodeEmitter,
    indices: relax.Expr,
    depth: relax.Expr,
    values: relax.Expr,
    *,
    axis: int = -1,
) -> relax.Expr:
    """Return the second value where an index is the place along a new axis, else the first.

    Indices out of range give the first value everywhere.
    """
    if dtype_of(values) == "bool":  # ONNX Runtime lacks it, and ONNX's reference fails
        raise emit.error("chooses among truths, which is not supported; compare its result with 0.")
    given = emit.number(depth, "its depth")
    count = given if isinstance(given, Size) else int(given)
    ndim = len(shape_of(indices)) + 1
    axis = emit.axis(axis, ndim)
    places = counted_from_the_begin(emit, emit.cast(indices, "int64"), [count])
    shape = list(shape_of(indices))
    places = emit.reshape(places, [*shape[:axis], 1, *shape[axis:]])
    grid = emit.along(emit.positions(count, "int64"), axis, ndim)
    off, on = (emit.reshape(emit.slice(values, 0, i, i + 1), []) for i in (0, 1))
    return emit(relax.op.where(emit(relax.op.equal(grid, places)), on, off))


@operator("TopK")
def top_k(
    emit: NodeEmitter,
    data: relax.Expr,
    k: relax.Expr,
    *,
    axis: int = -1,
    largest: int = 1,
    sorted: int = 1,
) -> Value:
    """Return the largest, or smallest, elements along an axis and their places."""
    axis = emit.axis(axis, len(shape_of(data)))
    known = emit.known(k)
    if known is None:
        return _some_of_all(emit, data, k, axis, largest)
    count, length = known.reshape(-1)[0], shape_of(data)[axis]
    if isinstance(count, Size):
        return _open_count(emit, data, count, axis, largest)
    count = int(count)
    if count < 0 or not require_most(count, length):
        raise emit.error(f"takes {count} of {length} elements.")
    dtype = dtype_of(data)
    if not count:  # which Relax's operator takes for all
        shape = [0 if a == axis else size for a, size in enumerate(shape_of(data))]
        return emit.full(shape, 0, dtype), emit.full(shape, 0, "int64")
    wide = _sortable(emit, data)
    found = emit(relax.op.topk(wide, count, axis, "both", bool(largest), "int64"))
    values, places = (emit(relax.TupleGetItem(found, i)) for i in range(2))
    if dtype == "uint64":
        values = moved_by_half(emit, values)
    return emit.cast(values, dtype), places


def _open_count(emit: NodeEmitter, data: relax.Expr, count: Size, axis: int, largest: int) -> Value:
    """Sort all elements, and take as many as an open size says."""
    length = shape_of(data)[axis]
    if not require_most(count, length):
        raise emit.error(f"takes {count} of {length} elements.")
    every = _in_order(emit, data, axis, largest)
    return tuple(emit.slice(part, axis, 0, count) for part in every)


def _in_order(
    emit: NodeEmitter, data: relax.Expr, axis: int, largest: int
) -> tuple[relax.Expr, relax.Expr]:
    """Return all elements along an axis in order, and their places."""
    places = emit(relax.op.argsort(_sortable(emit, data), axis, bool(largest), "int64"))
    return emit(relax.op.gather_elements(data, places, axis)), places


def _sortable(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
    """Return elements of the same order, in a type that Relax sorts."""
    dtype = dtype_of(data)
    if dtype not in ("int16", "uint16", "uint32", "uint64"):
        return data
    wide = emit.cast(data, "int64")
    return moved_by_half(emit, wide) if dtype == "uint64" else wide


def moved_by_half(emit: NodeEmitter, bits: relax.Expr) -> relax.Expr:
    """Return the bits of uint64 as signed numbers in the same order, and those as bits again."""
    sign = relax.const(np.iinfo("int64").min, "int64")
    return emit(relax.op.bitwise_xor(bits, sign))


def _some_of_all(
    emit: NodeEmitter, data: relax.Expr, k: relax.Expr, axis: int, largest: int
) -> Value:
    """Sort all elements, of which as many count as is computed."""
    # A number that is negative or too large fails as an index does.
    counts = emit.positions(shape_of(data)[axis] + 1, "int64")
    count = emit(relax.op.take(counts, emit.reshape(emit.cast(k, "int64"), []), 0))
    return tuple(Counted(part, count, axis) for part in _in_order(emit, data, axis, largest))


@operator("TensorScatter", narrow=MOVES)
def tensor_scatter(
    emit: NodeEmitter,
    past: relax.Expr,
    update: relax.Expr,
    write_indices: relax.Expr | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> relax.Expr:
    """Write rows into a cache, from a place of each batch on; circular ones begin again."""
    shape, length = shape_of(past), shape_of(update)
    axis = emit.axis(axis, len(shape))
    places = emit.along(emit.positions(length[axis], "int64"), axis, len(shape))
    if write_indices is not None:
        begins = emit.reshape(write_indices, [shape[0], *[1] * (len(shape) - 1)])
        places = emit(relax.op.add(places, emit.cast(begins, "int64")))
    if mode == "circular":
        places = emit(relax.op.floor_mod(places, emit.scalar(shape[axis], places)))
    elif mode != "linear":
        raise emit.error(f"has the mode {mode!r}, which is neither linear nor circular.")
    elif write_indices is not None:
        # What is taken is the place itself, which is checked by it: none counts from the end.
        places = emit(relax.op.take(emit.positions(shape[axis], "int64"), places, 0))
    places = emit.broadcast(places, length)
    return emit(relax.op.scatter_elements(past, places, update, axis))
