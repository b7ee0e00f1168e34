# SPDX-License-Identifier: Apache-2.0
"""Matrix products."""

from __future__ import annotations

from tvm import relax

from ...frontend.emitter import Emitter, shape_of
from .layouts import relayout
from .table import given_dtype, operator


def _swapped(emit: Emitter, x: relax.Expr) -> relax.Expr:
    """Exchange the last two axes of ``x``."""
    first, last = len(shape_of(x)) - 2, len(shape_of(x)) - 1
    return emit.transpose(x, [*range(first), last, first])


def _product(
    emit: Emitter, a: relax.Expr, b: relax.Expr, units: int | None, out_dtype: str | None
) -> relax.Expr:
    """Multiply ``a`` by ``b``, which has ``units`` columns if that is given."""
    if units not in (None, shape_of(b)[-1]):
        raise emit.error(f"has units={units}, but weights for {shape_of(b)[-1]}.")
    return emit(relax.op.matmul(a, b, given_dtype(out_dtype)))


@operator("nn.dense")
def dense(
    emit: Emitter,
    data: relax.Expr,
    weight: relax.Expr,
    *,
    units: int | None = None,
    out_dtype: str | None = None,
) -> relax.Expr:
    return _product(emit, data, _swapped(emit, weight), units, out_dtype)


@operator("nn.contrib_dense_pack")
def dense_pack(
    emit: Emitter,
    data: relax.Expr,
    weight: relax.Expr,
    *,
    units: int | None = None,
    out_dtype: str | None = None,
    weight_layout: str = "NC",
) -> relax.Expr:
    weight = relayout(emit, weight, weight_layout, "CN")
    return _product(emit, data, weight, units, out_dtype)


@operator("nn.matmul", "nn.batch_matmul")
def matmul(
    emit: Emitter,
    a: relax.Expr,
    b: relax.Expr,
    *,
    units: int | None = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> relax.Expr:
    """Multiply matrices that may be transposed.

    The defaults are those of the saved form. Relay's Python interface had others for
    ``batch_matmul``, which were then written explicitly.
    """
    a = _swapped(emit, a) if transpose_a else a
    b = _swapped(emit, b) if transpose_b else b
    return _product(emit, a, b, units, out_dtype)


@operator("nn.bias_add")
def bias_add(emit: Emitter, data: relax.Expr, bias: relax.Expr, *, axis: int = 1) -> relax.Expr:
    return emit(relax.op.add(data, emit.along(bias, axis, len(shape_of(data)))))
