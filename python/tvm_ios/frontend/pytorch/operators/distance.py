# SPDX-License-Identifier: Apache-2.0
"""Distances between rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tvm import relax

from ...emitter import constant, dtype_of, shape_of
from ..node_emitter import AtenEmitter
from .reduce import norm
from .table import operator


@operator("_cdist_forward.default")
def distances_of_pairs(
    emit: AtenEmitter, left: relax.Expr, right: relax.Expr, order: float, _mode: int | None
) -> relax.Expr:
    """Return the distance of each row of one tensor to each of another."""
    columns, rows = shape_of(left), shape_of(right)
    first = emit.reshape(left, [*columns[:-1], 1, columns[-1]])
    second = emit.reshape(right, [*rows[:-2], 1, *rows[-2:]])
    return _distances(emit, first, second, order)


@operator("_pdist_forward.default")
def distances_within(emit: AtenEmitter, data: relax.Expr, order: float = 2.0) -> relax.Expr:
    """Return the distance of each row to each that follows it."""
    places: Sequence[np.ndarray] = np.triu_indices(shape_of(data)[0], 1)
    rows = [emit(relax.op.take(data, constant(each.astype("int64")), 0)) for each in places]
    return _distances(emit, rows[0], rows[1], order)


def _distances(emit: AtenEmitter, left: relax.Expr, right: relax.Expr, order: float) -> relax.Expr:
    if not shape_of(left)[-1] or not math.prod(emit.shape):
        return emit.filled(emit.shape, 0, dtype_of(left))
    difference = emit(relax.op.subtract(left, right))
    return norm(emit, difference, order, [len(shape_of(difference)) - 1], False)
