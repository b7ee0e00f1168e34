# SPDX-License-Identifier: Apache-2.0
"""Splitting, joining, repeating and padding of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import tvm_ffi
from tvm import relax, tirx

from ....sizes.arithmetic import (
    ceil_div,
    is_empty,
    largest,
    require_equal,
    require_least,
    require_most,
    same_shape,
    smallest,
)
from ....sizes.size import AnySize, Size, hints_of, is_open, known_equal, prim
from ...emitter import constant, dtype_of, is_constant, shape_of
from ..node_emitter import SMALL, NodeEmitter
from .selection import computed_slice
from .table import Value, operator

_EDGES = {"constant": "constant", "edge": "replicate"}


@operator("Concat")
def concat(emit: NodeEmitter, *tensors: relax.Expr, axis: int = 1) -> relax.Expr:
    axis = emit.axis(axis, len(shape_of(tensors[0])))
    filled = [x for x in tensors if shape_of(x)[axis]] or [tensors[0]]
    if len(filled) == 1:
        return filled[0]
    return emit(relax.op.concat(filled, axis))


_UNEQUAL_PARTS = 18
"""The opset since which the last part of a ``Split`` may be smaller."""


@operator("Split")
def split(
    emit: NodeEmitter,
    data: relax.Expr,
    split: relax.Expr | None = None,
    *,
    axis: int = 0,
    num_outputs: int | None = None,
) -> Value:
    """Split into parts of given sizes, or of the same; since opset 18, the last may be smaller."""
    axis = emit.axis(axis, len(shape_of(data)))
    length, count = shape_of(data)[axis], num_outputs or emit.num_outputs
    if split is not None:
        sizes = emit.integers(split, "the sizes of its parts")
    else:
        if emit.opset < _UNEQUAL_PARTS and not require_equal(length % count, 0):
            raise emit.error(f"splits an axis of {length} into {count} equal parts.")
        each = -(-length // count)
        # Only the last part may be smaller.
        sizes = [*[each] * (count - 1), length - (count - 1) * each]
    fit = all(require_least(size, 1 if is_open([size]) else 0) for size in sizes)
    if not (fit and require_equal(sum(sizes), length)):
        raise emit.error(f"splits an axis of {length} into {sizes}.")
    emit.expect(len(sizes))
    if len(sizes) == 1:
        return (data,)
    if is_empty(sizes) or is_open(sizes[:-1]):  # Relax's operator splits at places that are known
        return tuple(
            emit.slice(data, axis, end - size, end)
            for size, end in zip(sizes, accumulate(sizes), strict=True)
        )
    parts = emit(relax.op.split(data, list(accumulate(sizes))[:-1], axis))
    return tuple(emit(relax.TupleGetItem(parts, i)) for i in range(len(sizes)))


def picked(emit: NodeEmitter, data: relax.Expr, place: AnySize, axis: int) -> relax.Expr:
    """Return the part at a place along an axis, without the axis."""
    shape = shape_of(data)
    axis = emit.axis(axis, len(shape))
    part = emit.slice(data, axis, place, place + 1)
    return emit.reshape(part, [*shape[:axis], *shape[axis + 1 :]])


@operator("Slice")
def slice_(
    emit: NodeEmitter,
    data: relax.Expr,
    starts: relax.Expr,
    ends: relax.Expr,
    axes: relax.Expr | None = None,
    steps: relax.Expr | None = None,
) -> Value:
    shape = shape_of(data)
    if any(emit.known(x) is None for x in (starts, ends)) and shape_of(starts) == (1,):
        axis = 0 if axes is None else emit.axis(emit.integers(axes, "its axis")[0], len(shape))
        step = 1 if steps is None else emit.integers(steps, "its step")[0]
        return computed_slice(emit, data, axis, starts, ends, step)
    begins, stops = emit.integers(starts, "its starts"), emit.integers(ends, "its ends")
    given = range(len(begins)) if axes is None else emit.integers(axes, "its axes")
    chosen = emit.axes(list(given), len(shape))
    strides = [1] * len(begins) if steps is None else emit.integers(steps, "its steps")
    if 0 in strides:
        raise emit.error("has a step of 0.")
    ranges = [
        _bounds(begin, end, step, shape[axis])
        for axis, begin, end, step in zip(chosen, begins, stops, strides, strict=True)
    ]
    return _sliced(emit, data, dict(zip(chosen, ranges, strict=True)))


_Bounds = tuple[AnySize, AnySize, int]
"""The begin, the end and the step of a slice."""


def _bounds(start: AnySize, end: AnySize, step: int, size: AnySize) -> _Bounds:
    """Return the begin and the end as places; unlike Python's, the begin is an element's."""
    if is_open((start, end, size)):
        if step < 0:
            return _place(start, size, size - 1), _place(end, size, size - 1, -1), step
        # No element is a size that is not supported, so that a begin is a place of the axis.
        inside = not is_open([start]) and start >= 0 and require_least(size, start + 1)
        return start if inside else _place(start, size, size), _place(end, size, size), step
    begin, end, step = slice(start, end, step).indices(size)
    return (max(begin, 0), end, step) if size else (0, 0, step)


def _place(place: AnySize, size: AnySize, last: AnySize, first: int = 0) -> AnySize:
    """Return a place that may count from the end of an axis, between the first and the last."""
    if not is_open([place]):
        return largest(first, size + place) if place < 0 else smallest(place, last)
    if place < 0:  # for the example
        return largest(first, size + place)
    return _fitting(place, last)


def _fitting(place: AnySize, last: AnySize) -> AnySize:
    """Return a computed place, which must lie within an axis whose size is no open one."""
    if not is_open([last]) and require_most(place, last):
        return place
    return smallest(place, last)


def _length(begin: AnySize, end: AnySize, step: int) -> AnySize:
    """Return how many elements a slice has."""
    if not is_open((begin, end)):
        first, last = hints_of((begin, end))
        return len(range(first, last, step))
    if step < 0:
        begin, end, step = end + 1, begin + 1, -step
    return ceil_div(end - begin, step) if require_least(end - begin, 1) else 0


def _sliced(emit: NodeEmitter, data: relax.Expr, ranges: dict[int, _Bounds]) -> relax.Expr:
    """Slice by the begin, end and step of some axes, of which an end of -1 is before the first."""
    shape = shape_of(data)
    lengths = {axis: _length(*bounds) for axis, bounds in ranges.items()}
    if is_empty(lengths.values()):
        sizes = [lengths.get(axis, number) for axis, number in enumerate(shape)]
        return emit.full(sizes, 0, dtype_of(data))
    moved = {a: r for a, r in ranges.items() if not _is_whole(r, shape[a])}
    if not moved:
        return data
    # In Relax, -1 counts from the back, too; the end before the first element is -size - 1.
    ends = [
        end if step > 0 or end >= 0 else -shape[axis] - 1
        for axis, (begin, end, step) in moved.items()
    ]
    begins, steps = ([r[i] for r in moved.values()] for i in (0, 2))
    part = relax.op.strided_slice(data, list(moved), begins, ends, steps)
    whole = [lengths.get(axis, size) for axis, size in enumerate(shape)]
    if is_open((*whole, *shape)) and not _is_seen(emit, part, whole):
        return _taken(emit, data, moved, lengths)
    return emit(part)


def _is_seen(emit: NodeEmitter, part: relax.Expr, shape: Sequence[AnySize]) -> bool:
    """Return whether Relax sees the shape of a part."""
    sizes = emit.builder.normalize(part).ty.shape
    return sizes is not None and all(
        bool(tvm_ffi.structural_equal(written, prim(size)))
        if isinstance(size, Size)
        else isinstance(written, tirx.IntImm)
        for written, size in zip(sizes.values, shape, strict=True)
    )


def _taken(
    emit: NodeEmitter, data: relax.Expr, ranges: dict[int, _Bounds], lengths: dict[int, AnySize]
) -> relax.Expr:
    """Slice by places, one axis after the other."""
    for axis, (begin, _, step) in ranges.items():
        places = emit.positions(lengths[axis], "int64")
        if step != 1:
            places = emit(relax.op.multiply(places, emit.scalar(step, places)))
        places = emit(relax.op.add(places, emit.sizes(begin)))
        data = emit(relax.op.take(data, places, axis, "clip"))
    return data


def _is_whole(bounds: _Bounds, size: AnySize) -> bool:
    begin, end, step = bounds
    return step == 1 and known_equal(begin, 0) and known_equal(end, size)


@operator("Tile")
def tile(emit: NodeEmitter, data: relax.Expr, repeats: relax.Expr) -> relax.Expr:
    counts = emit.integers(repeats, "its repeats")
    shape = [size * count for size, count in zip(shape_of(data), counts, strict=True)]
    if same_shape(shape_of(data), shape):
        return data
    if is_open(counts):
        return _repeated(emit, data, counts)
    if is_constant(data) and not is_open(shape) and np.prod(shape) <= SMALL:
        emit.allocate(shape, dtype_of(data))
        return constant(np.tile(emit.array(data, "what it repeats"), counts))
    return emit(relax.op.tile(data, counts))


def _repeated(emit: NodeEmitter, data: relax.Expr, counts: Sequence[AnySize]) -> relax.Expr:
    """Repeat by numbers that are open sizes: each axis becomes two, of which one is broadcast."""
    shape = shape_of(data)
    apart = [part for size in shape for part in (1, size)]
    wide = [part for pair in zip(counts, shape, strict=True) for part in pair]
    repeated = emit.broadcast(emit.reshape(data, apart), wide)
    return emit.reshape(repeated, [a * b for a, b in zip(counts, shape, strict=True)])


@operator("Pad")
def pad(
    emit: NodeEmitter,
    data: relax.Expr,
    pads: relax.Expr,
    value: relax.Expr | None = None,
    axes: relax.Expr | None = None,
    *,
    mode: str = "constant",
) -> relax.Expr:
    """Pad, or crop where a number is negative."""
    ndim = len(shape_of(data))
    given = range(ndim) if axes is None else emit.integers(axes, "its axes")
    chosen, numbers = emit.axes(list(given), ndim), emit.integers(pads, "its pads")
    if len(numbers) != 2 * len(chosen):
        raise emit.error(f"has {len(numbers)} pads for {len(chosen)} axes.")
    widths = {axis: (numbers[i], numbers[len(chosen) + i]) for i, axis in enumerate(chosen)}
    for axis, (before, after) in widths.items():
        size = shape_of(data)[axis]
        bounds = (largest(-before, 0), size + smallest(after, 0), 1)
        if not require_least(bounds[1] - bounds[0], 0):
            raise emit.error(f"crops an axis of {size} by more than it has.")
        data = _sliced(emit, data, {axis: bounds})
    added = {axis: (largest(b, 0), largest(a, 0)) for axis, (b, a) in widths.items()}
    some = {axis: w for axis, w in added.items() if not all(known_equal(n, 0) for n in w)}
    return _padded(emit, data, some, value, mode)


def _padded(
    emit: NodeEmitter,
    data: relax.Expr,
    widths: dict[int, tuple[AnySize, AnySize]],
    value: relax.Expr | None,
    mode: str,
) -> relax.Expr:
    if not widths:
        return data
    if mode != "constant" and is_empty(shape_of(data)[axis] for axis in widths):
        raise emit.error("repeats elements of an axis of which none is left.")
    if mode in ("reflect", "wrap"):
        return _mirrored(emit, data, widths, mode)
    if mode not in _EDGES:
        raise emit.error(f"has the mode {mode!r}, which is not known.")
    if mode == "constant" and value is not None and not is_constant(value):
        return _padded_by_computed(emit, data, widths, value)
    number = 0.0 if value is None else emit.number(value, "the value that it pads with")
    if any(map(is_open, widths.values())):
        return padded_by_places(emit, data, widths, mode, number)
    flat = [n for axis in range(len(shape_of(data))) for n in widths.get(axis, (0, 0))]
    return emit(relax.op.nn.pad(data, flat, _EDGES[mode], number))


def _padded_by_computed(
    emit: NodeEmitter,
    data: relax.Expr,
    widths: dict[int, tuple[AnySize, AnySize]],
    value: relax.Expr,
) -> relax.Expr:
    """Pad by a number that is computed while the model runs."""
    number = emit.reshape(value, [1] * len(shape_of(data)))
    for axis, sizes in widths.items():
        shape = list(shape_of(data))
        borders = [
            [emit.broadcast(number, [*shape[:axis], size, *shape[axis + 1 :]])] if size else []
            for size in sizes
        ]
        data = emit(relax.op.concat([*borders[0], data, *borders[1]], axis))
    return data


def padded_by_places(
    emit: NodeEmitter,
    data: relax.Expr,
    widths: dict[int, tuple[AnySize, AnySize]],
    mode: str,
    number: float,
) -> relax.Expr:
    """Pad by open sizes: take the nearest elements, and replace those beyond the ends."""
    ndim = len(shape_of(data))
    for axis, (before, after) in widths.items():
        size = shape_of(data)[axis]
        places = _moved(emit, before + size + after, before)
        low = emit(relax.op.maximum(places, relax.const(0, "int64")))
        last = emit.sizes(size - 1)
        data = emit(relax.op.take(data, emit(relax.op.minimum(low, last)), axis, "clip"))
        if mode == "constant":
            above = emit(relax.op.greater_equal(places, relax.const(0, "int64")))
            inside = emit(relax.op.logical_and(above, emit(relax.op.less_equal(places, last))))
            kept = emit.along(inside, axis, ndim)
            data = emit(relax.op.where(kept, data, emit.scalar(number, data)))
    return data


def _moved(emit: NodeEmitter, count: AnySize, before: AnySize) -> relax.Expr:
    """Return the places ``-before, -before + 1, ...`` of an axis that is padded."""
    return emit(relax.op.subtract(emit.positions(count, "int64"), emit.sizes(before)))


def _mirrored(
    emit: NodeEmitter, data: relax.Expr, widths: dict[int, tuple[AnySize, AnySize]], mode: str
) -> relax.Expr:
    """Pad by reflection without the border's pixels, or by the other end of the axis."""
    for axis, (before, after) in widths.items():
        size = shape_of(data)[axis]
        most = largest(before, after)
        if mode == "reflect" and not require_most(most, size - 1):
            raise emit.error(f"reflects {most} elements of an axis of {size}.")
        if is_open((before, size, after)):
            places = _mirrored_places(emit, before, size, after, mode)
        else:
            numpy_mode = "reflect" if mode == "reflect" else "wrap"
            known = np.pad(np.arange(size), (before, after), numpy_mode)  # type: ignore[call-overload]
            emit.allocate([known.size], "int64")
            places = constant(known)
        data = emit(relax.op.take(data, places, axis, "clip"))
    return data


