# SPDX-License-Identifier: Apache-2.0
"""Conversion between data types."""

from __future__ import annotations

import numpy as np
from tvm import DataType, relax, te, tirx

from ....ops.narrow import NARROW
from ...emitter import constant, constant_array, dtype_of, shape_of
from ..narrow import Narrow, bits, narrowed, numbers, of_bits
from ..node_emitter import NodeEmitter
from ..numbers import is_integer
from ..tensors import name_of_type, narrow_of_code
from .table import TAKES, Value, operator


@operator("Cast", narrow=TAKES)
def cast(
    emit: NodeEmitter,
    data: relax.Expr | Narrow,
    *,
    to: int,
    saturate: int = 1,
    round_mode: str = "up",
) -> Value:
    """Convert; saturation and rounding modes are those of 8-bit floats."""
    narrow = narrow_of_code(to)
    if narrow is not None:
        return _narrowed(emit, data, narrow, saturate, round_mode)
    return converted(emit, numbers(emit, data), name_of_type(emit, to))


@operator("CastLike", narrow=TAKES)
def cast_like(
    emit: NodeEmitter,
    data: relax.Expr | Narrow,
    like: relax.Expr | Narrow,
    *,
    saturate: int = 1,
    round_mode: str = "up",
) -> Value:
    if isinstance(like, Narrow):
        return _narrowed(emit, data, like.dtype, saturate, round_mode)
    return converted(emit, numbers(emit, data), dtype_of(like))


def _narrowed(
    emit: NodeEmitter, data: relax.Expr | Narrow, dtype: str, saturate: int, rounding: str
) -> Narrow:
    if rounding not in ("up", "down", "nearest"):
        raise emit.error(f"rounds {rounding!r}, which is neither up, down nor nearest.")
    return narrowed(emit, data, dtype, bool(saturate), rounding)


def converted(emit: NodeEmitter, data: relax.Expr, dtype: str) -> relax.Expr:
    """Return a tensor in another type; as a truth, all numbers but 0 are true."""
    if dtype == "bool" and dtype_of(data) != "bool":
        known = constant_array(data)
        if known is not None:  # it may choose a branch
            emit.allocate(known.shape, dtype)
            return constant(known != 0)
        return emit(relax.op.not_equal(data, emit.scalar(0, data)))
    return emit.cast(data, dtype)


@operator("BitCast", narrow=TAKES)
def bit_cast(emit: NodeEmitter, data: relax.Expr | Narrow, *, to: int) -> Value:
    """Read the bits of each element as another type of as many bits."""
    given = data.dtype if isinstance(data, Narrow) else dtype_of(data)
    wanted = narrow_of_code(to) or name_of_type(emit, to)
    if _bits_of(given) != _bits_of(wanted):
        raise emit.error(f"reads {given} as {wanted}, which is of another size.")
    plain = bits(emit, data) if isinstance(data, Narrow) else data
    if wanted in NARROW:
        return of_bits(emit, _reinterpreted(emit, plain, "uint8"), wanted)
    return _reinterpreted(emit, plain, wanted)


def _reinterpreted(emit: NodeEmitter, data: relax.Expr, wanted: str) -> relax.Expr:
    given = dtype_of(data)
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


def _bits_of(dtype: str) -> int:
    """Return the bits that an element takes, of which a truth uses one."""
    return 8 if dtype == "bool" else int(DataType(dtype).bits)
