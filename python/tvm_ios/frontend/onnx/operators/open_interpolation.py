# SPDX-License-Identifier: Apache-2.0
"""Interpolation along an axis of open size: places and weights are computed when it is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tvm import relax

from ....sizes.size import AnySize
from ...emitter import dtype_of, shape_of
from ..interpolation import TIE, Interpolation
from ..node_emitter import NodeEmitter

Build = Callable[[relax.Expr, relax.Expr], relax.Expr]


def along_open_axis(
    emit: NodeEmitter, data: relax.Expr, axis: int, each: Interpolation, outside: float
) -> relax.Expr:
    """Interpolate an axis as :meth:`.Interpolation.matrix` defines.

    Raises
    ------
    ModelError
        If that takes more than the nearest elements, or elements outside are of another kind.
    """
    if each.coordinates == "tf_crop_and_resize" or each.antialias or each.exclude_outside:
        raise emit.error(
            "crops regions, smoothes or leaves out what is outside, of an open size; give it."
        )
    axis_of = _Axis(emit, each)
    origins = axis_of.origins()
    if each.mode == "nearest":
        return axis_of.taken(data, axis, axis_of.nearest(origins))
    left = axis_of.less(emit(relax.op.ceil(origins)), 1.0)
    rest = axis_of.of(relax.op.subtract, origins, left)
    total: relax.Expr | None = None
    for offset in (0, 1) if each.mode == "linear" else (-1, 0, 1, 2):
        part = axis_of.taken(data, axis, axis_of.more(left, float(offset)))
        distance = emit(relax.op.abs(axis_of.less(rest, float(offset))))
        weight = emit.cast(axis_of.kernel(distance), dtype_of(data))
        factors = emit.along(weight, axis, len(shape_of(data)))
        term = emit(relax.op.multiply(part, factors))
        total = term if total is None else emit(relax.op.add(total, term))
    assert total is not None, "an interpolation has neighbours"
    return total


class _Axis:
    """Emits the places that the elements of a resized axis are from."""

    def __init__(self, emit: NodeEmitter, each: Interpolation) -> None:
        self._emit, self._each = emit, each

    def origins(self) -> relax.Expr:
        """Return what :meth:`.Interpolation.origins` does."""
        each, emit = self._each, self._emit
        places = emit.positions(each.new_size, each.dtype)
        if each.coordinates == "align_corners":
            steps = self.of(relax.op.maximum, self._number(each.new_size - 1), self._float(1.0))
            whole = self.of(relax.op.multiply, places, self._number(each.size - 1))
            return self.of(relax.op.divide, whole, steps)
        if each.coordinates == "asymmetric":
            return self._divided(places)
        middle = self.more(places, 0.5)
        if each.coordinates == "tf_half_pixel_for_nn":
            return self._divided(middle)
        if each.coordinates == "half_pixel_symmetric":
            return self._symmetric()
        origins = self.less(self._divided(middle), 0.5)
        if each.coordinates == "pytorch_half_pixel":
            several = self.of(relax.op.greater, self._number(each.new_size), self._float(1.0))
            return emit(relax.op.where(several, origins, self._float(0.0)))
        return origins

    def _symmetric(self) -> relax.Expr:
        """Return the places of a middle that moves, which double precision adds up."""
        emit, double = self._emit, _Axis(self._emit, replace(self._each, mode="linear"))
        middle = double.more(emit.positions(self._each.new_size, "float64"), 0.5)
        origins = double.of(relax.op.divide, middle, emit.cast(self._scale(), "float64"))
        origins = double.of(relax.op.add, origins, emit.cast(self._shift(), "float64"))
        return emit.cast(double.less(origins, 0.5), self._each.dtype)

    def _shift(self) -> relax.Expr:
        """Return ``size / 2 * (1 - new_size / (size * scale))``."""
        size, new_size = self._number(self._each.size), self._number(self._each.new_size)
        ratio = self.of(relax.op.divide, new_size, self.of(relax.op.multiply, size, self._scale()))
        half = self.of(relax.op.multiply, size, self._float(0.5))
        return self.of(relax.op.multiply, half, self._minus(1.0, ratio))

    def _scale(self) -> relax.Expr:
        each = self._each
        if each.scale is not None:
            return self._float(each.scale)
        return self.of(relax.op.divide, self._number(each.new_size), self._number(each.size))

    def _divided(self, places: relax.Expr) -> relax.Expr:
        """Return places by the scale."""
        return self.of(relax.op.divide, places, self._scale())

    def nearest(self, origins: relax.Expr) -> relax.Expr:
        """Return the places of the nearest elements."""
        emit, nearest = self._emit, self._each.nearest
        if nearest == "ceil":
            return emit(relax.op.ceil(origins))
        below = emit(relax.op.floor(origins))
        if nearest == "floor":
            return below
        rest = self.of(relax.op.subtract, origins, below)
        if nearest == "round_prefer_ceil":
            is_above = self.of(relax.op.greater_equal, rest, self._float(0.5 - TIE))
        else:
            is_above = self.of(relax.op.greater, rest, self._float(0.5 + TIE))
        return emit(relax.op.where(is_above, self.more(below, 1.0), below))

    def taken(self, data: relax.Expr, axis: int, places: relax.Expr) -> relax.Expr:
        """Return the elements at places, of which those beyond the ends are the ends."""
        emit = self._emit
        low = self.of(relax.op.maximum, places, self._float(0.0))
        limited = self.of(relax.op.minimum, low, self._number(self._each.size - 1))
        return emit(relax.op.take(data, emit.cast(limited, "int64"), axis, "clip"))

    def kernel(self, x: relax.Expr) -> relax.Expr:
        """Return the weights of elements by their distances, which are not negative."""
        if self._each.mode == "linear":
            return self.of(relax.op.maximum, self._minus(1.0, x), self._float(0.0))
        a = self._each.alpha
        near = self._polynomial(x, [a + 2, -(a + 3), 0.0, 1.0])
        far = self._polynomial(x, [a, -5 * a, 8 * a, -4 * a])
        beyond = self.of(relax.op.less, x, self._float(2.0))
        far = self._emit(relax.op.where(beyond, far, self._float(0.0)))
        return self._emit(
            relax.op.where(self.of(relax.op.less_equal, x, self._float(1.0)), near, far)
        )

    def _polynomial(self, x: relax.Expr, factors: list[float]) -> relax.Expr:
        value = self._float(factors[0])
        for factor in factors[1:]:
            value = self.more(self.of(relax.op.multiply, value, x), factor)
        return value

    def of(self, build: Build, a: relax.Expr, b: relax.Expr) -> relax.Expr:
        return self._emit(build(a, b))

    def more(self, x: relax.Expr, number: float) -> relax.Expr:
        return self.of(relax.op.add, x, self._float(number))

    def less(self, x: relax.Expr, number: float) -> relax.Expr:
        return self.of(relax.op.subtract, x, self._float(number))

    def _minus(self, number: float, x: relax.Expr) -> relax.Expr:
        return self.of(relax.op.subtract, self._float(number), x)

    def _number(self, size: AnySize) -> relax.Expr:
        return self._emit.cast(self._emit.sizes(size), self._each.dtype)

    def _float(self, number: float) -> relax.Expr:
        return relax.const(number, self._each.dtype)
