# SPDX-License-Identifier: Apache-2.0
"""Elements that differ from each other."""

from __future__ import annotations

import math

import numpy as np
from tvm import relax

from ....sizes.size import known_equal
from ...emitter import constant, constant_array, dtype_of, shape_of
from ..counted import Counted
from ..node_emitter import NodeEmitter
from ..numbers import is_float
from .index import moved_by_half
from .selection import compacted_places
from .table import Value, operator


@operator("Unique")
def unique(
    emit: NodeEmitter, data: relax.Expr, *, axis: int | None = None, sorted: int = 1
) -> Value:
    """Return the elements, or the parts of a constant along an axis, that differ.

    Beside them are their first places, where each element of the data is among them, and how many
    are equal.
    """
    known = constant_array(data)
    if known is not None:
        return _of_constant(emit, known, axis, sorted)
    if axis is None:
        data, axis = emit.reshape(data, [math.prod(shape_of(data))]), 0
    axis = emit.axis(axis, len(shape_of(data)))
    if 0 in shape_of(data):
        raise emit.error("compares no elements, which is not supported.")
    width = math.prod(shape_of(data)) // shape_of(data)[axis]
    if width > _WIDEST:
        raise emit.error(f"compares parts of {width} elements, more than the {_WIDEST} supported.")
    distinct = _Distinct(emit, data, axis)
    return distinct.in_order() if sorted else distinct.by_first_place()


_WIDEST = 64
"""Elements of the parts that are sorted, by one after another."""


class _Distinct:
    """The different parts along an axis, found where neighbours differ once they are sorted."""

    def __init__(self, emit: NodeEmitter, data: relax.Expr, axis: int) -> None:
        self._emit, self._axis = emit, axis
        self._length = length = shape_of(data)[axis]
        self._positions = emit.positions(length, "int64")
        others = [i for i in range(len(shape_of(data))) if i != axis]
        width = math.prod(shape_of(data)) // length
        rows = emit.reshape(emit.transpose(data, [axis, *others]), [length, width])
        order = self._order(_comparable(emit, rows), width)
        begins = self._begins(self._at(rows, order))
        places, self.count = compacted_places(emit, begins)
        self.first = self._at(order, places)
        self.values = emit(relax.op.take(data, self.first, axis, "clip"))
        ranks = emit(relax.op.cumsum(emit.cast(begins, "int64"), 0))
        ranks = emit(relax.op.subtract(ranks, relax.const(1, "int64")))
        self.inverse = self._at(ranks, emit(relax.op.argsort(order, 0, False, "int64")))
        self.counts = self._distances(places)

    def _order(self, rows: relax.Expr, width: int) -> relax.Expr:
        """Sort by the last elements of the rows first, and by the first ones in the end."""
        emit, order = self._emit, self._positions
        emit.expect(4 * width)
        for place in range(width)[::-1]:
            column = emit.reshape(emit.slice(rows, 1, place, place + 1), [self._length])
            ordered = self._at(column, order)
            order = self._at(order, emit(relax.op.argsort(ordered, 0, False, "int64")))
        return order

    def _begins(self, ordered: relax.Expr) -> relax.Expr:
        """Return which rows differ from the ones before them."""
        emit, first = self._emit, constant(np.ones(1, "bool"))
        if known_equal(self._length, 1):
            return first
        before, rows = (emit.slice(ordered, 0, i, self._length - 1 + i) for i in (0, 1))
        differ = emit.cast(emit(relax.op.not_equal(before, rows)), "int32")
        differ = emit.cast(emit(relax.op.max(differ, [1])), "bool")
        return emit(relax.op.concat([first, differ], 0))

    def in_order(self) -> Value:
        return self._result(self.values, self.first, self.inverse, self.counts)

    def by_first_place(self) -> Value:
        emit = self._emit
        counts = emit(relax.op.less(self._positions, self.count))
        behind = relax.const(self._length, "int64")
        first = emit(relax.op.where(counts, self.first, behind))
        order = emit(relax.op.argsort(first, 0, False, "int64"))
        ranks = emit(relax.op.argsort(order, 0, False, "int64"))
        values = emit(relax.op.take(self.values, order, self._axis, "clip"))
        places, equal = (self._at(x, order) for x in (self.first, self.counts))
        return self._result(values, places, self._at(ranks, self.inverse), equal)

    def _distances(self, places: relax.Expr) -> relax.Expr:
        """Return how far it is from each place to the next one, or to the end."""
        emit, one = self._emit, relax.const(1, "int64")
        following = emit(relax.op.add(self._positions, one))
        is_last = emit(relax.op.greater_equal(following, self.count))
        inside = emit(relax.op.minimum(following, relax.const(self._length - 1, "int64")))
        ends = self._at(places, inside)
        ends = emit(relax.op.where(is_last, relax.const(self._length, "int64"), ends))
        return emit(relax.op.subtract(ends, places))

    def _at(self, data: relax.Expr, places: relax.Expr) -> relax.Expr:
        return self._emit(relax.op.take(data, places, 0, "clip"))

    def _result(
        self, values: relax.Expr, first: relax.Expr, inverse: relax.Expr, counts: relax.Expr
    ) -> Value:
        lists = (Counted(x, self.count, 0) for x in (first, counts))
        places, equal = lists
        return Counted(values, self.count, self._axis), places, inverse, equal


def _comparable(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
    """Return numbers that TVM sorts, in the same order."""
    if is_float(dtype_of(data)) or dtype_of(data) in ("int32", "int64"):
        return data
    wide = emit.cast(data, "int64")
    return moved_by_half(emit, wide) if dtype_of(data) == "uint64" else wide


def _of_constant(emit: NodeEmitter, known: np.ndarray, axis: int | None, sorted: int) -> Value:
    if (known != known).any():
        raise emit.error("compares elements of which some are NaN, which is not supported.")
    if axis is not None:
        axis = emit.axis(axis, known.ndim)
    values, first, inverse, counts = np.unique(known, True, True, True, axis=axis)
    if not sorted:
        order = np.argsort(first)
        values = np.take(values, order, 0 if axis is None else axis)
        first, inverse, counts = first[order], np.argsort(order)[inverse], counts[order]
    emit.allocate(values.shape, str(values.dtype))
    emit.allocate([3 * inverse.size], "int64")
    places = (constant(x.reshape(-1).astype("int64")) for x in (first, inverse, counts))
    return (constant(values), *places)
