# SPDX-License-Identifier: Apache-2.0
"""Padding, dilation, and conversion between blocks of an image and a batch."""

from __future__ import annotations

import math

from tvm import relax

from ...frontend.emitter import Emitter, shape_of
from .table import operator

Sizes = tuple[int, ...]
Widths = tuple[tuple[int, int], ...]

_MODES = {"constant": "constant", "edge": "replicate", "reflect": "reflect"}


def _widths(emit: Emitter, widths: Widths, count: int) -> Widths:
    """Return the padding of each axis after checking it."""
    pairs = [isinstance(pair, tuple) and len(pair) == 2 and min(pair) >= 0 for pair in widths]
    if len(widths) != count or not all(pairs):
        raise emit.error(
            f"pads {count} axes by {widths}; it needs two non-negative numbers for each."
        )
    return tuple((int(before), int(after)) for before, after in widths)


def _padded(
    emit: Emitter, data: relax.Expr, widths: Widths, mode: str = "constant", value: float = 0.0
) -> relax.Expr:
    if not any(map(sum, widths)):
        return data
    flat = [number for pair in widths for number in pair]
    return emit(relax.op.nn.pad(data, flat, mode, value))


@operator("nn.pad")
def pad(
    emit: Emitter,
    data: relax.Expr,
    pad_value: relax.Expr,
    *,
    pad_width: Widths,
    pad_mode: str = "constant",
) -> relax.Expr:
    if pad_mode not in _MODES:
        raise emit.error(f"has pad_mode {pad_mode!r}; there are: {', '.join(_MODES)}.")
    value = emit.number(pad_value, "pad_value") if pad_mode == "constant" else 0.0
    widths = _widths(emit, pad_width, len(shape_of(data)))
    return _padded(emit, data, widths, _MODES[pad_mode], value)


@operator("nn.mirror_pad")
def mirror_pad(
    emit: Emitter, data: relax.Expr, *, pad_width: Widths, mode: str = "SYMMETRIC"
) -> relax.Expr:
    """Pad by reflection at the border, with its pixels (SYMMETRIC) or without (REFLECT)."""
    if mode not in ("SYMMETRIC", "REFLECT"):
        raise emit.error(f"has mode {mode!r}, which is neither SYMMETRIC nor REFLECT.")
    widths = _widths(emit, pad_width, len(shape_of(data)))
    skipped = int(mode == "REFLECT")
    for axis, (before, after) in enumerate(widths):
        size = shape_of(data)[axis]
        if max(before, after) > size - skipped:
            raise emit.error(f"pads an axis of {size} by {max(before, after)}, which is too much.")
        parts = [data]
        if before:
            head = emit.slice(data, axis, skipped, skipped + before)
            parts.insert(0, emit(relax.op.flip(head, axis)))
        if after:
            tail = emit.slice(data, axis, size - skipped - after, size - skipped)
            parts.append(emit(relax.op.flip(tail, axis)))
        data = emit(relax.op.concat(parts, axis)) if len(parts) > 1 else data
    return data


@operator("nn.dilate")
def dilate(
    emit: Emitter, data: relax.Expr, *, strides: Sizes, dilation_value: float = 0.0
) -> relax.Expr:
    """Insert ``stride - 1`` values between any two elements, by padding each element."""
    shape = shape_of(data)
    apart = emit.reshape(data, [size for n in shape for size in (n, 1)])
    widths = tuple(pair for s in strides for pair in ((0, 0), (0, s - 1)))
    apart = _padded(emit, apart, _widths(emit, widths, 2 * len(shape)), value=dilation_value)
    sizes = [n * s for n, s in zip(shape, strides, strict=True)]
    result = emit.reshape(apart, sizes)
    for axis, stride in enumerate(strides):
        result = emit.slice(result, axis, 0, sizes[axis] - stride + 1)
    return result


@operator("nn.space_to_batch_nd")
def space_to_batch_nd(
    emit: Emitter,
    data: relax.Expr,
    *,
    block_shape: Sizes,
    paddings: Widths,
    pad_value: float = 0.0,
) -> relax.Expr:
    """Collect pixels that are a block apart in an image of their own."""
    rank = len(block_shape)
    others = len(shape_of(data)) - 1 - rank
    widths = ((0, 0), *paddings, *[(0, 0)] * others)
    data = _padded(emit, data, _widths(emit, widths, 1 + rank + others), value=pad_value)
    batch, *sizes = shape_of(data)
    image, rest = sizes[:rank], sizes[rank:]
    split = [part for n, b in zip(image, block_shape, strict=True) for part in (n // b, b)]
    parts = emit.reshape(data, [batch, *split, *rest])
    inner, outer = range(2, 2 * rank + 1, 2), range(1, 2 * rank + 1, 2)
    behind = range(2 * rank + 1, 2 * rank + 1 + others)
    moved = emit.transpose(parts, [*inner, 0, *outer, *behind])
    small = [n // b for n, b in zip(image, block_shape, strict=True)]
    return emit.reshape(moved, [batch * math.prod(block_shape), *small, *rest])


@operator("nn.batch_to_space_nd")
def batch_to_space_nd(
    emit: Emitter, data: relax.Expr, *, block_shape: Sizes, crops: Widths
) -> relax.Expr:
    """Invert ``space_to_batch_nd``, and crop the border."""
    rank = len(block_shape)
    count, *sizes = shape_of(data)
    image, rest = sizes[:rank], sizes[rank:]
    batch = count // math.prod(block_shape)
    parts = emit.reshape(data, [*block_shape, batch, *image, *rest])
    pairs = [axis for i in range(rank) for axis in (rank + 1 + i, i)]
    behind = range(2 * rank + 1, 2 * rank + 1 + len(rest))
    moved = emit.transpose(parts, [rank, *pairs, *behind])
    whole = [n * b for n, b in zip(image, block_shape, strict=True)]
    result = emit.reshape(moved, [batch, *whole, *rest])
    for axis, (before, after) in enumerate(_widths(emit, crops, rank), 1):
        result = emit.slice(result, axis, before, whole[axis - 1] - after)
    return result
