# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX Runtime on 8-bit integers that compute in float32 in between.

ONNX Runtime looks most of them up in a table, and rounds products of scales first; where a result
is as near to one integer as to the next, either may be the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax

from ....emitter import dtype_of, shape_of
from ...narrow import Narrow
from ...node_emitter import NodeEmitter
from .. import linear
from ..activation import leaky_relu, sigmoid, softmax, softmax_of_rows
from ..pooling import average_pool
from ..quantization import check_scale, dequantize_linear, one_grid, quantize_linear
from ..table import TAKES, Value, operator
from ..window import WINDOW
from .domain import MICROSOFT, contributed

_OPSET_OF_AXES = 13  # from which on Softmax is along one axis


def real(
    emit: NodeEmitter, data: relax.Expr, scale: relax.Expr, zero_point: relax.Expr | None
) -> relax.Expr:
    """Return the numbers that the integers of a tensor with one scale stand for."""
    check_scale(emit, scale)
    return dequantize_linear(emit, data, *one_grid(emit, dtype_of(data), scale, zero_point))


def quantized(
    emit: NodeEmitter,
    data: relax.Expr,
    dtype: str,
    scale: relax.Expr,
    zero_point: relax.Expr | None,
) -> relax.Expr:
    """Return numbers as integers of one scale."""
    return quantize_linear(emit, data, *one_grid(emit, dtype, scale, zero_point))


def _of_two(build: Callable[..., relax.Expr]) -> Callable[..., relax.Expr]:
    def convert(
        emit: NodeEmitter,
        a: relax.Expr,
        a_scale: relax.Expr,
        a_zero_point: relax.Expr | None,
        b: relax.Expr,
        b_scale: relax.Expr,
        b_zero_point: relax.Expr | None,
        c_scale: relax.Expr,
        c_zero_point: relax.Expr | None = None,
    ) -> relax.Expr:
        parts = real(emit, a, a_scale, a_zero_point), real(emit, b, b_scale, b_zero_point)
        return quantized(emit, emit(build(*parts)), dtype_of(a), c_scale, c_zero_point)

    return convert


contributed("QLinearAdd")(_of_two(relax.op.add))
contributed("QLinearMul")(_of_two(relax.op.multiply))


def _of_one(
    emit: NodeEmitter,
    function: Callable[[relax.Expr], Value],
    data: relax.Expr,
    grids: Sequence[relax.Expr | None],
) -> relax.Expr:
    """Return a function of the numbers that integers stand for, as integers of the same type.

    Parameters
    ----------
    emit : NodeEmitter
    function : callable
    data : relax.Expr
    grids : sequence of relax.Expr or None
        The scale and the zero point of the data, then those of the result.
    """
    x_scale, x_zero_point, y_scale, y_zero_point = (*grids, *[None] * 4)[:4]
    if x_scale is None or y_scale is None or len(grids) > 4:
        raise emit.error("needs a scale and a zero point of its data, and of its result.")
    result = function(real(emit, data, x_scale, x_zero_point))
    return quantized(emit, result, dtype_of(data), y_scale, y_zero_point)


@contributed("QLinearSigmoid")
def qlinear_sigmoid(
    emit: NodeEmitter,
    data: relax.Expr,
    *grids: relax.Expr | None,
) -> relax.Expr:
    return _of_one(emit, lambda x: sigmoid(emit, x), data, grids)


@contributed("QLinearLeakyRelu")
def qlinear_leaky_relu(
    emit: NodeEmitter,
    data: relax.Expr,
    *grids: relax.Expr | None,
    alpha: float = 0.01,
) -> relax.Expr:
    return _of_one(emit, lambda x: leaky_relu(emit, x, alpha=alpha), data, grids)


@contributed("QLinearSoftmax")
def qlinear_softmax(
    emit: NodeEmitter,
    data: relax.Expr,
    *grids: relax.Expr | None,
    opset: int,
    axis: int = -1,
) -> relax.Expr:
    convert = softmax if opset >= _OPSET_OF_AXES else softmax_of_rows
    return _of_one(emit, lambda x: convert(emit, x, axis=axis), data, grids)


@contributed("QLinearReduceMean")
def qlinear_reduce_mean(
    emit: NodeEmitter,
    data: relax.Expr,
    *grids: relax.Expr | None,
    axes: Sequence[int],
    keepdims: int,
) -> relax.Expr:
    ndim = len(shape_of(data))
    along = emit.axes(axes, ndim) or list(range(ndim))
    return _of_one(emit, lambda x: emit(relax.op.mean(x, along, bool(keepdims))), data, grids)


