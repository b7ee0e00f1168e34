# SPDX-License-Identifier: Apache-2.0
"""Convolutions as cases, and their reference by NumPy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

from tvm_ios.ops.epilogue import Epilogue, Operand, Step
from tvm_ios.ops.window import Window

RELU = Step("relu", (Operand("value", 1),))
BIAS = Epilogue((Step("add", (Operand("value", 0), Operand("argument", 0))), RELU), ("channel",))


@dataclass(frozen=True)
class Case:
    """A convolution; ``padding`` is top, left, bottom, right."""

    batch: int = 1
    channels: int = 20
    size: tuple[int, int] = (9, 11)
    out_channels: tuple[int, ...] = (24,)
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (1, 1, 1, 1)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    plain: bool = False

    def windows(self) -> tuple[Window, Window]:
        axes = []
        for a in range(2):
            reach = (self.kernel[a] - 1) * self.dilation[a] + 1
            padded = self.size[a] + self.padding[a] + self.padding[a + 2]
            out = (padded - reach) // self.stride[a] + 1
            before = self.padding[a]
            axes.append(
                Window(self.size[a], out, self.kernel[a], self.stride[a], self.dilation[a], before)
            )
        return axes[0], axes[1]


def reference(case: Case, image: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The convolution in float64: the products of all windows of the image and the weights."""
    top, left, bottom, right = case.padding
    padded = np.pad(image.astype("float64"), ((0, 0), (0, 0), (top, bottom), (left, right)))
    reach = [(size - 1) * d + 1 for size, d in zip(weights.shape[2:], case.dilation, strict=True)]
    (down, across), (rows, columns) = case.stride, case.dilation
    windows = sliding_window_view(padded, reach, axis=(2, 3))
    windows = windows[:, :, ::down, ::across, ::rows, ::columns]
    groups = zip(
        np.split(windows, case.groups, axis=1), np.split(weights, case.groups), strict=True
    )
    parts = [np.einsum("ncyxhw,kchw->nkyx", *pair, optimize=True) for pair in groups]
    return np.concatenate(parts, axis=1)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Small convolutions of any geometry."""
    kernel = draw(st.tuples(*[st.integers(1, 7)] * 2))
    dilation = draw(st.tuples(*[st.integers(1, 3)] * 2))
    padding = draw(st.tuples(*[st.integers(0, 3)] * 4))
    reach = [(kernel[a] - 1) * dilation[a] + 1 for a in range(2)]
    smallest = [max(1, reach[a] - padding[a] - padding[a + 2]) for a in range(2)]
    return Case(
        batch=draw(st.integers(1, 2)),
        channels=draw(st.integers(1, 36)),
        size=tuple(low + draw(st.integers(0, 13)) for low in smallest),
        out_channels=tuple(draw(st.lists(st.integers(1, 40), min_size=1, max_size=3))),
        kernel=kernel,
        stride=draw(st.tuples(*[st.integers(1, 3)] * 2)),
        padding=padding,
        dilation=dilation,
        plain=draw(st.booleans()),
    )
