# SPDX-License-Identifier: Apache-2.0
"""Determinants, inverses and equations of small matrices, by their elimination."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import relax

from ...emitter import constant, shape_of
from ...onnx.operators.elimination import check_size, column, determinants, eliminated
from ...onnx.operators.formula import Term
from ...onnx.operators.table import Value
from ..node_emitter import AtenEmitter
from .formula import terms
from .table import operator


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


@operator("_linalg_det.default")
def determinant(emit: AtenEmitter, data: relax.Expr) -> Value:
    _check_factors(emit, 1, 2)
    return _result(emit, determinants(emit, data)), None, None


@operator("_linalg_slogdet.default")
def logarithm_of_determinant(emit: AtenEmitter, data: relax.Expr) -> Value:
    _check_factors(emit, 2, 3)
    result = determinants(emit, data)
    logarithm = abs(result).of(relax.op.log)
    return _result(emit, result.of(relax.op.sign)), _result(emit, logarithm), None, None


@operator("linalg_inv_ex.default")
def inverse(emit: AtenEmitter, data: relax.Expr, *, check_errors: bool = False) -> Value:
    """Return inverses, and which step found a matrix to be singular; 0 if none."""
    if not shape_of(data)[-1]:
        return data, _failed(emit, [], 1)
    (matrices,) = _wide(emit, data)
    found = eliminated(emit, matrices, Term(emit, constant(np.eye(shape_of(data)[-1]))))
    info = _failed(emit, [pivot.equals(0) for pivot in found.pivots], 1)
    return _result(emit, found.solutions()), info


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
    found = eliminated(emit, a, b)
    result = found.solutions()
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
    result = eliminated(emit, a, b).rest
    return _result(emit, result if left else _turned(emit, result))


def _half(emit: AtenEmitter, x: Term, upper: bool, unit: bool) -> Term:
    rows = shape_of(x.expr)[-1]
    check_size(emit, rows)
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
    result = eliminated(emit, _turned(emit, a) if transpose else a, b).rest
    copy = emit.broadcast(matrices, [int(n) for n in emit.result(1).shape])
    return _result(emit, result), copy


@operator("cholesky_solve.default")
def cholesky_solve(
    emit: AtenEmitter, others: relax.Expr, factors: relax.Expr, upper: bool = False
) -> relax.Expr:
    """Return solutions for matrices that are given by their factors."""
    a, b = _wide(emit, factors, others)
    lower, higher = _pair(emit, a, upper)
    return _result(emit, eliminated(emit, higher, eliminated(emit, lower, b).rest).rest)


@operator("cholesky_inverse.default")
def cholesky_inverse(emit: AtenEmitter, factors: relax.Expr, upper: bool = False) -> relax.Expr:
    (half,) = _wide(emit, factors)
    lower, higher = _pair(emit, half, upper)
    unit = Term(emit, constant(np.eye(shape_of(factors)[-1])))
    return _result(emit, eliminated(emit, higher, eliminated(emit, lower, unit).rest).rest)


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
        first = column(emit, x, step)
        corner = Term(emit, emit.slice(first.expr, axis - 1, step, step + 1))
        bad.append(~(corner > 0))
        factor = (first / corner.of(relax.op.sqrt)).filled(grid < step, 0)
        columns.append(factor.expr)
        x = x - factor * _turned(emit, factor)
    result = Term(emit, emit(relax.op.concat(columns, axis)) if rows > 1 else columns[0])
    info = _failed(emit, bad, 1)
    return _result(emit, _turned(emit, result) if upper else result), info
