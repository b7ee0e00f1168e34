# SPDX-License-Identifier: Apache-2.0
"""Linear quantisation to 8- and 16-bit integers, and back."""

from __future__ import annotations

import numpy as np
from tvm import relax

from ....ops.dynamic_grid import dynamic_grid
from ....sizes.arithmetic import is_one, require_equal
from ....sizes.size import AnyShape, known_equal
from ...emitter import constant_array, dtype_of, shape_of
from ..node_emitter import NodeEmitter
from ..tensors import name_of_type
from .integers import check_bytes, less_zero, placed, product_of
from .table import Value, operator


def quantize_linear(
    emit: NodeEmitter,
    data: relax.Expr,
    scale: relax.Expr,
    zero_point: relax.Expr | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> relax.Expr:
    check_scale(emit, scale, divides=True)
    dtype = "uint8" if zero_point is None else dtype_of(zero_point)
    if output_dtype:
        dtype = name_of_type(emit, output_dtype)
    if block_size:
        return _quantized_by_blocks(emit, data, scale, zero_point, axis, block_size, dtype)
    if zero_point is None:
        zero_point = emit.full(shape_of(scale), 0, dtype)
    if dtype_of(data) in ("int32", "bfloat16"):  # which Relax's operator does not take
        data = emit.cast(data, "float32")
    scale = emit.cast(scale, dtype_of(data))
    scale, zero_point, place = _of_axis(emit, data, scale, zero_point, axis)
    return emit(relax.op.quantize(data, scale, zero_point, place, dtype))


def dequantize_linear(
    emit: NodeEmitter,
    data: relax.Expr,
    scale: relax.Expr,
    zero_point: relax.Expr | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> relax.Expr:
    dtype = name_of_type(emit, output_dtype) if output_dtype else dtype_of(scale)
    if block_size:
        scale, zero_point = (
            part if part is None else repeated(emit, part, axis, block_size, shape_of(data))
            for part in (scale, zero_point)
        )
        assert scale is not None, "it is required"
        return emit.cast(_product(emit, data, scale, zero_point), dtype)
    if zero_point is None:
        zero_point = emit.full(shape_of(scale), 0, dtype_of(data))
    scale, zero_point, place = _of_axis(emit, data, scale, zero_point, axis)
    if dtype_of(data) not in ("int8", "uint8", "int16", "uint16", "int32"):
        raise emit.error(f"dequantises {dtype_of(data)}, which is not supported.")
    wide = "float32" if dtype == "bfloat16" else dtype  # which Relax's operator does not give
    if dtype_of(scale) == "bfloat16":
        scale = emit.cast(scale, "float32")
    return emit.cast(emit(relax.op.dequantize(data, scale, zero_point, place, wide)), dtype)


def _of_axis(
    emit: NodeEmitter, data: relax.Expr, scale: relax.Expr, zero_point: relax.Expr, axis: int
) -> tuple[relax.Expr, relax.Expr, int]:
    """Return one scale and zero point as numbers, several as they are, and their axis."""
    ndim, sizes = len(shape_of(data)), shape_of(scale)
    if is_one(sizes) and not (sizes and ndim == 1 and known_equal(shape_of(data)[0], 1)):
        last = max(ndim - 1, 0)
        return emit.reshape(scale, []), emit.reshape(zero_point, []), last
    place = 0 if ndim <= 1 and axis == 1 else emit.axis(axis, ndim)
    if len(sizes) != 1 or not require_equal(sizes[0], shape_of(data)[place]):
        raise emit.error(f"has {list(sizes)} scales for axis {place} of {list(shape_of(data))}.")
    return scale, zero_point, place


def repeated(
    emit: NodeEmitter, part: relax.Expr, axis: int, count: int, shape: AnyShape
) -> relax.Expr:
    """Repeat each element along an axis, and cut what is beyond the data."""
    axis = emit.axis(axis, len(shape))
    sizes = list(shape_of(part))
    wanted = [-(-size // count) if i == axis else size for i, size in enumerate(shape)]
    if not all(map(require_equal, sizes, wanted)):
        raise emit.error(f"has {sizes} scales or zero points for blocks, which takes {wanted}.")
    apart = emit.reshape(part, [*sizes[: axis + 1], 1, *sizes[axis + 1 :]])
    wide = emit.broadcast(apart, [*sizes[: axis + 1], count, *sizes[axis + 1 :]])
    joined = emit.reshape(wide, [*sizes[:axis], sizes[axis] * count, *sizes[axis + 1 :]])
    return emit.slice(joined, axis, 0, shape[axis])


def _product(
    emit: NodeEmitter, data: relax.Expr, scale: relax.Expr, zero_point: relax.Expr | None
) -> relax.Expr:
    numbers = emit.cast(data, "int32")
    if zero_point is not None:
        numbers = emit(relax.op.subtract(numbers, emit.cast(zero_point, "int32")))
    return emit(relax.op.multiply(emit.cast(numbers, dtype_of(scale)), scale))


def _quantized_by_blocks(
    emit: NodeEmitter,
    data: relax.Expr,
    scale: relax.Expr,
    zero_point: relax.Expr | None,
    axis: int,
    block: int,
    dtype: str,
) -> relax.Expr:
    scale = repeated(emit, emit.cast(scale, dtype_of(data)), axis, block, shape_of(data))
    numbers = emit(relax.op.round(relax.op.divide(data, scale)))
    if zero_point is not None:
        zero = repeated(emit, zero_point, axis, block, shape_of(data))
        numbers = emit(relax.op.add(numbers, emit.cast(zero, dtype_of(data))))
    limits = np.iinfo(dtype)
    limited = emit(relax.op.clip(numbers, float(limits.min), float(limits.max)))
    return emit.cast(limited, dtype)


def check_scale(emit: NodeEmitter, scale: relax.Expr, divides: bool = False) -> None:
    """Raise a ModelError for a constant scale that leaves open what is computed.

    Parameters
    ----------
    emit : NodeEmitter
    scale : relax.Expr
        One scale, or several.
    divides : bool
        Whether numbers are divided by it.
    """
    known = constant_array(scale)
    if known is None:
        return
    numbers = known.astype("float64")
    if not np.isfinite(numbers).all() or (divides and not (numbers > 0).all()):
        wanted = "positive" if divides else "finite"
        raise emit.error(f"has a scale that is no {wanted} number; quantise the model again.")


def one_grid(
    emit: NodeEmitter, dtype: str, scale: relax.Expr, zero_point: relax.Expr | None
) -> tuple[relax.Expr, relax.Expr]:
    """Return the scale and the zero point of a whole tensor as numbers.

    Parameters
    ----------
    emit : NodeEmitter
    dtype : str
        The type of the integers.
    scale : relax.Expr
    zero_point : relax.Expr or None
        0 if it is left out.

    Raises
    ------
    ModelError
        If they are several, or of another type.
    """
    if zero_point is None:
        zero_point = emit.full([], 0, dtype)
    if dtype_of(zero_point) != dtype:
        raise emit.error(f"has a zero point of {dtype_of(zero_point)} for integers of {dtype}.")
    for part, name in ((scale, "scales"), (zero_point, "zero points")):
        if not is_one(shape_of(part)):
            raise emit.error(f"has {list(shape_of(part))} {name}, but takes one for all elements.")
    return emit.reshape(scale, []), emit.reshape(zero_point, [])


@operator("QLinearMatMul")
def qlinear_matmul(
    emit: NodeEmitter,
    a: relax.Expr,
    a_scale: relax.Expr,
    a_zero_point: relax.Expr,
    b: relax.Expr,
    b_scale: relax.Expr,
    b_zero_point: relax.Expr,
    y_scale: relax.Expr,
    y_zero_point: relax.Expr,
) -> relax.Expr:
    """Multiply 8-bit integers, and quantise the product."""
    check_bytes(emit, a, b)
    total = product_of(emit, a, less_zero(emit, b, b_zero_point, -1), a_zero_point)
    rows = placed(emit, a_scale, total, -2)
    columns = placed(emit, b_scale, total, -1)
    return requantized(emit, total, emit.product(rows, columns), y_scale, y_zero_point)


def requantized(
    emit: NodeEmitter,
    total: relax.Expr,
    factor: relax.Expr,
    scale: relax.Expr,
    zero_point: relax.Expr,
) -> relax.Expr:
    """Return sums of products times their factor, in steps of a scale from a zero point.

    Their rounding is the quantisation by a scale of 1, so that what reads the result in such steps
    finds it in float32.
    """
    check_scale(emit, factor)
    check_scale(emit, scale, divides=True)
    dtype = dtype_of(zero_point)
    scale, zero_point = one_grid(emit, dtype, scale, zero_point)
    factor, scale = (emit.cast(x, "float32") for x in (factor, scale))
    steps = emit(relax.op.multiply(total, emit.quotient(factor, scale)))
    one, last = relax.const(1.0, "float32"), max(len(shape_of(total)) - 1, 0)
    return emit(relax.op.quantize(steps, one, zero_point, last, dtype))


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(emit: NodeEmitter, data: relax.Expr) -> Value:
    return quantized_by_range(emit, data)


def quantized_by_range(
    emit: NodeEmitter, data: relax.Expr
) -> tuple[relax.Expr, relax.Expr, relax.Expr]:
    """Quantise to 0 ... 255 by the range of the data, which is extended to 0.

    Returns the integers, their scale and their zero point. The scale of zeros is 1. A number is
    rounded again after the zero point has been added, which shows what reads it in float32 that it
    is an integer.
    """
    data = emit.cast(data, "float32")
    found = dynamic_grid(emit.builder, data, shape_of(data))
    scale, rounded = (emit(relax.TupleGetItem(found, place)) for place in range(2))
    zero_point = emit.cast(emit(relax.op.clip(rounded, 0.0, 255.0)), "uint8")
    numbers = emit(relax.op.round(relax.op.divide(data, scale)))
    numbers = emit(relax.op.round(emit(relax.op.add(numbers, rounded))))
    result = emit.cast(emit(relax.op.clip(numbers, 0.0, 255.0)), "uint8")
    return result, scale, zero_point
