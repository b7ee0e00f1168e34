# SPDX-License-Identifier: Apache-2.0
"""Poolings of one to three dimensions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax

from ....sizes.arithmetic import same_shape
from ....sizes.size import AnySize, Size, is_open, known_equal
from ...emitter import constant, dtype_of, shape_of
from ..node_emitter import NodeEmitter
from ..numbers import is_integer
from .convolution import convolved
from .table import Value, operator
from .window import WINDOW, Window, window_of, with_known_padding

Sizes = Sequence[AnySize]


def _pool(
    emit: NodeEmitter, kind: str, data: relax.Expr, window: Window, **options: Any
) -> relax.Expr:
    """Pool with a window that stays within the padding."""
    rank = len(window.kernel)
    if not 1 <= rank <= 3:
        raise emit.error(f"has data of {rank + 2} axes; 3 to 5 are supported.")
    build = getattr(relax.op.nn, f"{kind}_pool{rank}d")
    layout = f"NC{'DHW'[-rank:]}"
    return emit(
        build(
            data,
            window.kernel,
            window.strides,
            window.padding,
            window.dilations,
            False,
            layout=layout,
            **options,
        )
    )


def _reaching(window: Window, sizes: Sizes, ceil: bool) -> Window:
    """Return a window with as much padding as its last place needs; see :func:`_cropped`."""
    if not ceil:
        return window
    if is_open(sizes):
        pairs = zip(window.after, window.strides, strict=True)
        return replace(window, after=[after + stride - 1 for after, stride in pairs])
    after = [
        max((count - 1) * stride + extent - size - before, 0)
        for count, stride, extent, size, before in zip(
            window.counts(sizes, ceil), window.strides, window.extents, sizes, window.before,
            strict=True,
        )
    ]  # fmt: skip
    return replace(window, after=after)


def _cropped(
    emit: NodeEmitter, result: relax.Expr, data: relax.Expr, padded: Window, ceil: bool
) -> relax.Expr:
    """Leave out the last places of a window that reaches further than sizes need."""
    for axis, count in enumerate(padded.counts(shape_of(data)[2:], ceil), 2):
        result = emit.slice(result, axis, 0, count)
    return result


def _least(dtype: str) -> float:
    return int(np.iinfo(dtype).min) if is_integer(dtype) else -math.inf


@operator("MaxPool", shared=WINDOW)
def max_pool(
    emit: NodeEmitter,
    data: relax.Expr,
    *,
    ceil_mode: int = 0,
    storage_order: int = 0,
    **window: Any,
) -> Value:
    """Return the largest elements of windows, and their places in the flattened data."""
    if not emit.wants(1):
        padded = window_of(emit, shape_of(data)[2:], **window)
        moved = _reaching(padded, shape_of(data)[2:], bool(ceil_mode))
        ahead = with_known_padding(emit, data, moved, _least(dtype_of(data)))
        pooled = _pool(emit, "max", *ahead)
        return (_cropped(emit, pooled, data, padded, bool(ceil_mode)),)
    largest, places = largest_with_places(
        emit, data, ceil_mode=ceil_mode, storage_order=storage_order, **window
    )
    shape = shape_of(data)
    numbers = emit.positions(shape[0] * shape[1], "int64")
    planes = emit.product(numbers, relax.const(math.prod(shape[2:]), "int64"))
    offsets = emit.reshape(planes, [*shape[:2], *[1] * len(shape[2:])])
    return largest, emit(relax.op.add(places, offsets))


def _moved(
    emit: NodeEmitter, data: relax.Expr, ceil_mode: int, window: Mapping[str, Any]
) -> Window:
    sizes = shape_of(data)[2:]
    return _reaching(window_of(emit, sizes, **window), sizes, bool(ceil_mode))


def largest_with_places(
    emit: NodeEmitter,
    data: relax.Expr,
    *,
    ceil_mode: int = 0,
    storage_order: int = 0,
    **window: Any,
) -> tuple[relax.Expr, relax.Expr]:
    """Return the first largest element of each window, and its place in its flattened plane.

    The elements of each window are gathered side by side.
    """
    if is_open(shape_of(data)[2:]):
        raise emit.error("returns places in images of open sizes; give their sizes.")
    moved = _moved(emit, data, ceil_mode, window)
    shape, rank = shape_of(data), len(moved.kernel)
    places, inside = _places(moved, shape[2:])
    count, each = places.shape
    rows = emit.reshape(data, [shape[0] * shape[1], math.prod(shape[2:])])
    emit.allocate(places.shape, "int64")
    taken = emit(relax.op.take(rows, constant(places.reshape(-1)), 1, "clip"))
    windows = emit.reshape(taken, [shape[0] * shape[1], count, each])
    if not inside.all():
        least = emit.scalar(_least(dtype_of(data)), data)
        windows = emit(relax.op.where(constant(inside[None]), windows, least))
    result = [*shape[:2], *moved.counts(shape[2:])]
    largest = emit.reshape(emit(relax.op.max(windows, [2])), result)
    first = emit.cast(emit(relax.op.argmax(windows, 2)), "int64")
    named = places
    if storage_order and rank > 1:
        indices = np.unravel_index(places, shape[2:])
        named = np.ravel_multi_index(indices[::-1], shape[:1:-1])
    offsets = emit(relax.op.add(first, constant((np.arange(count) * each)[None])))
    found = emit(relax.op.take(constant(named.reshape(-1)), offsets, 0, "clip"))
    return largest, emit.reshape(found, result)


def _places(window: Window, sizes: Sizes) -> tuple[np.ndarray, np.ndarray]:
    """Return the flat place of each element of each window, and whether it is in the data."""
    rank, counts = len(sizes), window.counts(sizes)
    axes = []
    for axis in range(rank):
        begins = np.arange(counts[axis]) * window.strides[axis] - window.before[axis]
        axes.append(begins[:, None] + np.arange(window.kernel[axis]) * window.dilations[axis])
    flat = np.zeros((1, 1), "int64")
    inside = np.ones((1, 1), bool)
    for size, places in zip(sizes, axes, strict=True):
        within = (places >= 0) & (places < size)
        clipped = places.clip(0, size - 1)
        flat = flat[:, None, :, None] * size + clipped[None, :, None, :]
        inside = inside[:, None, :, None] & within[None, :, None, :]
        flat, inside = (x.reshape(math.prod(x.shape[:2]), -1) for x in (flat, inside))
    return flat, inside


@operator("AveragePool", shared=WINDOW)
def average_pool(
    emit: NodeEmitter,
    data: relax.Expr,
    *,
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    **window: Any,
) -> relax.Expr:
    """Return means of windows; what lies behind the padding never counts."""
    sizes = shape_of(data)[2:]
    padded = window_of(emit, sizes, **window)
    whole = _reaching(padded, sizes, bool(ceil_mode))
    pads = not all(known_equal(number, 0) for number in padded.padding)
    counting = bool(count_include_pad) and pads
    beyond = is_open(whole.padding) or (counting and not same_shape(whole.after, padded.after))
    if any(hole > 1 for hole in padded.dilations) or beyond:
        mean = _mean_of_windows(emit, data, whole, padded, counting)
    else:
        mean = _pool(emit, "avg", data, whole, count_include_pad=counting)
    return _cropped(emit, mean, data, padded, bool(ceil_mode))


def _mean_of_windows(
    emit: NodeEmitter, data: relax.Expr, whole: Window, padded: Window, counting: bool
) -> relax.Expr:
    """Divide sums of windows, which are depthwise convolutions, by what they count."""
    total = _sum_of_windows(emit, data, whole)
    if is_open(shape_of(data)[2:]):
        return _divided_by_counts(emit, total, shape_of(data)[2:], whole, padded, counting)
    counts = np.ones([1] * len(whole.kernel))
    for axis, size in enumerate(shape_of(data)[2:]):
        first = -padded.before[axis] if counting else 0
        last = size + (padded.after[axis] if counting else 0)
        begins = np.arange(shape_of(total)[2 + axis]) * whole.strides[axis] - whole.before[axis]
        places = begins[:, None] + np.arange(whole.kernel[axis]) * whole.dilations[axis]
        along = ((places >= first) & (places < last)).sum(1)
        counts = counts * along.reshape([-1 if i == axis else 1 for i in range(counts.ndim)])
    divisor = constant(counts[None, None].astype(dtype_of(data)))
    return emit(relax.op.divide(total, divisor))


def _divided_by_counts(
    emit: NodeEmitter,
    total: relax.Expr,
    sizes: Sizes,
    whole: Window,
    padded: Window,
    counting: bool,
) -> relax.Expr:
    """Divide sums by how many elements of each window count, along each axis."""
    for axis, size in enumerate(sizes):
        first: AnySize = -padded.before[axis] if counting else 0
        last = size + (padded.after[axis] if counting else 0)
        numbers = emit.positions(shape_of(total)[2 + axis], "int64")
        steps = emit(relax.op.multiply(numbers, relax.const(whole.strides[axis], "int64")))
        begins = emit(relax.op.subtract(steps, emit.sizes(whole.before[axis])))
        holes = constant((np.arange(whole.kernel[axis]) * whole.dilations[axis])[None])
        rows = emit.reshape(begins, [shape_of(total)[2 + axis], 1])
        places = emit(relax.op.add(rows, holes))
        above = emit(relax.op.greater_equal(places, emit.sizes(first)))
        below = emit(relax.op.less(places, emit.sizes(last)))
        inside = emit.cast(emit(relax.op.logical_and(above, below)), dtype_of(total))
        counts = emit(relax.op.sum(inside, [1]))
        total = emit(relax.op.divide(total, emit.along(counts, 2 + axis, len(shape_of(total)))))
    return total


def _sum_of_windows(emit: NodeEmitter, data: relax.Expr, window: Window) -> relax.Expr:
    channels = shape_of(data)[1]
    if isinstance(channels, Size):
        batch, _, *sizes = shape_of(data)
        planes = _sum_of_windows(emit, emit.reshape(data, [batch * channels, 1, *sizes]), window)
        return emit.reshape(planes, [batch, channels, *shape_of(planes)[2:]])
    ones = emit.full([channels, 1, *window.kernel], 1, dtype_of(data))
    return convolved(emit, data, ones, window, channels)


def sum_pool(
    emit: NodeEmitter, data: relax.Expr, *, ceil_mode: int = 0, **window: Any
) -> relax.Expr:
    """Return sums of windows."""
    padded = window_of(emit, shape_of(data)[2:], **window)
    whole = _reaching(padded, shape_of(data)[2:], bool(ceil_mode))
    total = _sum_of_windows(emit, data, whole)
    return _cropped(emit, total, data, padded, bool(ceil_mode))


@operator("LpPool", shared=WINDOW)
def lp_pool(
    emit: NodeEmitter,
    data: relax.Expr,
    *,
    ceil_mode: int = 0,
    p: int = 2,
    **window: Any,
) -> relax.Expr:
    """Return norms of windows."""
    total = sum_pool(emit, _powers(emit, data, p), ceil_mode=ceil_mode, **window)
    return _root(emit, total, p)


def _powers(emit: NodeEmitter, data: relax.Expr, p: int) -> relax.Expr:
    if p == 2:
        return emit(relax.op.multiply(data, data))
    size = emit(relax.op.abs(data))
    return size if p == 1 else emit(relax.op.power(size, emit.scalar(p, data)))


def _root(emit: NodeEmitter, total: relax.Expr, p: int) -> relax.Expr:
    if p == 1:
        return total
    if p == 2:
        return emit(relax.op.sqrt(total))
    return emit(relax.op.power(total, emit.scalar(1 / p, total)))


def _spatial_axes(emit: NodeEmitter, data: relax.Expr) -> list[int]:
    axes = list(range(2, len(shape_of(data))))
    if not axes:
        raise emit.error(f"has data of {list(shape_of(data))}, which are no images.")
    return axes


@operator("GlobalAveragePool")
def global_average_pool(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
    return emit(relax.op.mean(data, _spatial_axes(emit, data), True))


@operator("GlobalMaxPool")
def global_max_pool(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
    return emit(relax.op.max(data, _spatial_axes(emit, data), True))


@operator("GlobalLpPool")
def global_lp_pool(emit: NodeEmitter, data: relax.Expr, *, p: int = 2) -> relax.Expr:
    axes = _spatial_axes(emit, data)
    return _root(emit, emit(relax.op.sum(_powers(emit, data, p), axes, True)), p)


@operator("MaxUnpool")
def max_unpool(
    emit: NodeEmitter,
    data: relax.Expr,
    indices: relax.Expr,
    output_shape: relax.Expr | None = None,
    *,
    kernel_shape: Sizes,
    pads: Sizes | None = None,
    strides: Sizes | None = None,
) -> relax.Expr:
    """Write elements to the places that they had before a pooling."""
    shape = shape_of(data)
    window = window_of(emit, shape[2:], kernel_shape=kernel_shape, strides=strides, pads=pads)
    natural = [
        (size - 1) * stride + extent - before - after
        for size, stride, extent, before, after in zip(
            shape[2:], window.strides, window.extents, window.before, window.after, strict=True
        )
    ]
    smaller = [*shape[:2], *natural]
    final = smaller if output_shape is None else emit.integers(output_shape, "its shape")
    zeros = emit.filled([math.prod(smaller)], 0, dtype_of(data))
    count = math.prod(shape)
    flat = (emit.reshape(indices, [count]), emit.reshape(data, [count]))
    filled = emit.reshape(emit(relax.op.scatter_elements(zeros, *flat, 0)), smaller)
    if smaller == list(final):
        return filled
    widths = [n for a, b in zip(smaller, final, strict=True) for n in (0, b - a)]
    return emit(relax.op.nn.pad(filled, widths, "constant", 0.0))
