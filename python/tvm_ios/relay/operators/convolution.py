# SPDX-License-Identifier: Apache-2.0
"""Convolutions and transposed convolutions of one to three dimensions."""

from __future__ import annotations

from tvm import relax

from ...frontend.emitter import Emitter, shape_of
from .layouts import is_plain, relayout, sizes_of
from .table import Converter, given_dtype, operator

Sizes = tuple[int, ...]


def _convolution(rank: int) -> Converter:
    spatial, ones = "DHW"[-rank:], (1,) * rank
    build = getattr(relax.op.nn, f"conv{rank}d")

    def convert(
        emit: Emitter,
        data: relax.Expr,
        weight: relax.Expr,
        *,
        strides: Sizes = ones,
        padding: Sizes = (0,),
        dilation: Sizes = ones,
        groups: int = 1,
        channels: int | None = None,
        kernel_size: Sizes | None = None,
        data_layout: str = f"NC{spatial}",
        kernel_layout: str = f"OI{spatial}",
        out_layout: str = "",
        out_dtype: str | None = None,
    ) -> relax.Expr:
        layout, kernel = f"NC{spatial}", f"OI{spatial}"
        if is_plain(data_layout) and is_plain(kernel_layout):
            layout, kernel = data_layout, kernel_layout
        data = relayout(emit, data, data_layout, layout)
        weight = relayout(emit, weight, kernel_layout, kernel)
        weight = _one_filter_a_row(emit, weight, kernel, groups)
        _check_weight(emit, weight, kernel, kernel_size, channels, 1)
        result = emit(
            build(
                data,
                weight,
                strides,
                padding,
                dilation,
                groups,
                data_layout=layout,
                kernel_layout=kernel,
                out_dtype=given_dtype(out_dtype),
            )
        )
        return relayout(emit, result, layout, out_layout or data_layout)

    return convert


def _one_filter_a_row(emit: Emitter, weight: relax.Expr, layout: str, groups: int) -> relax.Expr:
    """Return the weights of a depthwise convolution with one row per output channel.

    Relay has one row per input channel, with its several filters side by side.
    """
    sizes = dict(zip(layout, sizes_of(emit, weight, layout, layout), strict=True))
    if not (groups == sizes["O"] > 1 and sizes["I"] > 1):
        return weight
    order = "OI" + "".join(axis for axis in layout if axis not in "OI")
    rows = relayout(emit, weight, layout, order)
    rows = emit.reshape(rows, (sizes["O"] * sizes["I"], 1, *shape_of(rows)[2:]))
    return relayout(emit, rows, order, layout)


def _check_weight(
    emit: Emitter,
    weight: relax.Expr,
    layout: str,
    kernel_size: Sizes | None,
    channels: int | None,
    groups: int,
) -> None:
    """Raise RelayError unless the weights have the kernel and channels in the attributes.

    They have a row for each output channel of one of ``groups`` groups.
    """
    sizes = dict(zip(layout, sizes_of(emit, weight, layout, layout), strict=True))
    kernel = tuple(size for axis, size in sizes.items() if axis not in "OI")
    if kernel_size is not None and tuple(kernel_size) != kernel:
        raise emit.error(f"has kernel_size={list(kernel_size)}, but a kernel of {list(kernel)}.")
    if channels not in (None, sizes["O"] * groups):
        raise emit.error(f"has channels={channels}, but weights for {sizes['O'] * groups}.")


def _transposed(rank: int) -> Converter:
    spatial, ones = "DHW"[-rank:], (1,) * rank
    build = getattr(relax.op.nn, f"conv{rank}d_transpose")

    def convert(
        emit: Emitter,
        data: relax.Expr,
        weight: relax.Expr,
        *,
        channels: int | None = None,
        kernel_size: Sizes | None = None,
        strides: Sizes = ones,
        output_padding: Sizes = (0,) * rank,
        padding: Sizes = (0,),
        dilation: Sizes = ones,
        groups: int = 1,
        data_layout: str = f"NC{spatial}",
        kernel_layout: str = f"IO{spatial}",
        out_layout: str = "",
        out_dtype: str | None = None,
    ) -> relax.Expr:
        weight = relayout(emit, weight, kernel_layout, f"IO{spatial}")
        _check_weight(emit, weight, f"IO{spatial}", kernel_size, channels, groups)
        result = emit(
            build(
                relayout(emit, data, data_layout, f"NC{spatial}"),
                weight,
                strides,
                padding,
                output_padding,
                dilation,
                groups,
                out_dtype=given_dtype(out_dtype),
            )
        )
        return relayout(emit, result, f"NC{spatial}", out_layout or data_layout)

    return convert


for _rank in (1, 2, 3):
    operator(f"nn.conv{_rank}d_transpose")(_transposed(_rank))
operator("nn.conv1d")(_convolution(1))
operator("nn.conv2d", "nn.contrib_conv2d_NCHWc", "nn.contrib_depthwise_conv2d_NCHWc")(
    _convolution(2)
)
operator("nn.conv3d")(_convolution(3))
