# SPDX-License-Identifier: Apache-2.0
"""Conversion between data types."""

from __future__ import annotations

from tvm import relax

from ...emitter import dtype_of
from ..node_emitter import NodeEmitter
from ..tensors import name_of_type
from .table import operator


@operator("Cast")
def cast(
    emit: NodeEmitter, data: relax.Expr, *, to: int, saturate: int = 1, round_mode: str = "up"
) -> relax.Expr:
    """Convert; saturation and rounding modes are those of 8-bit floats."""
    return converted(emit, data, name_of_type(emit, to))


@operator("CastLike")
def cast_like(
    emit: NodeEmitter,
    data: relax.Expr,
    like: relax.Expr,
    *,
    saturate: int = 1,
    round_mode: str = "up",
) -> relax.Expr:
    return converted(emit, data, dtype_of(like))


def converted(emit: NodeEmitter, data: relax.Expr, dtype: str) -> relax.Expr:
    """Return a tensor in another type; as a truth, all numbers but 0 are true."""
    if dtype == "bool" and dtype_of(data) != "bool":
        return emit(relax.op.not_equal(data, emit.scalar(0, data)))
    return emit.cast(data, dtype)
