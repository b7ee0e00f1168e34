# SPDX-License-Identifier: Apache-2.0
"""Products and convolutions of 8-bit integers that ONNX Runtime adds to ONNX's."""

from __future__ import annotations

from typing import Any

from tvm import relax

from ....emitter import dtype_of, shape_of
from ...node_emitter import NodeEmitter
from ..convolution import qlinear_conv
from ..integers import check_bytes, less_zero, placed, product_of
from ..quantization import check_scale, one_grid, quantized_by_range, requantized
from ..window import WINDOW
from .domain import contributed, with_bias
from .quantized import of_images


def scaled_product(
    emit: NodeEmitter,
    a: relax.Expr,
    b: relax.Expr,
    grids: tuple[relax.Expr, relax.Expr, relax.Expr | None, relax.Expr | None],
    bias: relax.Expr | None,
) -> relax.Expr:
    """Return the product of matrices of 8-bit integers, as float32.

    Parameters
    ----------
    emit : NodeEmitter
    a, b : relax.Expr
    grids : tuple of relax.Expr
        The scale of each, then the zero point of each; those of the first one are numbers.
    bias : relax.Expr or None
        What is added, along the last axis.
    """
    check_bytes(emit, a, b)
    a_scale, b_scale, a_zero_point, b_zero_point = grids
    check_scale(emit, a_scale)
    check_scale(emit, b_scale)
    a_scale, a_zero_point = one_grid(emit, dtype_of(a), a_scale, a_zero_point)
    factor = _of_columns(emit, a_scale, b_scale, b)
    total = product_of(emit, a, less_zero(emit, b, b_zero_point, -1), a_zero_point)
    result = emit(relax.op.multiply(total, factor))
    return with_bias(emit, result, None if bias is None else emit.cast(bias, "float32"))


def _of_columns(
    emit: NodeEmitter, a_scale: relax.Expr, b_scale: relax.Expr, b: relax.Expr
) -> relax.Expr:
    """Return the product of scales for each column, by which a product's kernel can multiply."""
    scales = emit.cast(placed(emit, b_scale, b, -1), "float32")
    if not shape_of(scales):
        scales = emit.broadcast(scales, shape_of(b)[-1:])
    return emit.product(emit.cast(a_scale, "float32"), scales)


@contributed("MatMulIntegerToFloat")
def matmul_integer_to_float(
    emit: NodeEmitter,
    a: relax.Expr,
    b: relax.Expr,
    a_scale: relax.Expr,
    b_scale: relax.Expr,
    a_zero_point: relax.Expr | None = None,
    b_zero_point: relax.Expr | None = None,
    bias: relax.Expr | None = None,
) -> relax.Expr:
    grids = a_scale, b_scale, a_zero_point, b_zero_point
    return emit.cast(scaled_product(emit, a, b, grids, bias), dtype_of(a_scale))


@contributed("DynamicQuantizeMatMul")
def dynamic_quantize_matmul(
    emit: NodeEmitter,
    a: relax.Expr,
    b: relax.Expr,
    b_scale: relax.Expr,
    b_zero_point: relax.Expr | None = None,
    bias: relax.Expr | None = None,
) -> relax.Expr:
    whole, a_scale, a_zero_point = quantized_by_range(emit, a)
    return scaled_product(emit, whole, b, (a_scale, b_scale, a_zero_point, b_zero_point), bias)


@contributed("QGemm")
def qgemm(
    emit: NodeEmitter,
    a: relax.Expr,
    a_scale: relax.Expr,
    a_zero_point: relax.Expr,
    b: relax.Expr,
    b_scale: relax.Expr,
    b_zero_point: relax.Expr,
    c: relax.Expr | None = None,
    y_scale: relax.Expr | None = None,
    y_zero_point: relax.Expr | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> relax.Expr:
    """Return a product of integers and what is added to it; as float32 without a scale."""
    check_bytes(emit, a, b)
    if (y_scale is None) != (y_zero_point is None):
        raise emit.error("has a scale of its result without a zero point, or the reverse.")
    a = emit.transpose(a, [1, 0]) if transA else a
    b = emit.transpose(b, [1, 0]) if transB else b
    a_scale, a_zero_point = one_grid(emit, dtype_of(a), a_scale, a_zero_point)
    total = product_of(emit, a, less_zero(emit, b, b_zero_point, -1), a_zero_point)
    if c is not None:
        total = emit(relax.op.add(total, emit.cast(c, "float32")))
    factor = emit.product(a_scale, placed(emit, b_scale, total, -1))
    factor = emit.product(emit.scalar(alpha, factor), factor)
    if y_scale is not None and y_zero_point is not None:
        return requantized(emit, total, factor, y_scale, y_zero_point)
    check_scale(emit, factor)
    return emit(relax.op.multiply(total, factor))


@contributed("QLinearConv", shared=WINDOW | {"group"})
def convolve(
    emit: NodeEmitter,
    data: relax.Expr,
    *operands: relax.Expr | None,
    channels_last: int = 0,
    **attributes: Any,
) -> relax.Expr:
    """Convolve images whose channels may be their last axis; those of weights are as in ONNX."""
    return of_images(
        emit, data, channels_last, lambda x: qlinear_conv(emit, x, *operands, **attributes)
    )
