# SPDX-License-Identifier: Apache-2.0
"""Assignments to ranges of a tensor, as ``x[:, 1:] = y`` is exported."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.constants import constant_array
from ..relax_ir.expressions import is_op, is_static


def assign_ranges(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Replace ``scatter_nd`` by slices and concatenations where its indices are whole ranges.

    Exporters write the index of each element as a constant. TVM lowers such an operator by itself,
    apart from others.
    """
    return _Assigner(mod).visit_expr(func)


@mutator
class _Assigner(PyExprMutator):
    def visit_call_(self, op: relax.Call) -> relax.Expr:
        op = super().visit_call_(op)
        if not is_op(op, "scatter_nd") or op.attrs.reduction != "update":
            return op
        data, indices, updates = op.args
        ranges = _ranges(indices)
        if ranges is None or not is_static(data):
            return op
        shape = [int(extent) for extent in data.ty.shape]
        if any(end > extent for (_, end), extent in zip(ranges, shape, strict=False)):
            return op
        assigned = [end - begin for begin, end in ranges]
        result = self._reshaped(updates, [*assigned, *shape[len(ranges) :]])
        for axis in reversed(range(len(ranges))):
            result = self._within(data, result, ranges[: axis + 1], shape[axis])
        return result

    def _reshaped(self, updates: relax.Expr, shape: list[int]) -> relax.Expr:
        if is_static(updates) and [int(extent) for extent in updates.ty.shape] == shape:
            return updates
        return self.builder_.emit(relax.op.reshape(updates, shape))

    def _within(
        self, data: relax.Expr, inner: relax.Expr, ranges: list[tuple[int, int]], extent: int
    ) -> relax.Expr:
        """Return ``inner`` between what the data has before and after it along the last axis.

        Along the other axes it is the ranges alone.
        """
        *outer, (begin, end) = ranges
        sides = [
            self._slice(data, [*outer, side]) if side[0] < side[1] else None
            for side in ((0, begin), (end, extent))
        ]
        parts = [part for part in (sides[0], inner, sides[1]) if part is not None]
        if len(parts) == 1:
            return inner
        return self.builder_.emit(relax.op.concat(parts, len(outer)))

    def _slice(self, data: relax.Expr, ranges: list[tuple[int, int]]) -> relax.Expr:
        begins, ends = ([bounds[side] for bounds in ranges] for side in (0, 1))
        axes = list(range(len(ranges)))
        return self.builder_.emit(relax.op.strided_slice(data, axes, begins, ends))


def _ranges(indices: relax.Expr) -> list[tuple[int, int]] | None:
    """Return the range along each axis if constant indices are all of them, in order."""
    array = constant_array(indices)
    if array is None or array.ndim < 2 or not array.size:
        return None
    places = array.reshape(-1, array.shape[-1])
    begins, ends = places.min(axis=0), places.max(axis=0) + 1
    extents = tuple(int(extent) for extent in ends - begins)
    if begins.min() < 0 or len(places) != np.prod(extents):
        return None
    numbers = np.ravel_multi_index(tuple((places - begins).T), extents)
    if not np.array_equal(numbers, np.arange(len(places))):
        return None
    return [(int(begin), int(end)) for begin, end in zip(begins, ends, strict=True)]
