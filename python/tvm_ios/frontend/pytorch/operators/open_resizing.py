# SPDX-License-Identifier: Apache-2.0
"""Resizing of axes whose lengths stay open: places and weights are computed when a network runs.

PyTorch computes the places in float32 for all but float64, and so do these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import relax

from ....sizes.size import AnySize, hint_of, known_equal
from ...emitter import dtype_of, shape_of
from ...onnx.operators.formula import Term
from ..node_emitter import AtenEmitter

_ALPHA = -0.75  # of PyTorch's cubic interpolation


@dataclass(frozen=True)
class Resizing:
    """How an axis is resized.

    Attributes
    ----------
    axis : int
    new_size : size
    factor : float or None
        The ratio of the new size to the old one before it was rounded, if that is given.
    aligned : bool
        Whether the corners are aligned.
    """

    axis: int
    new_size: AnySize
    factor: float | None = None
    aligned: bool = False

    def changes(self, data: relax.Expr) -> bool:
        """Return whether it may change a tensor."""
        return not (self.factor in (None, 1.0) and known_equal(self._size(data), self.new_size))

    def nearest(
        self, emit: AtenEmitter, data: relax.Expr, *, exact: bool, ignores: bool
    ) -> relax.Expr:
        """Take the nearest elements below.

        Parameters
        ----------
        emit : AtenEmitter
        data : relax.Expr
        exact : bool
            Whether those of the middles of the new elements are taken.
        ignores : bool
            Whether the factor does not count where it leaves the size or doubles it.
        """
        times = self._times(data)
        if times is not None:  # in the middle of an element and at its begin alike
            return emit(relax.op.repeat(data, times, self.axis))
        places = self._places(emit, data)
        scale = self._scale(emit, data, (1, 2) if ignores else ())
        origins = ((places + 0.5) if exact else places) * scale
        below = origins.of(relax.op.floor).minimum(self._last(emit, data))
        return self._taken(emit, data, below)

    def linear(self, emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
        """Interpolate between two; the factor does not count where it leaves the size."""
        origins = self._origins(emit, data, (1,)).maximum(0)
        last = self._last(emit, data)
        left = origins.of(relax.op.floor).minimum(last)
        share = (origins - left).minimum(1)
        right = self._term(emit, data, (left + 1).minimum(last))
        return (
            self._term(emit, data, left) * self._along(emit, data, 1 - share)
            + right * self._along(emit, data, share)
        ).expr

    def cubic(self, emit: AtenEmitter, data: relax.Expr) -> relax.Expr:
        origins, last = self._origins(emit, data, ()), self._last(emit, data)
        left = origins.of(relax.op.floor)
        share = origins - left
        distances = (share + 1, share, 1 - share, 2 - share)
        weights = [_far(distances[0]), _near(distances[1]), _near(distances[2]), _far(distances[3])]
        total: Term | None = None
        for offset, weight in zip((-1, 0, 1, 2), weights, strict=True):
            places = (left + offset).maximum(0).minimum(last)
            part = self._term(emit, data, places) * self._along(emit, data, weight)
            total = part if total is None else total + part
        assert total is not None, "it has four parts"
        return total.expr

    def _size(self, data: relax.Expr) -> AnySize:
        return shape_of(data)[self.axis]

    def _times(self, data: relax.Expr) -> int | None:
        """Return by how many the length is multiplied; None if that is no whole number."""
        size = self._size(data)
        times = hint_of(self.new_size) // hint_of(size)
        fits = times > 0 and known_equal(self.new_size, size * times)
        return times if fits and self.factor in (None, float(times)) else None

    def _origins(self, emit: AtenEmitter, data: relax.Expr, ignored: Sequence[int]) -> Term:
        """Return the place that each new element is from."""
        places = self._places(emit, data)
        if self.aligned:
            gaps = (self._number(emit, data, self.new_size) - 1).maximum(1)
            return places * (self._last(emit, data) / gaps)
        return (places + 0.5) * self._scale(emit, data, ignored) - 0.5

    def _scale(self, emit: AtenEmitter, data: relax.Expr, ignored: Sequence[int]) -> Term:
        """Return the distance of new elements; for some multiples of the size that of the sizes."""
        size = self._number(emit, data, self._size(data))
        new_size = self._number(emit, data, self.new_size)
        if self.factor is None:
            return size / new_size
        scale = Term(emit, emit.literal(1.0 / self.factor, _dtype(data)))
        for times in ignored:
            scale = Term(emit, emit.literal(1.0 / times, _dtype(data))).where(
                new_size.equals(size * times), scale
            )
        return scale

    def _places(self, emit: AtenEmitter, data: relax.Expr) -> Term:
        return Term(emit, emit.positions(self.new_size, "int64")).to(_dtype(data))

    def _last(self, emit: AtenEmitter, data: relax.Expr) -> Term:
        return self._number(emit, data, self._size(data)) - 1

    def _number(self, emit: AtenEmitter, data: relax.Expr, size: AnySize) -> Term:
        return Term(emit, emit.operand(size, _dtype(data)))

    def _taken(self, emit: AtenEmitter, data: relax.Expr, places: Term) -> relax.Expr:
        return emit(relax.op.take(data, places.to("int64").expr, self.axis, "clip"))

    def _term(self, emit: AtenEmitter, data: relax.Expr, places: Term) -> Term:
        return Term(emit, self._taken(emit, data, places))

    def _along(self, emit: AtenEmitter, data: relax.Expr, weights: Term) -> Term:
        vector = weights.to(dtype_of(data)).expr
        return Term(emit, emit.along(vector, self.axis, len(shape_of(data))))


def _dtype(data: relax.Expr) -> str:
    return "float64" if dtype_of(data) == "float64" else "float32"


def _near(x: Term) -> Term:
    """Return the weight of an element at a distance of at most 1."""
    return ((x * (_ALPHA + 2) - (_ALPHA + 3)) * x * x) + 1


def _far(x: Term) -> Term:
    """Return the weight of an element at a distance from 1 to 2."""
    return ((x * _ALPHA - 5 * _ALPHA) * x + 8 * _ALPHA) * x - 4 * _ALPHA
