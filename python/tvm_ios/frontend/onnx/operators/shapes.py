# SPDX-License-Identifier: Apache-2.0
"""Operators on shapes, and on the order of axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tvm import relax

from ....sizes.arithmetic import broadcast, is_empty, require_equal, require_least, without_common
from ....sizes.size import AnySize, is_open
from ...emitter import constant, dtype_of, is_constant, shape_of
from ..node_emitter import NodeEmitter
from .table import MOVES, TAKES, Value, operator


@operator("Shape", narrow=MOVES)
def shape(
    emit: NodeEmitter, data: relax.Expr, *, start: int = 0, end: int | None = None
) -> relax.Expr:
    return emit.sizes(shape_of(data)[start:end])


@operator("Size", narrow=MOVES)
def size(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
    return emit.sizes(math.prod(shape_of(data)))


@operator("Identity", narrow=TAKES)
def identity(emit: NodeEmitter, data: Value) -> Value:
    return (data,)  # a sequence is one result


@operator("Reshape", narrow=MOVES)
def reshape(
    emit: NodeEmitter, data: relax.Expr, shape: relax.Expr, *, allowzero: int = 0
) -> relax.Expr:
    """Reshape; 0 keeps a size, and -1 is inferred."""
    wanted, given = emit.integers(shape, "its shape"), shape_of(data)
    sizes = list(wanted)
    for axis, number in enumerate(wanted):
        if is_empty([number]) and not allowzero:
            if axis >= len(given):
                raise emit.error(f"keeps axis {axis} of a tensor of {list(given)}.")
            sizes[axis] = given[axis]
    return emit.reshape(data, _inferred(emit, given, sizes, wanted))


def _inferred(
    emit: NodeEmitter, given: Sequence[AnySize], sizes: list[AnySize], wanted: Sequence[AnySize]
) -> list[AnySize]:
    """Return sizes with -1 replaced, which have as many elements as are given."""
    places = [i for i, size in enumerate(sizes) if not is_open([size]) and size == -1]
    known = [size for i, size in enumerate(sizes) if i not in places]
    above, below = without_common(given, known)
    whole, part = math.prod(above), math.prod(below)
    if len(places) == 1 and not is_empty(known):
        sizes[places[0]] = whole // part
        whole, places = whole // part * part, []
        above, below = [math.prod(above)], [whole]
    least = (require_least(s, 1) if is_open([s]) else s >= 0 for s in sizes)
    if places or not all(least) or not require_equal(math.prod(above), math.prod(below)):
        raise emit.error(f"cannot give shape {list(wanted)} to a tensor of {list(given)}.")
    return sizes


@operator("Flatten", narrow=MOVES)
def flatten(emit: NodeEmitter, data: relax.Expr, *, axis: int = 1) -> relax.Expr:
    sizes = shape_of(data)
    first = axis if axis == len(sizes) else emit.axis(axis, len(sizes))
    return emit.reshape(data, [math.prod(sizes[:first]), math.prod(sizes[first:])])


@operator("Squeeze", narrow=MOVES)
def squeeze(emit: NodeEmitter, data: relax.Expr, axes: relax.Expr | None = None) -> relax.Expr:
    sizes = shape_of(data)
    if axes is None:
        return emit.reshape(data, [number for number in sizes if number != 1])
    removed = emit.axes(emit.integers(axes, "its axes"), len(sizes))
    if not all(require_equal(sizes[axis], 1) for axis in removed):
        raise emit.error(f"removes the axes {removed} of {list(sizes)}, which are not all 1.")
    if is_constant(data):
        return emit.reshape(data, [number for i, number in enumerate(sizes) if i not in removed])
    return emit(relax.op.squeeze(data, removed)) if removed else data


@operator("Unsqueeze", narrow=MOVES)
def unsqueeze(emit: NodeEmitter, data: relax.Expr, axes: relax.Expr) -> relax.Expr:
    added = emit.integers(axes, "its axes")
    ndim = len(shape_of(data)) + len(added)
    places, kept = emit.axes(added, ndim), iter(shape_of(data))
    if places and not is_constant(data):
        return emit(relax.op.expand_dims(data, sorted(places)))
    return emit.reshape(data, [1 if axis in places else next(kept) for axis in range(ndim)])


@operator("Transpose", narrow=MOVES)
def transpose(
    emit: NodeEmitter, data: relax.Expr, *, perm: Sequence[int] | None = None
) -> relax.Expr:
    ndim = len(shape_of(data))
    order = list(range(ndim))[::-1] if perm is None else emit.axes(perm, ndim)
    if len(order) != ndim:
        raise emit.error(f"has the order {order} for a tensor of {ndim} axes.")
    return emit.transpose(data, order)


@operator("Expand")
def expand(emit: NodeEmitter, data: relax.Expr, shape: relax.Expr) -> relax.Expr:
    """Broadcast a tensor and a shape with each other."""
    wanted = emit.integers(shape, "its shape")
    return emit.broadcast(data, broadcast(shape_of(data), wanted))


@operator("DepthToSpace")
def depth_to_space(
    emit: NodeEmitter, data: relax.Expr, *, blocksize: int, mode: str = "DCR"
) -> relax.Expr:
    """Move channels to pixels; the block is before (DCR) or behind (CRD) the channels."""
    n, c, h, w = shape_of(data)
    b, rest = blocksize, c // blocksize**2
    if not require_equal(rest * b * b, c):
        raise emit.error(f"makes blocks of {b} from {c} channels.")
    if mode not in ("DCR", "CRD"):
        raise emit.error(f"has the mode {mode!r}, which is neither DCR nor CRD.")
    parts = (n, b, b, rest, h, w) if mode == "DCR" else (n, rest, b, b, h, w)
    order = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    moved = emit.transpose(emit.reshape(data, parts), order)
    return emit.reshape(moved, (n, rest, h * b, w * b))


@operator("SpaceToDepth")
def space_to_depth(
    emit: NodeEmitter, data: relax.Expr, *, blocksize: int, mode: str = "DCR"
) -> relax.Expr:
    """Move pixels to channels; the block is before (DCR) or behind (CRD) the channels."""
    n, c, h, w = shape_of(data)
    b = blocksize
    if not (require_equal(h % b, 0) and require_equal(w % b, 0)):
        raise emit.error(f"takes blocks of {b} from images of {[h, w]}.")
    parts = emit.reshape(data, (n, c, h // b, b, w // b, b))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return emit.reshape(emit.transpose(parts, order), (n, c * b * b, h // b, w // b))


@operator("Col2Im")
def col2im(
    emit: NodeEmitter,
    data: relax.Expr,
    image_shape: relax.Expr,
    block_shape: relax.Expr,
    *,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> relax.Expr:
    """Add the columns of blocks to the pixels that they are from."""
    emit.reject_truths(data)
    image, block = (emit.integers(x, "its sizes") for x in (image_shape, block_shape))
    rank = len(image)
    holes, steps = (list(given or [1] * rank) for given in (dilations, strides))
    around = list(pads or [0] * 2 * rank)
    n, c = shape_of(data)[0], shape_of(data)[1] // math.prod(block)
    padded = [s + around[i] + around[rank + i] for i, s in enumerate(image)]
    counts = [(padded[i] - (block[i] - 1) * holes[i] - 1) // steps[i] + 1 for i in range(rank)]
    grids = np.meshgrid(
        *(np.arange(b) * h for b, h in zip(block, holes, strict=True)),
        *(np.arange(k) * s for k, s in zip(counts, steps, strict=True)),
        indexing="ij",
    )
    places = [grids[i] + grids[rank + i] for i in range(rank)]
    flat = np.ravel_multi_index(places, padded).reshape(-1)
    rows = emit.reshape(data, [n * c, flat.size])
    emit.allocate([n * c, flat.size], "int64")
    indices = constant(np.broadcast_to(flat.astype("int64"), (n * c, flat.size)))
    total = emit.filled([n * c, math.prod(padded)], 0, dtype_of(data))
    summed = emit(relax.op.scatter_elements(total, indices, rows, 1, "add"))
    result = emit.reshape(summed, [n, c, *padded])
    for i, s in enumerate(image):
        result = emit.slice(result, 2 + i, around[i], around[i] + s)
    return result
