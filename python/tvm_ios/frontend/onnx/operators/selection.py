# SPDX-License-Identifier: Apache-2.0
"""Selections of elements, whose number the data decide."""

from __future__ import annotations

import math

import numpy as np
from tvm import relax

from ....ops.compaction import compacted
from ....ops.suppression import Suppression, suppressed
from ....sizes.arithmetic import ceil_div, require_equal
from ....sizes.size import AnySize, known_equal
from ...emitter import constant, constant_array, dtype_of, is_constant, shape_of
from ..counted import Counted
from ..node_emitter import NodeEmitter
from .table import Value, operator


@operator("NonZero")
def non_zero(emit: NodeEmitter, data: relax.Expr) -> Value:
    """Return the places of what is not 0, an axis a row."""
    known, shape = constant_array(data), shape_of(data) or (1,)
    if known is not None:
        places = np.array(np.nonzero(np.atleast_1d(known)), "int64")
        emit.allocate(places.shape, "int64")
        return constant(places)
    if 0 in shape:
        return emit.full([len(shape), 0], 0, "int64")
    truths = data
    if dtype_of(data) != "bool":
        truths = emit(relax.op.not_equal(data, emit.scalar(0, data)))
    places, count = compacted_places(emit, emit.reshape(truths, [math.prod(shape)]))
    rows = []
    for axis, size in enumerate(shape):
        behind = math.prod(shape[axis + 1 :])
        row = (
            places
            if known_equal(behind, 1)
            else emit(relax.op.floor_divide(places, emit.scalar(behind, places)))
        )
        rows.append(row if axis == 0 else emit(relax.op.mod(row, emit.scalar(size, row))))
    return Counted(emit(relax.op.stack(rows, 0)), count, 1)


@operator("Compress")
def compress(
    emit: NodeEmitter, data: relax.Expr, condition: relax.Expr, *, axis: int | None = None
) -> Value:
    """Keep elements along an axis where a condition holds, which may be shorter."""
    if axis is None:
        data, axis = emit.reshape(data, [math.prod(shape_of(data))]), 0
    axis = emit.axis(axis, len(shape_of(data)))
    length = min(math.prod(shape_of(condition)), shape_of(data)[axis])
    if is_constant(condition):
        kept = emit.array(condition, "which elements it keeps").reshape(-1)
        found = constant(np.flatnonzero(kept[:length]).astype("int64"))
        return emit(relax.op.take(data, found, axis, "clip"))
    if not length:
        return emit.slice(data, axis, 0, 0)
    flat = emit.reshape(condition, [math.prod(shape_of(condition))])
    places, count = compacted_places(emit, emit.slice(flat, 0, 0, length))
    return Counted(emit(relax.op.take(data, places, axis, "clip")), count, axis)


@operator("NonMaxSuppression")
def non_max_suppression(
    emit: NodeEmitter,
    boxes: relax.Expr,
    scores: relax.Expr,
    max_output_boxes_per_class: relax.Expr | None = None,
    iou_threshold: relax.Expr | None = None,
    score_threshold: relax.Expr | None = None,
    *,
    center_point_box: int = 0,
) -> Value:
    """Keep the boxes of each class that do not overlap better ones."""
    batch, count, classes = *shape_of(boxes)[:2], shape_of(scores)[1]
    given, wanted = (*shape_of(boxes), *shape_of(scores)), (batch, count, 4, batch, classes, count)
    if len(given) != len(wanted) or not all(map(require_equal, given, wanted)):
        raise emit.error(
            f"has boxes of {list(shape_of(boxes))} and scores of {list(shape_of(scores))}, which "
            "do not fit."
        )
    most = _number(emit, max_output_boxes_per_class, 0, "int64")
    known = constant_array(most)
    limit = count if known is None else int(known.reshape(-1)[0])
    if limit <= 0 or 0 in (batch, count, classes):
        return emit.full([0, 3], 0, "int64")
    overlap = _number(emit, iou_threshold, 0.0, "float32")
    known = constant_array(overlap)
    if known is not None and not 0 <= known.reshape(-1)[0] <= 1:
        raise emit.error(f"has an iou_threshold of {known.reshape(-1)[0]}, not from 0 to 1.")
    least = _number(emit, score_threshold, -math.inf, "float32")
    kind = Suppression(batch, classes, count, limit, bool(center_point_box))
    order = emit(relax.op.argsort(scores, 2, True, "int64"))
    tensors = [boxes, scores, order, most, overlap, least]
    kept, number = suppressed(emit.builder, kind, tensors)
    return Counted(kept, emit.reshape(number, []), 0)


def computed_slice(
    emit: NodeEmitter,
    data: relax.Expr,
    axis: int,
    start: relax.Expr,
    end: relax.Expr,
    step: int,
) -> Counted:
    """Return elements along an axis from a computed place to a computed place.

    Places count from the end if they are negative; those beyond the axis are moved to its ends.

    Parameters
    ----------
    emit : NodeEmitter
    data : relax.Expr
    axis : int
    start, end : relax.Expr
        Lists of one integer.
    step : int
    """
    if step == 0:
        raise emit.error("has a step of 0.")
    size = shape_of(data)[axis]
    if not size:
        raise emit.error("takes parts of an axis without elements, which is not supported.")
    # Backwards, an end may be before the first element.
    least, most = (0, size) if step > 0 else (-1, size - 1)
    begin = _limited(emit, start, size, 0, most)
    stop = _limited(emit, end, size, least, most)
    way = emit(relax.op.subtract(stop, begin) if step > 0 else relax.op.subtract(begin, stop))
    steps = emit(relax.op.add(way, emit.scalar(abs(step) - 1, way)))
    count = emit(relax.op.floor_divide(steps, emit.scalar(abs(step), way)))
    count = emit(relax.op.maximum(count, emit.scalar(0, way)))
    longest = emit.positions(ceil_div(size, abs(step)), "int64")
    moves = emit(relax.op.multiply(longest, emit.scalar(step, way)))
    places = emit(relax.op.add(moves, begin))
    above = emit(relax.op.maximum(places, emit.scalar(0, way)))
    valid = emit(relax.op.minimum(above, emit.scalar(size - 1, way)))
    return Counted(emit(relax.op.take(data, valid, axis, "clip")), count, axis)


def _limited(
    emit: NodeEmitter, place: relax.Expr, size: AnySize, least: int, most: AnySize
) -> relax.Expr:
    """Return a place that counts from the begin, within limits."""
    given = emit.cast(emit.reshape(place, []), "int64")
    negative = emit(relax.op.less(given, emit.scalar(0, given)))
    behind = emit(relax.op.add(given, emit.scalar(size, given)))
    above = emit(
        relax.op.maximum(emit(relax.op.where(negative, behind, given)), emit.scalar(least, given))
    )
    return emit(relax.op.minimum(above, emit.scalar(most, given)))


def compacted_places(emit: NodeEmitter, truths: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
    """Return the places of the truths of a list, one behind the other, and their number.

    The number has no axes.
    """
    places, count = compacted(emit.builder, truths)
    return places, emit.reshape(count, [])


def _number(emit: NodeEmitter, given: relax.Expr | None, default: float, dtype: str) -> relax.Expr:
    """Return an input, or what it is when it is left out, as a list of one number."""
    if given is None:
        return constant(np.array([default], dtype))
    if any(size != 1 for size in shape_of(given)):
        raise emit.error(f"needs one number, but is given {list(shape_of(given))}.")
    return emit.cast(emit.reshape(given, [1]), dtype)
