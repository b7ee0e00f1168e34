# SPDX-License-Identifier: Apache-2.0
"""Sampling of images at computed places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
from tvm import relax

from ....sizes.arithmetic import largest
from ....sizes.size import AnySize, Size
from ...emitter import constant, dtype_of, shape_of
from ..node_emitter import NodeEmitter
from .table import operator

_CUBIC_ALPHA = -0.75
_MODES = {"bilinear": 1, "linear": 1, "nearest": 0, "bicubic": 3, "cubic": 3}
"""The degrees of the interpolations."""


@operator("GridSample")
def grid_sample(
    emit: NodeEmitter,
    data: relax.Expr,
    grid: relax.Expr,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> relax.Expr:
    """Interpolate images of any number of axes at the places of a grid of [-1, 1]."""
    if mode not in _MODES:
        raise emit.error(f"has the mode {mode!r}; there are: {', '.join(_MODES)}.")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise emit.error(f"has the padding {padding_mode!r}, which is not known.")
    emit.reject_truths(data)
    if dtype_of(grid) == "bfloat16":  # of which TVM cannot tell whether it is finite
        grid = emit.cast(grid, "float32")
    sizes = shape_of(data)[2:]
    rank, axes = len(sizes), []
    for axis, size in enumerate(sizes):  # the grid's coordinates begin with the last axis
        last = rank - 1 - axis
        at = emit.reshape(emit.slice(grid, rank + 1, last, last + 1), shape_of(grid)[:-1])
        origin = _origin(emit, at, size, bool(align_corners))
        border = Border(padding_mode, size, bool(align_corners))
        axes.append(border.neighbours(emit, origin, _MODES[mode]))
    total = weighted(emit, data, axes)
    return emit.transpose(total, [0, rank + 1, *range(1, rank + 1)])


def weighted(
    emit: NodeEmitter, data: relax.Expr, axes: Sequence[Sequence[Neighbour]]
) -> relax.Expr:
    """Add up pixels times their weights.

    Parameters
    ----------
    emit : NodeEmitter
    data : relax.Expr
        Images ``[batch, channels, ...]``.
    axes : sequence of sequence of Neighbour
        The neighbours along each axis of the images, of places ``[batch, ...]``.

    Returns
    -------
    relax.Expr
        The channels of each place, as the last axis.
    """
    rows, count, sizes = _rows(emit, data), shape_of(data)[0], shape_of(data)[2:]
    emit.expect(math.prod(map(len, axes)))
    terms = [_term(emit, rows, count, sizes, corner) for corner in product(*axes)]
    total = terms[0]
    for term in terms[1:]:
        total = emit(relax.op.add(total, term))
    return total


Neighbour = tuple[relax.Expr, relax.Expr | None]
"""The places along an axis as whole numbers, and their weights."""


def _origin(emit: NodeEmitter, at: relax.Expr, size: AnySize, aligned: bool) -> relax.Expr:
    """Return the place in pixels of a coordinate from -1 to 1."""
    if aligned:
        moved = relax.op.add(at, emit.scalar(1, at))
        return emit(relax.op.multiply(moved, half_of(emit, size - 1, at)))
    moved = relax.op.multiply(at, half_of(emit, size, at))
    return emit(relax.op.add(moved, half_of(emit, size - 1, at)))


def half_of(emit: NodeEmitter, size: AnySize, like: relax.Expr) -> relax.Expr:
    """Return half a size in the type of a tensor."""
    if not isinstance(size, Size):
        return emit.scalar(size / 2, like)
    return emit(relax.op.multiply(emit.scalar(size, like), emit.scalar(0.5, like)))


class Border:
    """What lies beyond the ends of an axis."""

    def __init__(self, mode: str, size: AnySize, aligned: bool) -> None:
        self._mode, self._size = mode, size
        self._low = 0.0 if aligned else -0.5
        self._span: AnySize = size - 1 if aligned else size

    def neighbours(self, emit: NodeEmitter, origin: relax.Expr, degree: int) -> list[Neighbour]:
        """Return the neighbours of a place, of which there are the degree and one more."""
        if degree < 3:  # a cubic interpolation moves its neighbours instead
            origin = self._moved(emit, origin)
        if degree == 0:
            return [self._inside(emit, emit(relax.op.round(origin)), None)]
        left = emit(relax.op.floor(origin))
        rest = emit(relax.op.subtract(origin, left))
        found = []
        for offset, weight in _weights(emit, rest, degree):
            place = emit(relax.op.add(left, emit.scalar(offset, left))) if offset else left
            if degree == 3:
                place = emit(relax.op.round(self._moved(emit, place)))
            found.append(self._inside(emit, place, weight))
        return found

    def _moved(self, emit: NodeEmitter, place: relax.Expr) -> relax.Expr:
        """Return the place within the ends that one beyond stands for."""
        if self._mode == "border":
            return self._within(emit, place)
        if self._mode == "zeros":
            return place
        twice = 2 * self._span
        if not isinstance(twice, Size) and twice <= 0:
            return emit(relax.op.multiply(place, emit.scalar(0, place)))
        low = emit.scalar(self._low, place)
        distance = emit(relax.op.abs(relax.op.subtract(place, low)))
        if isinstance(twice, Size):
            twice = largest(twice, 1)  # for one element, which all places stand for
        period = emit.scalar(twice, place)
        turns = emit(relax.op.floor(relax.op.divide(distance, period)))
        whole = emit(relax.op.multiply(turns, period))
        rest = emit(relax.op.subtract(distance, whole))
        back = emit(relax.op.subtract(period, rest))
        reflected = emit(relax.op.add(emit(relax.op.minimum(rest, back)), low))
        return self._within(emit, reflected)

    def _within(self, emit: NodeEmitter, place: relax.Expr) -> relax.Expr:
        """Return the nearest place that is an element's."""
        if not isinstance(self._size, Size):
            return emit(relax.op.clip(place, 0.0, self._size - 1.0))
        low = emit(relax.op.maximum(place, emit.scalar(0, place)))
        return emit(relax.op.minimum(low, emit.scalar(self._size - 1, place)))

    def _inside(self, emit: NodeEmitter, place: relax.Expr, weight: relax.Expr | None) -> Neighbour:
        """Return a place within the ends; its weight is 0 where zeros are beyond."""
        limited = self._within(emit, place)
        if self._mode == "zeros":
            same = emit.cast(emit(relax.op.equal(limited, place)), dtype_of(place))
            weight = same if weight is None else emit(relax.op.multiply(weight, same))
        return emit.cast(limited, "int64"), weight