def channels_first(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
    """Return images whose channels are their last axis with these as the second one."""
    ndim = len(shape_of(data))
    return emit.transpose(data, [0, ndim - 1, *range(1, ndim - 1)])


def channels_last(emit: NodeEmitter, data: relax.Expr) -> relax.Expr:
    """Return images with their channels as the last axis."""
    ndim = len(shape_of(data))
    return emit.transpose(data, [0, *range(2, ndim), 1])


def of_images(
    emit: NodeEmitter,
    data: relax.Expr,
    last: int,
    convert: Callable[[relax.Expr], relax.Expr],
) -> relax.Expr:
    """Convert what takes channels as the second axis, of data with channels as the last one."""
    if len(shape_of(data)) <= 2:
        raise emit.error(f"has data of {list(shape_of(data))}, which are no images.")
    if not last:
        return convert(data)
    return channels_last(emit, convert(channels_first(emit, data)))


@contributed("QLinearAveragePool", shared=WINDOW | {"ceil_mode", "count_include_pad"})
def qlinear_average_pool(
    emit: NodeEmitter,
    data: relax.Expr,
    *grids: relax.Expr | None,
    channels_last: int = 0,
    **attributes: Any,
) -> relax.Expr:

    def convert(images: relax.Expr) -> relax.Expr:
        return _of_one(emit, lambda x: average_pool(emit, x, **attributes), images, grids)

    return of_images(emit, data, channels_last, convert)


@contributed("QLinearGlobalAveragePool")
def qlinear_global_average_pool(
    emit: NodeEmitter,
    data: relax.Expr,
    *grids: relax.Expr | None,
    channels_last: int = 0,
) -> relax.Expr:
    ndim = len(shape_of(data))
    axes = list(range(1, ndim - 1) if channels_last else range(2, ndim))
    if not axes:
        raise emit.error(f"has data of {list(shape_of(data))}, which are no images.")
    return _of_one(emit, lambda x: emit(relax.op.mean(x, axes, True)), data, grids)


@contributed("QLinearConcat")
def qlinear_concat(
    emit: NodeEmitter,
    y_scale: relax.Expr,
    y_zero_point: relax.Expr,
    *inputs: relax.Expr,
    axis: int,
) -> relax.Expr:
    """Concatenate parts, each of which is followed by its scale and its zero point."""
    if not inputs or len(inputs) % 3:
        raise emit.error(f"has {len(inputs)} inputs, but takes three for each part.")
    parts = [real(emit, *inputs[i : i + 3]) for i in range(0, len(inputs), 3)]
    place = emit.axis(axis, len(shape_of(parts[0])))
    joined = emit(relax.op.concat(parts, place))
    return quantized(emit, joined, dtype_of(y_zero_point), y_scale, y_zero_point)


@contributed("QLinearWhere")
def qlinear_where(
    emit: NodeEmitter,
    condition: relax.Expr,
    x: relax.Expr,
    x_scale: relax.Expr,
    x_zero_point: relax.Expr,
    y: relax.Expr,
    y_scale: relax.Expr,
    y_zero_point: relax.Expr,
    z_scale: relax.Expr,
    z_zero_point: relax.Expr,
) -> relax.Expr:
    parts = real(emit, x, x_scale, x_zero_point), real(emit, y, y_scale, y_zero_point)
    chosen = emit(relax.op.where(condition, *parts))
    return quantized(emit, chosen, dtype_of(x), z_scale, z_zero_point)


@operator("DequantizeLinear", domain=MICROSOFT, narrow=TAKES)
def dequantize(
    emit: NodeEmitter,
    data: relax.Expr | Narrow,
    scale: relax.Expr,
    zero_point: relax.Expr | Narrow | None = None,
    *,
    axis: int = 1,
) -> Value:
    check_scale(emit, scale)
    return linear.dequantize(emit, data, scale, zero_point, axis=axis)


@operator("QuantizeLinear", domain=MICROSOFT, narrow=TAKES)
def quantize(
    emit: NodeEmitter,
    data: relax.Expr,
    scale: relax.Expr,
    zero_point: relax.Expr | Narrow | None = None,
    *,
    axis: int = 1,
) -> Value:
    return linear.quantize(emit, data, scale, zero_point, axis=axis)
