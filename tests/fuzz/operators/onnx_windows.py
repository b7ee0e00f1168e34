# SPDX-License-Identifier: Apache-2.0
"""ONNX's operators that move a window over an image: convolutions and poolings."""

from __future__ import annotations

from typing import Any

from ..draw import Draw, Refused
from .table import ONNX

_IMAGES = (4, 4, 4, 4, 3, 5)


def image(d: Draw) -> str:
    """An operand with one to three axes behind its channels."""
    return d.operand(d.pick(_IMAGES))


def window(d: Draw, size: tuple[int, ...], dilated: bool = True) -> dict[str, Any]:
    """Kernel, strides, padding and dilation that leave at least one output a row."""
    kernel = [d.integer(1, min(5, s + 2)) for s in size]
    if d.chance(0.4):
        kernel = [d.pick([1, 3, 3, 5, 7]) for _ in size]
    pads = [d.integer(0, k - 1) if d.chance(0.6) else 0 for k in kernel * 2]
    if d.chance(0.5):  # such that the image keeps its size
        pads = [(k - 1) // 2 for k in kernel] + [k // 2 for k in kernel]
    padded = [s + b + e for s, b, e in zip(size, pads, pads[len(size) :], strict=False)]
    if any(k > p for k, p in zip(kernel, padded, strict=True)):
        raise Refused
    attributes = {"kernel_shape": kernel, "pads": pads}
    if d.chance(0.5):
        both = d.pick([None, None, 2, 4])  # a kernel folds images by these
        attributes["strides"] = [both or d.pick([1, 1, 2, 3]) for _ in size]
    if dilated and d.chance(0.3):
        most = [(p - 1) // (k - 1) if k > 1 else 3 for k, p in zip(kernel, padded, strict=True)]
        attributes["dilations"] = [min(m, d.pick([1, 2, 3])) for m in most]
    if d.chance(0.1):
        del attributes["pads"]
        attributes["auto_pad"] = d.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
        attributes.pop("dilations", None)
        if attributes["auto_pad"] == "VALID" and any(
            k > s for k, s in zip(kernel, size, strict=True)
        ):
            raise Refused
    return attributes


def groups(d: Draw, channels: int) -> int:
    """A divisor of the channels, mostly one or all of them."""
    divisors = [g for g in range(1, channels + 1) if channels % g == 0]
    return d.pick([1, 1, 1, channels or 1, *divisors])


@ONNX.operator("Conv", 8.0)
def convolution(d: Draw) -> None:
    x = image(d)
    _, channels, *size = d.dims(x)
    parts = groups(d, channels)
    attributes = window(d, tuple(size))
    out = parts * d.integer(1, max(1, 40 // parts))
    kernel = attributes["kernel_shape"]
    operands = [x, d.weights(out, channels // parts, *kernel)]
    if d.chance(0.5):
        operands.append(d.numbers(out))
    if parts > 1 or d.chance(0.2):
        attributes["group"] = parts
    d.add("Conv", operands, **attributes)


@ONNX.operator("ConvTranspose", 1.0)
def transposed_convolution(d: Draw) -> None:
    x = d.operand(d.pick([4, 4, 4, 3]))
    _, channels, *size = d.dims(x)
    parts = groups(d, channels)
    out = d.integer(1, max(1, 20 // parts))
    kernel = [d.integer(1, 4) for _ in size]
    strides = [d.pick([1, 1, 2, 3]) for _ in size]
    pads = [d.integer(0, (k - 1) // 2) for k in kernel * 2]
    attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads, "group": parts}
    if d.chance(0.2):
        attributes["output_padding"] = [d.integer(0, s - 1) for s in strides]
    if d.chance(0.15):
        attributes["dilations"] = [d.pick([1, 2]) for _ in size]
    operands = [x, d.weights(channels, out, *kernel, fan=channels // parts * 4)]
    if d.chance(0.5):
        operands.append(d.numbers(out * parts))
    d.add("ConvTranspose", operands, **attributes)


@ONNX.operator("MaxPool", 3.0)
def max_pool(d: Draw) -> None:
    x = image(d)
    d.add("MaxPool", [x], exact=True, **_pooling(d, x, True))


def _pooling(d: Draw, x: str, dilated: bool) -> dict[str, Any]:
    attributes = window(d, d.dims(x)[2:], dilated)
    if d.chance(0.3) and "auto_pad" not in attributes:
        attributes["ceil_mode"] = 1
    return attributes


@ONNX.operator("AveragePool", 2.0)
def average_pool(d: Draw) -> None:
    x = image(d)
    attributes = _pooling(d, x, d.opset >= 19 and d.chance(0.2))
    if d.chance(0.5):
        attributes["count_include_pad"] = d.integer(0, 1)
    d.add("AveragePool", [x], **attributes)


@ONNX.operator("LpPool", 0.4)
def lp_pool(d: Draw) -> None:
    x = d.operand(4)
    d.add("LpPool", [x], p=d.pick([1, 2]), **window(d, d.dims(x)[2:], dilated=False))


@ONNX.operator("GlobalAveragePool", 1.0)
def global_average(d: Draw) -> None:
    d.add("GlobalAveragePool", [image(d)])


@ONNX.operator("GlobalMaxPool", 0.5)
def global_maximum(d: Draw) -> None:
    d.add("GlobalMaxPool", [image(d)], exact=True)


@ONNX.operator("GlobalLpPool", 0.2)
def global_lp(d: Draw) -> None:
    d.add("GlobalLpPool", [d.operand(4)], p=d.pick([1, 2]))
