# SPDX-License-Identifier: Apache-2.0
"""Convolutions that cuDNN is asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvm_ios.backend.cuda.kernels.cudnn import CudnnProblem
from tvm_ios.ops.window import Window


def window(size: int, kernel: int, stride: int = 1, dilation: int = 1, pad: int = 0) -> Window:
    out = (size + 2 * pad - (kernel - 1) * dilation - 1) // stride + 1
    return Window(size, out, kernel, stride, dilation, pad)


def problem(rows: Window, columns: Window, **options: Any) -> CudnnProblem:
    """A convolution of 6 to 8 channels, channels last, exact, with nothing after it."""
    defaults = {
        "precision": "fp32", "channels_last": True, "epilogue": "nothing", "residual": False,
        "batch": 2, "in_channels": 6, "out_channels": 8, "groups": 1,
    }  # fmt: skip
    return CudnnProblem(**{**defaults, **options}, rows=rows, columns=columns)


SQUARE = problem(window(5, 3, pad=1), window(7, 3, pad=1))
FULL = replace(SQUARE, epilogue="bias_relu", residual=True)
ODD = problem(window(9, 1, stride=2), window(11, 7, stride=3, dilation=1, pad=3))
PROBLEMS = {
    "square": SQUARE,
    "first": replace(SQUARE, channels_last=False),
    "odd": ODD,
    "dilated": problem(window(9, 3, dilation=2, pad=1), window(9, 2, dilation=3)),
    "grouped": replace(SQUARE, groups=2),
    "depthwise": replace(SQUARE, in_channels=8, groups=8, epilogue="bias_relu"),
    "bias": replace(ODD, epilogue="bias"),
    "relu": replace(ODD, epilogue="bias_relu", channels_last=False),
    "full": FULL,
    "full_first": replace(FULL, channels_last=False, groups=2),
    "sum": replace(FULL, epilogue="bias"),
    "tf32": replace(FULL, precision="tf32"),
    "fp16": replace(FULL, precision="fp16"),
    "fp16_first": replace(ODD, precision="fp16", channels_last=False),
    "bf16": replace(FULL, precision="bf16"),
}
