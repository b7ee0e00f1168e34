# SPDX-License-Identifier: Apache-2.0
"""ONNX's operators between numbers and their quantised form."""

from __future__ import annotations

import numpy as np

from ..draw import Draw, Refused
from .onnx_windows import window
from .table import ONNX

_HALVES = 19  # the operator set in which scales may be of 16 bits
_PER_CHANNEL = 13  # the operator set in which scales may differ by channel


def _scale(d: Draw) -> str:
    scale = np.float32(2.0 ** d.integer(-5, 0))  # a power of two: division is exact
    return d.constant(scale, single=d.opset < _HALVES)


@ONNX.operator("QuantizeLinear", 0.4)
def quantize(d: Draw) -> None:
    x = d.operand(range(1, 5), exact=True)
    dtype = d.pick(["int8", "uint8"])
    zero = d.constant(np.asarray(d.integer(0, 5), dtype))
    d.add("QuantizeLinear", [x, _scale(d), zero], exact=True)


@ONNX.operator("DequantizeLinear", 0.4)
def dequantize(d: Draw) -> None:
    x = d.operand(range(1, 5), ("int8", "uint8"))
    zero = d.constant(np.asarray(d.integer(0, 5), d.dtype(x)))
    d.add("DequantizeLinear", [x, _scale(d), zero], exact=True)


@ONNX.operator("DynamicQuantizeLinear", 0.1)
def dynamic(d: Draw) -> None:
    d.add("DynamicQuantizeLinear", [d.operand(range(1, 5), exact=True)], 3)


def _rounded(d: Draw, x: str, scale: float) -> str:
    """Quantise and dequantise."""
    dtype = d.pick(["int8", "uint8"])
    limits = np.iinfo(dtype)
    zero = d.pick([0, int(limits.min), d.integer(limits.min, limits.max)])
    grid = [d.constant(np.float32(scale)), d.constant(np.asarray(zero, dtype))]
    whole = d.add("QuantizeLinear", [x, *grid])
    value = d.add("DequantizeLinear", [whole, *grid])
    d.exact.add(value)
    return value


def _factors(d: Draw, shape: tuple[int, ...], scales: np.ndarray) -> str:
    """Weights that are multiples of a scale for each channel of the first axis."""
    whole = d.random.integers(-7, 8, shape).astype("int8")
    if d.opset >= _PER_CHANNEL and d.chance(0.5):
        zeros = d.constant(np.zeros(shape[0], "int8"))
        return d.add("DequantizeLinear", [d.constant(whole), d.constant(scales), zeros], axis=0)
    return d.constant(whole * scales.reshape(-1, *(1 for _ in shape[1:])), "float32")


@ONNX.motif("quantised layers", 3.0)
def layers(d: Draw) -> None:
    """Convolutions or products of quantised values, one after another.

    All numbers are multiples of powers of two, and biases a quarter of such a multiple. Sums are
    thus exact, and a quarter of their resolution away from where two values are as near.
    """
    if d.floats != "float32":
        raise Refused  # sums of 16 bits are not exact
    scale = 2.0 ** -d.integer(1, 5)
    x = _rounded(d, d.operand(d.pick([4, 4, 4, 2]), exact=True), scale)
    for _ in range(d.integer(1, 3)):
        x, scale = _layer(d, x, scale)


def _layer(d: Draw, x: str, scale: float) -> tuple[str, float]:
    _, channels, *size = d.dims(x)
    out, exponent = d.pick([3, 8, 16, 17, 32, 40]), d.integer(2, 6)
    scales = (2.0 ** -(exponent + d.random.integers(0, 2, out))).astype("float32")
    bias = (d.random.integers(-99, 100, out) + 0.25) * scales * scale
    if not size:
        operands = [x, _factors(d, (out, channels), scales), d.constant(bias, "float32")]
        x = d.add("Gemm", operands, transB=1)
    else:
        attributes = window(d, tuple(size))
        parts = 2 if channels % 32 == out % 32 == 0 and d.chance(0.5) else 1
        kernel = attributes["kernel_shape"]
        weights = _factors(d, (out, channels // parts, *kernel), scales)
        x = d.add("Conv", [x, weights, d.constant(bias, "float32")], group=parts, **attributes)
    if d.chance(0.5):
        x = d.add("Relu", [x])
    scale *= 2.0 ** (d.integer(3, 7) - exponent)
    return _rounded(d, x, scale), scale
