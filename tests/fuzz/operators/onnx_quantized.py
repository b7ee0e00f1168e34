# SPDX-License-Identifier: Apache-2.0
"""ONNX's operators between numbers and their quantised form."""

from __future__ import annotations

import numpy as np

from ..draw import Draw
from .table import ONNX


def _scale(d: Draw) -> str:
    return d.constant(np.float32(2.0 ** d.integer(-5, 0)))  # a power of two: division is exact


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
