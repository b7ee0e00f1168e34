# SPDX-License-Identifier: Apache-2.0
"""Conversion between data types."""

from __future__ import annotations

import numpy as np
from tvm import DataType, relax, te, tirx

from ...emitter import constant, constant_array, dtype_of, shape_of
from ..node_emitter import NodeEmitter
from ..numbers import is_integer
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


@operator("BitCast")
def bit_cast(emit: NodeEmitter, data: relax.Expr, *, to: int) -> relax.Expr:
    """Read the bits of each element as another type of as many bits."""
    given, wanted = dtype_of(data), name_of_type(emit, to)
    if _bytes_of(given) != _bytes_of(wanted):
        raise emit.error(f"reads {given} as {wanted}, which is of another size.")
    if given == wanted:
        return data
    if wanted == "bool":
        raise emit.error("reads bits as truths, of which most would be neither true nor false.")
    known = constant_array(data)
    if known is not None:
        emit.allocate(known.shape, wanted)
        return constant(known.view(np.dtype(wanted)))
    if is_integer(wanted) and (is_integer(given) or given == "bool"):
        return emit.cast(data, wanted)

    def reinterpreted(tensor: te.Tensor) -> te.Tensor:
        return te.compute(tensor.shape, lambda *i: tirx.reinterpret(wanted, tensor[i]), "bits")

    rows = emit.reshape(data, shape_of(data) or [1])  # TVM cannot lower it of bfloat16 without axes
    return emit.reshape(emit(emit.builder.call_te(reinterpreted, rows)), shape_of(data))


def _bytes_of(dtype: str) -> int:
    return (DataType(dtype).bits + 7) // 8
