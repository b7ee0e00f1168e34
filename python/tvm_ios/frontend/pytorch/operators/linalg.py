# SPDX-License-Identifier: Apache-2.0
"""Determinants, inverses and equations of small matrices, whose elimination is unrolled.

It is computed in float64, in which the order of operations does not show in results of float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import relax

from ...emitter import constant, shape_of
from ...onnx.operators.table import Value
from ..node_emitter import AtenEmitter
from .formula import Term, terms
from .table import operator

_MOST_ROWS = 8


@dataclass(frozen=True)
class _Eliminated:
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


def _eliminated(emit: AtenEmitter, matrices: Term, others: Term | None = None) -> _Eliminated:
    shape = list(shape_of(matrices.expr))
    rows, axis = shape[-1], len(shape) - 2
    _check_size(emit, rows)
    x = matrices if others is None else _beside(emit, matrices, others)
    grid = Term(emit, constant(np.arange(rows)[:, None]))
    pivots, swaps = [], []
    for step in range(rows):
        own = grid.equals(step)
        sizes = abs(_column(emit, x, step)).filled(grid < step, -1)
        place = Term(emit, emit.cast(emit(relax.op.argmax(sizes.expr, axis, True)), "int64"))
        chosen = grid.equals(place)
        picked = emit(relax.op.sum(x.filled(~chosen, 0).expr, [axis], True))
        moved = Term(emit, emit.slice(x.expr, axis, step, step + 1)).where(chosen, x)
        pivot = _column(emit, Term(emit, picked), step)
        row = Term(emit, picked) / pivot.filled(pivot.equals(0), 1)
        x = row.where(own, moved - _column(emit, moved, step) * row)
        pivots.append(pivot)
        swaps.append(~place.equals(step))
    rest = Term(emit, emit.slice(x.expr, axis + 1, rows, shape_of(x.expr)[-1])) if others else x
    return _Eliminated(rest, pivots, swaps)


def _check_size(emit: AtenEmitter, rows: int) -> None:
    if not 0 < rows <= _MOST_ROWS:
        raise emit.error(f"is of matrices of {rows} rows; from 1 to {_MOST_ROWS} are supported.")


def _column(emit: AtenEmitter, x: Term, number: int) -> Term:
    return Term(emit, emit.slice(x.expr, len(shape_of(x.expr)) - 1, number, number + 1))


def _beside(emit: AtenEmitter, left: Term, right: Term) -> Term:
    """Join the columns of matrices, of which there are as many as the broadcast batch."""
    a, b = shape_of(left.expr), shape_of(right.expr)
    batch = np.broadcast_shapes(a[:-2], b[:-2])
    parts = [emit.broadcast(x.expr, [*batch, *sizes[-2:]]) for x, sizes in ((left, a), (right, b))]
    return Term(emit, emit(relax.op.concat(parts, len(batch) + 1)))


def _turned(emit: AtenEmitter, x: Term) -> Term:
    ndim = len(shape_of(x.expr))
    return Term(emit, emit.transpose(x.expr, [*range(ndim - 2), ndim - 1, ndim - 2]))


def _wide(emit: AtenEmitter, *matrices: relax.Expr) -> list[Term]:
    return terms(emit, *matrices, dtype="float64")


def _result(emit: AtenEmitter, x: Term, shape: Sequence[int] | None = None) -> relax.Expr:
    return emit.reshape(x.to(emit.dtype).expr, emit.shape if shape is None else shape)


def _check_factors(emit: AtenEmitter, *numbers: int) -> None:
    if any(map(emit.wants, numbers)):
        raise emit.error("returns the factors of matrices, which is not supported.")


def _failed(emit: AtenEmitter, bad: Sequence[Term], number: int) -> relax.Expr | None:
    """Return the number of the first step that failed, from 1; 0 if there is none."""
    if not emit.wants(number):
        return None
    if not bad:
        return emit.filled([int(size) for size in emit.result(number).shape], 0, "int32")
    result = bad[0].to("int32") * 0
    for step, each in reversed([*enumerate(bad, 1)]):
        result = result.filled(each, step)
    return emit.reshape(result.expr, [int(size) for size in emit.result(number).shape])


def _determinants(emit: AtenEmitter, data: relax.Expr) -> Term:
    if not shape_of(data)[-1]:
        return Term(emit, emit.filled(emit.shape, 1, "float64"))
    (matrices,) = _wide(emit, data)
    found = _eliminated(emit, matrices)
    result = found.pivots[0]
    for pivot in found.pivots[1:]:
        result = result * pivot
    for swap in found.swaps:
        result = (-result).where(swap, result)
    return result


@operator("_linalg_det.default")
def determinant(emit: AtenEmitter, data: relax.Expr) -> Value:
    _check_factors(emit, 1, 2)
    return _result(emit, _determinants(emit, data)), None, None


@operator("_linalg_slogdet.default")
def logarithm_of_determinant(emit: AtenEmitter, data: relax.Expr) -> Value:
    _check_factors(emit, 2, 3)
    result = _determinants(emit, data)
    logarithm = abs(result).of(relax.op.log)
    return _result(emit, result.of(relax.op.sign)), _result(emit, logarithm), None, None


@operator("linalg_inv_ex.default")
def inverse(emit: AtenEmitter, data: relax.Expr, *, check_errors: bool = False) -> Value:
    """Return inverses, and which step found a matrix to be singular; 0 if none."""
    if not shape_of(data)[-1]:
        return data, _failed(emit, [], 1)
    (matrices,) = _wide(emit, data)
    found = _eliminated(emit, matrices, Term(emit, constant(np.eye(shape_of(data)[-1]))))
    info = _failed(emit, [pivot.equals(0) for pivot in found.pivots], 1)
    return _result(emit, _undefined_if_singular(found)), info


def _undefined_if_singular(found: _Eliminated) -> Term:
    result = found.rest
    for pivot in found.pivots:
        result = result.filled(pivot.equals(0), math.nan)
    return result


@operator("_linalg_solve_ex.default")
def solve(
    emit: AtenEmitter,
    matrices: relax.Expr,
    others: relax.Expr,
    *,
    left: bool = True,
    check_errors: bool = False,
) -> Value:
    """Return solutions of ``A X = B``, or of ``X A = B``; vectors B have no axis of columns."""
    _check_factors(emit, 1, 2)
    sizes, shape = shape_of(matrices), shape_of(others)
    if len(shape) == 1 or shape == sizes[:-1]:
        others = emit.reshape(others, [*shape, 1])
    a, b = _wide(emit, matrices, others)
    if not left:
        a, b = _turned(emit, a), _turned(emit, b)
    found = _eliminated(emit, a, b)
    result = _undefined_if_singular(found)
    info = _failed(emit, [pivot.equals(0) for pivot in found.pivots], 3)
    return _result(emit, result if left else _turned(emit, result)), None, None, info


@operator("linalg_solve_triangular.default")
def solve_triangular(
    emit: AtenEmitter,
    matrices: relax.Expr,
    others: relax.Expr,
    *,
    upper: bool = False,
    left: bool = True,
    unitriangular: bool = False,
) -> relax.Expr:
    """Return solutions for one half of matrices; the other is not read."""
    a, b = _wide(emit, matrices, others)
    a = _half(emit, a, upper, unitriangular)
    if not left:
        a, b = _turned(emit, a), _turned(emit, b)
    result = _eliminated(emit, a, b).rest
    return _result(emit, result if left else _turned(emit, result))


def _half(emit: AtenEmitter, x: Term, upper: bool, unit: bool) -> Term:
    rows = shape_of(x.expr)[-1]
    _check_size(emit, rows)
    half = np.triu(np.ones((rows, rows), bool)) if upper else np.tril(np.ones((rows, rows), bool))
    x = x.filled(Term(emit, constant(~half)), 0)
    return x.filled(Term(emit, constant(np.eye(rows, dtype=bool))), 1) if unit else x


@operator("triangular_solve.default")
def triangular_solve(
    emit: AtenEmitter,
    others: relax.Expr,
    matrices: relax.Expr,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> Value:
    a, b = _wide(emit, matrices, others)
    a = _half(emit, a, upper, unitriangular)
    result = _eliminated(emit, _turned(emit, a) if transpose else a, b).rest
    copy = emit.broadcast(matrices, [int(n) for n in emit.result(1).shape])
    return _result(emit, result), copy


@operator("cholesky_solve.default")
def cholesky_solve(
    emit: AtenEmitter, others: relax.Expr, factors: relax.Expr, upper: bool = False
) -> relax.Expr:
    """Return solutions for matrices that are given by their factors."""
    a, b = _wide(emit, factors, others)
    lower, higher = _pair(emit, a, upper)
    return _result(emit, _eliminated(emit, higher, _eliminated(emit, lower, b).rest).rest)


@operator("cholesky_inverse.default")
def cholesky_inverse(emit: AtenEmitter, factors: relax.Expr, upper: bool = False) -> relax.Expr:
    (half,) = _wide(emit, factors)
    lower, higher = _pair(emit, half, upper)
    unit = Term(emit, constant(np.eye(shape_of(factors)[-1])))
    return _result(emit, _eliminated(emit, higher, _eliminated(emit, lower, unit).rest).rest)


def _pair(emit: AtenEmitter, factors: Term, upper: bool) -> tuple[Term, Term]:
    half = _half(emit, factors, upper, unit=False)
    turned = _turned(emit, half)
    return (turned, half) if upper else (half, turned)


@operator("linalg_cholesky_ex.default")
def cholesky(
    emit: AtenEmitter, data: relax.Expr, *, upper: bool = False, check_errors: bool = False
) -> Value:
    """Return the lower factor, or the upper one, which one half of the matrices decides."""
    if not shape_of(data)[-1]:
        return data, _failed(emit, [], 1)
    (x,) = _wide(emit, data)
    x = _half(emit, _turned(emit, x) if upper else x, upper=False, unit=False)
    rows, axis = shape_of(data)[-1], len(shape_of(data)) - 1
    grid = Term(emit, constant(np.arange(rows)[:, None]))
    columns, bad = [], []
    for step in range(rows):
        own = _column(emit, x, step)
        corner = Term(emit, emit.slice(own.expr, axis - 1, step, step + 1))
        bad.append(~(corner > 0))
        column = (own / corner.of(relax.op.sqrt)).filled(grid < step, 0)
        columns.append(column.expr)
        x = x - column * _turned(emit, column)
    result = Term(emit, emit(relax.op.concat(columns, axis)) if rows > 1 else columns[0])
    info = _failed(emit, bad, 1)
    return _result(emit, _turned(emit, result) if upper else result), info
