# SPDX-License-Identifier: Apache-2.0
"""Tensors of 8-bit floats, and of numbers of 4 and 2 bits.

Nothing computes in these types: an operator moves their elements, or converts them from numbers and
to numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvm import relax

from ...ops.narrow import LIMITS, NARROW, coded, is_integer, read, values, width
from ..emitter import constant, constant_array, dtype_of, shape_of
from .node_emitter import NodeEmitter
from .tensors import array_of

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class Narrow:
    """A tensor of a narrow type.

    Attributes
    ----------
    stored : relax.Expr
        Its integers, as int8 or uint8, or the codes of its floating-point numbers, as uint8.
    dtype : str
        Its type, as NumPy calls it.
    """

    stored: relax.Expr
    dtype: str


def tensor_of(tensor: onnx.TensorProto, where: str) -> relax.Expr | Narrow:
    """Return a constant.

    Raises
    ------
    ModelError
        As :func:`~.tensors.array_of`.
    """
    array = array_of(tensor, where)
    dtype = array.dtype.name
    if dtype not in NARROW:
        return constant(array)
    if is_integer(dtype):
        return Narrow(constant(array.astype(NARROW[dtype])), dtype)
    return Narrow(constant(array.view("uint8")), dtype)


def given(emit: NodeEmitter, held: relax.Expr, dtype: str) -> Narrow:
    """Return an input of the model; of the bytes of integers, some bits do not count."""
    return Narrow(_cut(emit, held, dtype) if is_integer(dtype) else held, dtype)


def numbers(emit: NodeEmitter, data: relax.Expr | Narrow) -> relax.Expr:
    """Return what a tensor holds in a type that is computed in, of which it has all values."""
    if not isinstance(data, Narrow):
        return data
    if is_integer(data.dtype):
        return data.stored
    table, known = values(data.dtype), constant_array(data.stored)
    if known is not None:
        emit.allocate(known.shape, "float32")
        return constant(table[known])
    codes = emit.reshape(data.stored, shape_of(data.stored) or [1])
    read_out = emit(emit.builder.call_te(read, codes, constant(table)))
    return emit.reshape(read_out, shape_of(data.stored))


def narrowed(
    emit: NodeEmitter,
    data: relax.Expr | Narrow,
    dtype: str,
    saturate: bool = True,
    rounding: str = "up",
) -> Narrow:
    """Convert to a narrow type.

    Parameters
    ----------
    emit : NodeEmitter
    data : relax.Expr or Narrow
    dtype : str
        The type. An integer that it does not hold is taken modulo its range.
    saturate : bool
        Whether what is beyond the largest number becomes that.
    rounding : str
        Of powers of two: up, down or nearest.
    """
    if isinstance(data, Narrow) and data.dtype == dtype:
        return data
    plain = numbers(emit, data)
    if is_integer(dtype):
        return Narrow(_cut(emit, emit.cast(plain, NARROW[dtype]), dtype), dtype)
    real = emit.cast(plain, "float32")
    flat = emit.reshape(real, shape_of(real) or [1])
    codes = emit(emit.builder.call_te(coded(dtype, saturate, rounding), flat))
    return Narrow(emit.reshape(codes, shape_of(real)), dtype)


def limited(emit: NodeEmitter, held: relax.Expr, dtype: str) -> Narrow:
    """Return integers, of which those beyond the limits of a type become these."""
    least, most = (emit.scalar(limit, held) for limit in LIMITS[dtype])
    above = emit(relax.op.maximum(held, least))
    return Narrow(emit(relax.op.minimum(above, most)), dtype)


def bits(emit: NodeEmitter, data: Narrow) -> relax.Expr:
    """Return the bits of each element, as uint8."""
    held = emit.cast(data.stored, "uint8")
    return emit(relax.op.bitwise_and(held, emit.scalar(_mask(data.dtype), held)))


def of_bits(emit: NodeEmitter, held: relax.Expr, dtype: str) -> Narrow:
    """Return a tensor of elements of these bits, given as uint8."""
    if not is_integer(dtype):
        return Narrow(held, dtype)
    return Narrow(_cut(emit, emit.cast(held, NARROW[dtype]), dtype), dtype)


def _mask(dtype: str) -> int:
    return (1 << width(dtype)) - 1


def _cut(emit: NodeEmitter, held: relax.Expr, dtype: str) -> relax.Expr:
    """Keep the bits of an element; the first of a signed one says whether it is negative."""
    kept = emit(relax.op.bitwise_and(held, emit.scalar(_mask(dtype), held)))
    if dtype_of(held) == "uint8":
        return kept
    sign = emit.scalar(1 << (width(dtype) - 1), held)
    return emit(relax.op.subtract(emit(relax.op.bitwise_xor(kept, sign)), sign))
