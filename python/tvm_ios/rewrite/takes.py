# SPDX-License-Identifier: Apache-2.0
"""Elements at constant indices: slices where the indices are neighbours."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.constants import constant_array
from ..relax_ir.expressions import is_op, known_shape
from ..sizes.size import Size

_MOST_RUNS = 2  # a roll of a tensor has two


def slice_takes(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Replace what is taken at constant indices by slices.

    A single index (a query, a key or a value of three that are stacked) is a slice without its
    axis; indices that run to the end and go on at the begin (a roll of windows) are two slices.
    TVM lowers ``take`` by itself, apart from other operators.
    """
    return _Slicer(mod).visit_expr(func)


@mutator
class _Slicer(PyExprMutator):
    def visit_call_(self, op: relax.Call) -> relax.Expr:
        op = super().visit_call_(op)
        shape = known_shape(op.args[0]) if is_op(op, "take") else None
        if shape is None or op.attrs.axis is None:
            return op
        data, indices = op.args[0], constant_array(op.args[1])
        if indices is None or indices.ndim > 1 or not indices.size:
            return op
        axis = int(op.attrs.axis) % len(shape)
        extent = shape[axis]
        if isinstance(extent, Size):
            return op  # the places are known only at run time
        if op.attrs.mode == "clip":
            indices = np.clip(indices, 0, extent - 1)
        if not (np.all(indices >= 0) and np.all(indices < extent)):
            return op
        runs = _runs(indices.reshape(-1))
        if len(runs) > _MOST_RUNS:
            return op
        parts = [
            self.builder_.emit(relax.op.strided_slice(data, [axis], [begin], [end]))
            for begin, end in runs
        ]
        if indices.ndim == 0:
            return relax.op.squeeze(parts[0], [axis])
        return parts[0] if len(parts) == 1 else relax.op.concat(parts, axis)


def _runs(indices: np.ndarray) -> list[tuple[int, int]]:
    """Return the begin and the end of each run of neighbours."""
    ends = np.flatnonzero(np.diff(indices) != 1) + 1
    return [(int(run[0]), int(run[-1]) + 1) for run in np.split(indices, ends)]
