# SPDX-License-Identifier: Apache-2.0
"""The elimination of the columns of small matrices, which is unrolled, and determinants by it.

It is computed in float64, in which the order of operations does not show in results of float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from tvm import relax

from ...emitter import constant, dtype_of, shape_of
from ..node_emitter import NodeEmitter
from .formula import Term
from .table import operator

_MOST_ROWS = 8


@dataclass(frozen=True)
class Eliminated:
    """Matrices with other columns behind them, after the elimination by Gauss and Jordan.

    Attributes
    ----------
    rest : Term
        What became of the other columns: the solutions.
    pivots : list of Term
        What was divided by; 0 where a matrix is singular.
    swaps : list of Term
        Whether two rows were swapped in each step.
    """

    rest: Term
    pivots: list[Term]
    swaps: list[Term]

    def solutions(self) -> Term:
        """Return what became of the other columns; NaN where a matrix is singular."""
        result = self.rest
        for pivot in self.pivots:
            result = result.filled(pivot.equals(0), math.nan)
        return result


def eliminated(emit: NodeEmitter, matrices: Term, others: Term | None = None) -> Eliminated:
    """Eliminate the columns of matrices, the largest of each first.

    Raises
    ------
    ModelError
        If they have too many rows.
    """
    shape = list(shape_of(matrices.expr))
    rows, axis = shape[-1], len(shape) - 2
    check_size(emit, rows)
    x = matrices if others is None else _beside(emit, matrices, others)
    grid = Term(emit, constant(np.arange(rows)[:, None]))
    pivots, swaps = [], []
    for step in range(rows):
        own = grid.equals(step)
        sizes = abs(column(emit, x, step)).filled(grid < step, -1)
        place = Term(emit, emit.cast(emit(relax.op.argmax(sizes.expr, axis, True)), "int64"))
        chosen = grid.equals(place)
        picked = emit(relax.op.sum(x.filled(~chosen, 0).expr, [axis], True))
        moved = Term(emit, emit.slice(x.expr, axis, step, step + 1)).where(chosen, x)
        pivot = column(emit, Term(emit, picked), step)
        row = Term(emit, picked) / pivot.filled(pivot.equals(0), 1)
        x = row.where(own, moved - column(emit, moved, step) * row)
        pivots.append(pivot)
        swaps.append(~place.equals(step))
    rest = Term(emit, emit.slice(x.expr, axis + 1, rows, shape_of(x.expr)[-1])) if others else x
    return Eliminated(rest, pivots, swaps)


def check_size(emit: NodeEmitter, rows: int) -> None:
    """Raise ModelError for matrices whose elimination is not unrolled."""
    if not 0 < rows <= _MOST_ROWS:
        raise emit.error(f"is of matrices of {rows} rows; from 1 to {_MOST_ROWS} are supported.")


def column(emit: NodeEmitter, x: Term, number: int) -> Term:
    """Return a column of matrices."""
    return Term(emit, emit.slice(x.expr, len(shape_of(x.expr)) - 1, number, number + 1))


def _beside(emit: NodeEmitter, left: Term, right: Term) -> Term:
    """Join the columns of matrices, of which there are as many as the broadcast batch."""
    a, b = shape_of(left.expr), shape_of(right.expr)
    batch = np.broadcast_shapes(a[:-2], b[:-2])
    parts = [emit.broadcast(x.expr, [*batch, *sizes[-2:]]) for x, sizes in ((left, a), (right, b))]
    return Term(emit, emit(relax.op.concat(parts, len(batch) + 1)))


def determinants(emit: NodeEmitter, data: relax.Expr) -> Term:
    """Return the determinants of matrices in float64, as matrices of one element."""
    if not shape_of(data)[-1]:
        return Term(emit, emit.filled([*shape_of(data)[:-2], 1, 1], 1, "float64"))
    matrices = Term(emit, emit.cast(data, "float64"))
    found = eliminated(emit, matrices)
    result = found.pivots[0]
    for pivot in found.pivots[1:]:
        result = result * pivot
    for swap in found.swaps:
        result = (-result).where(swap, result)
    return result


@operator("Det")
def det(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
    """Return the determinants of square matrices."""
    shape = shape_of(data)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise emit.error(f"takes square matrices, but is given a tensor of {list(shape)}.")
    return emit.reshape(determinants(emit, data).to(dtype_of(data)).expr, shape[:-2])