def _mirrored_places(
    emit: NodeEmitter, before: AnySize, size: AnySize, after: AnySize, mode: str
) -> relax.Expr:
    """Return the places that elements of a padded axis of open sizes are from."""
    places = _moved(emit, before + size + after, before)
    if mode == "wrap":
        return emit(relax.op.floor_mod(places, emit.sizes(size)))
    last = emit.sizes(size - 1)
    beyond = emit(relax.op.abs(emit(relax.op.subtract(last, emit(relax.op.abs(places))))))
    return emit(relax.op.subtract(last, beyond))


@operator("Trilu")
def trilu(
    emit: NodeEmitter, data: relax.Expr, k: relax.Expr | None = None, *, upper: int = 1
) -> relax.Expr:
    """Keep the elements above, or below, a diagonal, and set the others to 0."""
    if k is None or is_constant(k):
        diagonal = 0 if k is None else int(emit.number(k, "its diagonal"))
        return emit((relax.op.triu if upper else relax.op.tril)(data, diagonal))
    rows, columns = shape_of(data)[-2:]
    if is_open((rows, columns)):
        below = emit.reshape(emit.positions(rows, "int64"), [rows, 1])
        diagonals = emit(relax.op.subtract(emit.positions(columns, "int64"), below))
    else:
        emit.allocate([rows, columns], "int64")
        diagonals = constant(np.arange(columns) - np.arange(rows)[:, None])
    build = relax.op.greater_equal if upper else relax.op.less_equal
    kept = emit(build(diagonals, emit.reshape(emit.cast(k, "int64"), [])))
    return emit(relax.op.where(kept, data, emit.scalar(0, data)))


@operator("ReverseSequence")
def reverse_sequence(
    emit: NodeEmitter,
    data: relax.Expr,
    sequence_lens: relax.Expr,
    *,
    batch_axis: int = 1,
    time_axis: int = 0,
) -> relax.Expr:
    return emit(relax.op.reverse_sequence(data, sequence_lens, time_axis, batch_axis))