def _weights(emit: NodeEmitter, rest: relax.Expr, degree: int) -> list[tuple[int, relax.Expr]]:
    """Return the weights of neighbours, by the distance from the one below."""
    one = emit.scalar(1, rest)
    other = emit(relax.op.subtract(one, rest))
    if degree == 1:
        return [(0, other), (1, rest)]
    return [
        (-1, _far(emit, emit(relax.op.add(rest, one)))),
        (0, _near(emit, rest)),
        (1, _near(emit, other)),
        (2, _far(emit, emit(relax.op.add(other, one)))),
    ]


def _near(emit: NodeEmitter, x: relax.Expr) -> relax.Expr:
    """Return the cubic kernel for distances up to 1."""
    a = _CUBIC_ALPHA
    return _polynomial(emit, x, [a + 2, -(a + 3), 0, 1])


def _far(emit: NodeEmitter, x: relax.Expr) -> relax.Expr:
    """Return the cubic kernel for distances from 1 to 2."""
    a = _CUBIC_ALPHA
    return _polynomial(emit, x, [a, -5 * a, 8 * a, -4 * a])


def _polynomial(emit: NodeEmitter, x: relax.Expr, factors: Sequence[float]) -> relax.Expr:
    value = emit(relax.op.multiply(x, emit.scalar(factors[0], x)))
    for factor in factors[1:-1]:
        value = emit(relax.op.add(value, emit.scalar(factor, x)))
        value = emit(relax.op.multiply(value, x))
    return emit(relax.op.add(value, emit.scalar(factors[-1], x)))


def _rows(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
    """Return images as one row of channels for each pixel."""
    shape = shape_of(data)
    moved = emit.transpose(data, [0, *range(2, len(shape)), 1])
    return emit.reshape(moved, [shape[0] * math.prod(shape[2:]), shape[1]])


def _term(
    emit: NodeEmitter,
    rows: relax.Expr,
    count: AnySize,
    sizes: Sequence[AnySize],
    corner: Sequence[Neighbour],
) -> relax.Expr:
    """Return the pixels of one neighbour along each axis, times their weights."""
    ndim = len(shape_of(corner[0][0]))
    place = emit.along(emit.positions(count, "int64"), 0, ndim)
    weight: relax.Expr | None = None
    for size, (at, factor) in zip(sizes, corner, strict=True):
        place = emit(relax.op.add(relax.op.multiply(place, emit.scalar(size, place)), at))
        if factor is not None:
            weight = factor if weight is None else emit(relax.op.multiply(weight, factor))
    taken = emit(relax.op.take(rows, place, 0, "clip"))
    if weight is None:
        return taken
    weight = emit.cast(emit.reshape(weight, [*shape_of(weight), 1]), dtype_of(rows))
    return emit(relax.op.multiply(taken, weight))


@operator("AffineGrid")
def affine_grid(
    emit: NodeEmitter, theta: relax.Expr, size: relax.Expr, *, align_corners: int = 0
) -> relax.Expr:
    """Return the places that an affine map gives to the pixels of an image."""
    batch, _, *sizes = emit.integers(size, "its size")
    axes = []
    for length in sizes:
        at = np.linspace(-1, 1, length) if length > 1 else np.zeros(1)
        if not align_corners:
            at = (2 * np.arange(length) + 1) / length - 1
        axes.append(at)
    emit.allocate([*sizes, len(sizes) + 1], "float64")
    grids = [*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(sizes)]
    base = np.stack(grids, -1).reshape(-1, len(sizes) + 1).astype(dtype_of(theta))
    places = emit(relax.op.matmul(constant(base), emit.transpose(theta, [0, 2, 1])))
    return emit.reshape(places, [batch, *sizes, len(sizes)])
