# SPDX-License-Identifier: Apache-2.0
"""Convolutions and transposed convolutions of one to three dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax

from ...emitter import shape_of
from ..node_emitter import NodeEmitter
from .integers import check_bytes, less_zero, placed
from .quantization import requantized
from .table import operator
from .window import WINDOW, Window, window_of, with_known_padding

Sizes = Sequence[int]


@operator("Conv", shared=WINDOW)
def conv(
    emit: NodeEmitter,
    data: relax.Expr,
    weight: relax.Expr,
    bias: relax.Expr | None = None,
    *,
    group: int = 1,
    **window: Any,
) -> relax.Expr:
    moved = window_at(emit, data, weight, window)
    return _with_bias(emit, convolved(emit, data, weight, moved, group), bias)


def convolved(
    emit: NodeEmitter, data: relax.Expr, weight: relax.Expr, window: Window, group: int
) -> relax.Expr:
    """Return the products with weights at all places of a window."""
    data, window = with_known_padding(emit, data, window, 0)
    spatial = _spatial(emit, data)
    build = getattr(relax.op.nn, f"conv{len(spatial)}d")
    return emit(
        build(
            data,
            weight,
            window.strides,
            window.padding,
            window.dilations,
            group,
            data_layout=f"NC{spatial}",
            kernel_layout=f"OI{spatial}",
        )
    )


@operator("ConvTranspose", shared=WINDOW)
def conv_transpose(
    emit: NodeEmitter,
    data: relax.Expr,
    weight: relax.Expr,
    bias: relax.Expr | None = None,
    *,
    auto_pad: str = "NOTSET",
    group: int = 1,
    output_padding: Sizes | None = None,
    output_shape: Sizes | None = None,
    **window: Any,
) -> relax.Expr:
    spatial = _spatial(emit, data)
    rank, sizes = len(spatial), shape_of(data)[2:]
    moved = window_at(emit, data, weight, window)
    added = list(output_padding or [0] * rank)
    if auto_pad != "NOTSET" or output_shape is not None:
        wanted = None if output_shape is None else list(output_shape)[-rank:]
        moved, added = _automatic(moved, sizes, added, wanted, auto_pad)
    result = emit(
        getattr(relax.op.nn, f"conv{rank}d_transpose")(
            data,
            weight,
            moved.strides,
            moved.padding,
            added,
            moved.dilations,
            group,
            data_layout=f"NC{spatial}",
            kernel_layout=f"IO{spatial}",
        )
    )
    return _with_bias(emit, result, bias)


def _automatic(
    window: Window,
    sizes: Sizes,
    added: list[int],
    wanted: list[int] | None,
    auto_pad: str,
) -> tuple[Window, list[int]]:
    """Return the padding that leads to a shape, and what is added behind the result."""
    steps = window.strides
    if wanted is None and auto_pad == "VALID":
        return window, added
    if wanted is None:
        wanted = [size * step for size, step in zip(sizes, steps, strict=True)]
    total = [
        step * (size - 1) + extra + extent - out
        for step, size, extra, extent, out in zip(
            steps, sizes, added, window.extents, wanted, strict=True
        )
    ]
    # A larger result than the windows reach has zeros at its end.
    added = [extra + max(-pad, 0) for extra, pad in zip(added, total, strict=True)]
    half = [max(pad, 0) // 2 for pad in total]
    rest = [max(pad, 0) - less for pad, less in zip(total, half, strict=True)]
    before, after = (half, rest) if auto_pad == "SAME_UPPER" else (rest, half)
    return Window(window.kernel, steps, window.dilations, before, after), added


@operator("QLinearConv", shared=WINDOW)
def qlinear_conv(
    emit: NodeEmitter,
    data: relax.Expr,
    x_scale: relax.Expr,
    x_zero_point: relax.Expr,
    weight: relax.Expr,
    w_scale: relax.Expr,
    w_zero_point: relax.Expr,
    y_scale: relax.Expr,
    y_zero_point: relax.Expr,
    bias: relax.Expr | None = None,
    *,
    group: int = 1,
    **window: Any,
) -> relax.Expr:
    """Convolve 8-bit integers, and quantise the result."""
    check_bytes(emit, data, weight)
    left, right = less_zero(emit, data, x_zero_point, 1), less_zero(emit, weight, w_zero_point, 0)
    total = convolved(emit, left, right, window_at(emit, data, weight, window), group)
    total = _with_bias(emit, total, None if bias is None else emit.cast(bias, "float32"))
    factor = emit.product(emit.reshape(x_scale, []), placed(emit, w_scale, total, 1))
    return requantized(emit, total, factor, y_scale, y_zero_point)


def window_at(
    emit: NodeEmitter, data: relax.Expr, weight: relax.Expr, attributes: Mapping[str, Any]
) -> Window:
    """Return the window of a convolution."""
    kernel = shape_of(weight)[2:]
    if len(kernel) != len(shape_of(data)) - 2:
        raise emit.error(f"has a kernel of {list(kernel)} for data of {list(shape_of(data))}.")
    return window_of(emit, shape_of(data)[2:], kernel, **attributes)


def _spatial(emit: NodeEmitter, data: relax.Expr) -> str:
    rank = len(shape_of(data)) - 2
    if not 1 <= rank <= 3:
        raise emit.error(f"has data of {rank + 2} axes; 3 to 5 are supported.")
    return "DHW"[-rank:]


def _with_bias(emit: NodeEmitter, result: relax.Expr, bias: relax.Expr | None) -> relax.Expr:
    if bias is None:
        return result
    return emit(relax.op.add(result, emit.along(bias, 1, len(shape_of(result)))))
