# SPDX-License-Identifier: Apache-2.0
"""Linear quantisation, and back, where integers or floating-point numbers may be narrow."""

from __future__ import annotations

from typing import TypeAlias

from tvm import relax

from ....ops.narrow import NARROW, is_integer
from ....sizes.arithmetic import is_one, require_equal
from ....sizes.size import AnyShape
from ...emitter import constant_array, dtype_of, shape_of
from ..narrow import Narrow, limited, narrowed, numbers
from ..node_emitter import NodeEmitter
from ..tensors import code_of_dtype, name_of_type, narrow_of_code
from .quantization import dequantize_linear, quantize_linear, repeated
from .table import TAKES, Value, operator

Tensor: TypeAlias = "relax.Expr | Narrow"


@operator("QuantizeLinear", narrow=TAKES)
def quantize(
    emit: NodeEmitter,
    data: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Value:
    """Divide by the scale, add the zero point, and round; beyond its limits a type saturates."""
    dtype = zero_point.dtype if isinstance(zero_point, Narrow) else narrow_of_code(output_dtype)
    if isinstance(data, Narrow):
        raise emit.error(f"quantises {data.dtype}, which is not supported.")
    factor = numbers(emit, scale)
    place = {"axis": axis, "block_size": block_size}
    if dtype is None:
        others = {"output_dtype": output_dtype, "precision": precision, "saturate": saturate}
        return quantize_linear(emit, data, factor, zero_point, **place, **others)
    if is_integer(dtype):
        held_zero = None if zero_point is None else numbers(emit, zero_point)
        code = code_of_dtype(NARROW[dtype])
        held = quantize_linear(emit, data, factor, held_zero, **place, output_dtype=code)
        return limited(emit, held, dtype)
    if precision:
        factor = emit.cast(factor, name_of_type(emit, precision))
    shape = shape_of(data)
    ratio = relax.op.divide(emit.cast(data, dtype_of(factor)), _spread(emit, factor, shape, place))
    moved = emit(ratio)
    shift = _shift(emit, zero_point)
    if shift is not None:
        shift = emit.cast(_spread(emit, shift, shape, place), dtype_of(factor))
        moved = emit(relax.op.add(moved, shift))
    return narrowed(emit, moved, dtype, bool(saturate))


@operator("DequantizeLinear", narrow=TAKES)
def dequantize(
    emit: NodeEmitter,
    data: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> relax.Expr:
    """Subtract the zero point, and multiply by the scale."""
    if zero_point is not None and _type_of(zero_point) != _type_of(data):
        raise emit.error(
            f"has a zero point of {_type_of(zero_point)} for numbers of {_type_of(data)}."
        )
    if isinstance(scale, Narrow) and not output_dtype:
        raise emit.error(f"computes {scale.dtype}, which is not supported; give it output_dtype.")
    factor = numbers(emit, scale)
    place = {"axis": axis, "block_size": block_size}
    if not isinstance(data, Narrow) or is_integer(data.dtype):
        held = numbers(emit, data)
        held_zero = None if zero_point is None else numbers(emit, zero_point)
        return dequantize_linear(emit, held, factor, held_zero, **place, output_dtype=output_dtype)
    dtype = name_of_type(emit, output_dtype) if output_dtype else dtype_of(factor)
    wide = "float64" if dtype == "float64" else "float32"
    real, shape = emit.cast(numbers(emit, data), wide), shape_of(data.stored)
    shift = _shift(emit, zero_point)
    if shift is not None:
        real = emit(relax.op.subtract(real, emit.cast(_spread(emit, shift, shape, place), wide)))
    spread = emit.cast(_spread(emit, factor, shape, place), wide)
    return emit.cast(emit(relax.op.multiply(real, spread)), dtype)


def _type_of(data: Tensor) -> str:
    return data.dtype if isinstance(data, Narrow) else dtype_of(data)


def _shift(emit: NodeEmitter, zero_point: Tensor | None) -> relax.Expr | None:
    """Return the zero point of floating-point numbers, if it may be another than 0.

    Raises
    ------
    ModelError
        If it is another, of which implementations make different things.
    """
    if zero_point is None:
        return None
    shift = numbers(emit, zero_point)
    known = constant_array(shift)
    if known is not None and known.any():
        raise emit.error("has a zero point other than 0 for floating-point numbers.")
    return shift if known is None else None


def _spread(
    emit: NodeEmitter, part: relax.Expr, shape: AnyShape, place: dict[str, int]
) -> relax.Expr:
    """Return scales so that they broadcast: one for all, one along an axis, or one for a block."""
    axis, block = place["axis"], place["block_size"]
    if block:
        return repeated(emit, part, axis, block, shape)
    if is_one(shape_of(part)):
        return emit.reshape(part, [])
    axis = 0 if len(shape) <= 1 and axis == 1 else emit.axis(axis, len(shape))
    if len(shape_of(part)) != 1 or not require_equal(shape_of(part)[0], shape[axis]):
        raise emit.error(f"has {list(shape_of(part))} scales for axis {axis} of {list(shape)}.")
    return emit.along(part, axis, len(shape))
