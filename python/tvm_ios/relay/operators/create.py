# SPDX-License-Identifier: Apache-2.0
"""Tensors created from shapes and numbers, and cumulative sums."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from tvm import relax

from ...frontend.emitter import Emitter, constant, dtype_of, shape_of
from ..ast import Attribute
from .table import Converter, given_dtype, operator

Sizes = tuple[int, ...]


@operator("full")
def full(
    emit: Emitter, fill_value: relax.Expr, *, shape: Sizes, dtype: str | None = None
) -> relax.Expr:
    return emit(relax.op.full(shape, fill_value, given_dtype(dtype) or dtype_of(fill_value)))


@operator("full_like")
def full_like(emit: Emitter, data: relax.Expr, fill_value: relax.Expr) -> relax.Expr:
    return emit(relax.op.full(shape_of(data), fill_value, dtype_of(data)))


@operator("zeros")
def zeros(emit: Emitter, *, shape: Sizes, dtype: str) -> relax.Expr:
    return emit(relax.op.zeros(shape, dtype))


@operator("ones")
def ones(emit: Emitter, *, shape: Sizes, dtype: str) -> relax.Expr:
    return emit(relax.op.ones(shape, dtype))


@operator("zeros_like")
def zeros_like(emit: Emitter, data: relax.Expr) -> relax.Expr:
    return zeros(emit, shape=shape_of(data), dtype=dtype_of(data))


@operator("ones_like")
def ones_like(emit: Emitter, data: relax.Expr) -> relax.Expr:
    return ones(emit, shape=shape_of(data), dtype=dtype_of(data))


@operator("arange")
def arange(
    emit: Emitter,
    first: relax.Expr,
    last: relax.Expr,
    by: relax.Expr,
    *,
    dtype: str,
    start: Attribute = None,
    stop: Attribute = None,
    step: Attribute = None,
) -> relax.Expr:
    """Return a constant; start, stop and step are both arguments and attributes."""
    begin, end, stride = (
        emit.number(value, what) for value, what in ((first, "start"), (last, "stop"), (by, "step"))
    )
    count = max(math.ceil((end - begin) / stride), 0)
    emit.allocate([count], "int64")
    emit.allocate([count], dtype)
    return constant((begin + stride * np.arange(count)).astype(dtype))


@operator("shape_of")
def shape_of_tensor(emit: Emitter, data: relax.Expr, *, dtype: str | None = None) -> relax.Expr:
    return constant(np.array(shape_of(data), given_dtype(dtype) or "int32"))


@operator("ndarray_size")
def ndarray_size(emit: Emitter, data: relax.Expr, *, dtype: str | None = None) -> relax.Expr:
    return constant(np.array(math.prod(shape_of(data)), given_dtype(dtype) or "int32"))


def _cumulative(build: Callable[..., relax.Expr]) -> Converter:
    def convert(
        emit: Emitter,
        data: relax.Expr,
        *,
        axis: int | None = None,
        dtype: str | None = None,
        exclusive: bool = False,
    ) -> relax.Expr:
        return emit(build(data, axis, given_dtype(dtype), bool(exclusive)))

    return convert


operator("cumsum")(_cumulative(relax.op.cumsum))
operator("cumprod")(_cumulative(relax.op.cumprod))


@operator("trilu")
def trilu(emit: Emitter, data: relax.Expr, k: relax.Expr, *, upper: bool = True) -> relax.Expr:
    """Keep the elements above, or below, a diagonal, and set the others to zero."""
    build = relax.op.triu if upper else relax.op.tril
    return emit(build(data, int(emit.number(k, "k"))))


@operator("einsum", of_tuple=True)
def einsum(emit: Emitter, tensors: tuple[relax.Expr, ...], *, equation: str) -> relax.Expr:
    return emit(relax.op.einsum(list(tensors), equation))
