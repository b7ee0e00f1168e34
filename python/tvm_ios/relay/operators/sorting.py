# SPDX-License-Identifier: Apache-2.0
"""Sorting along an axis."""

from __future__ import annotations

from tvm import relax

from ...frontend.emitter import Emitter
from .table import Value, given_dtype, operator


@operator("sort")
def sort(
    emit: Emitter,
    data: relax.Expr,
    *,
    axis: int = -1,
    is_ascend: bool = True,
    dtype: str | None = None,
) -> relax.Expr:
    """Sort values; the attribute ``dtype`` has no effect."""
    return emit(relax.op.sort(data, axis, not is_ascend))


@operator("argsort")
def argsort(
    emit: Emitter,
    data: relax.Expr,
    *,
    axis: int = -1,
    is_ascend: bool = True,
    dtype: str | None = None,
) -> relax.Expr:
    return emit(relax.op.argsort(data, axis, not is_ascend, given_dtype(dtype) or "int32"))


@operator("topk")
def topk(
    emit: Emitter,
    data: relax.Expr,
    *,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: str | None = None,
) -> Value:
    dtype = given_dtype(dtype) or "int32"
    found = emit(relax.op.topk(data, k, axis, ret_type, not is_ascend, dtype))
    if ret_type != "both":
        return found
    return emit(relax.TupleGetItem(found, 0)), emit(relax.TupleGetItem(found, 1))
