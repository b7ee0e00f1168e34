# SPDX-License-Identifier: Apache-2.0
"""Kernels that treat each channel on its own: depthwise convolution, pooling, elementwise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st

from support.networks import NATIVE, TARGETS, assert_close, isa_of, poisoned, run_kernel, unpack
from tvm_ios.backend.cpu.kernels.maps.planes import (
    Planes,
    WindowReduce,
    plane_sum_kernel,
    planes_kernel,
)
from tvm_ios.ops.epilogue import Epilogue, Operand, Step
from tvm_ios.ops.window import Window

SHIFT = Epilogue(
    (
        Step("multiply", (Operand("value", 0), Operand("argument", 0))),
        Step("subtract", (Operand("argument", 1), Operand("value", 1))),
    ),
    ("channel", "full"),
)


@dataclass(frozen=True)
class Case:
    """A window over each channel; ``padding`` is top, left, bottom, right."""

    window_reduce: WindowReduce
    batch: int = 1
    channels: int = 20
    size: tuple[int, int] = (13, 15)
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    include_pad: bool = False
    ceil: bool = False

    @property
    def out(self) -> tuple[int, int]:
        """Rows and columns of the result; in ceil mode a last window begins in the image."""
        sizes = []
        for a in range(2):
            room = self.size[a] + self.padding[a] + self.padding[a + 2] - self.kernel[a]
            count = (room + (self.stride[a] - 1 if self.ceil else 0)) // self.stride[a] + 1
            if (count - 1) * self.stride[a] >= self.size[a] + self.padding[a]:
                count -= 1
            sizes.append(count)
        return sizes[0], sizes[1]


def reference(case: Case, image: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Each window cut out of the padded image; beyond the padding there is nothing."""
    top, left, bottom, right = case.padding
    fill = -np.inf if case.window_reduce == "max" else 0.0
    pads = ((0, 0), (0, 0), (top, bottom), (left, right))
    padded = np.pad(image.astype("float64"), pads, constant_values=fill)
    counted = np.pad(np.ones(case.size), pads[2:], constant_values=float(case.include_pad))
    result = np.zeros((*image.shape[:2], *case.out))
    for i, j in np.ndindex(*case.out):
        y, x = i * case.stride[0], j * case.stride[1]
        window = np.s_[y : y + case.kernel[0], x : x + case.kernel[1]]
        values = padded[:, :, window[0], window[1]]
        if case.window_reduce == "max":
            result[:, :, i, j] = values.max((2, 3))
        elif case.window_reduce == "average":
            result[:, :, i, j] = values.sum((2, 3)) / max(counted[window].sum(), 1)
        else:
            result[:, :, i, j] = (values * weights).sum((2, 3))
    return result


def check(case: Case, target: tvm.target.Target, seed: int = 0) -> None:
    core, layout = isa_of(target)
    random = np.random.default_rng(seed)
    draw = lambda *shape: random.standard_normal(shape).astype("float32")  # noqa: E731
    image = draw(case.batch, case.channels, *case.size)
    weights = draw(case.channels, *case.kernel)
    scale, minuend = draw(1, case.channels, 1, 1), draw(case.batch, case.channels, *case.out)
    axes = [
        Window(case.size[a], case.out[a], case.kernel[a], case.stride[a], 1, case.padding[a])
        for a in range(2)
    ]
    planes = Planes(
        case.window_reduce,
        case.batch,
        case.channels,
        *axes,
        pad_after=case.padding[2:],
        include_pad=case.include_pad,
        epilogue=SHIFT,
    )
    inputs = [poisoned(layout, image), layout.pack(scale), poisoned(layout, minuend)]
    if case.window_reduce == "depthwise":
        packed = layout.pack(weights[None]).reshape(-1, *case.kernel, core.lanes)
        inputs.insert(1, packed)
    (output,) = run_kernel(planes_kernel(planes, layout, core), inputs, target, seed)
    expected = minuend - reference(case, image, weights) * scale
    assert_close(unpack(output, expected.shape), expected.astype("float32"))


CASES = {
    "max": Case("max", batch=2, stride=(2, 2)),
    "max, padded": Case("max", stride=(2, 2), padding=(1, 1, 1, 1)),
    "max, ceil mode": Case("max", channels=16, size=(14, 14), stride=(2, 2), ceil=True),
    "average": Case("average", size=(14, 14), kernel=(2, 2), stride=(2, 2)),
    "average, padding counted": Case("average", padding=(1, 1, 1, 1), include_pad=True),
    "average, padding not counted": Case("average", padding=(1, 1, 1, 1)),
    "average, counted, ceil mode": Case(
        "average", size=(14, 14), stride=(2, 2), padding=(0, 1, 1, 0), include_pad=True, ceil=True
    ),
    "average, not counted, ceil mode": Case(
        "average", size=(14, 14), stride=(2, 2), padding=(1, 1, 0, 0), ceil=True
    ),
    "average, windows in the padding alone": Case(
        "average", size=(5, 6), kernel=(2, 2), padding=(3, 2, 2, 3)
    ),
    "depthwise": Case("depthwise", batch=2, padding=(1, 1, 1, 1)),
    "depthwise 5x5, strided": Case(
        "depthwise", channels=40, kernel=(5, 5), stride=(2, 2), padding=(2, 2, 2, 2)
    ),
    "depthwise, wide windows": Case(
        "depthwise", size=(4, 29), kernel=(2, 17), padding=(0, 8, 0, 8)
    ),
    "depthwise, windows of many groups of taps": Case(
        "depthwise", size=(2, 300), kernel=(1, 140), padding=(0, 3, 0, 0)
    ),
    "depthwise, wide rows": Case("depthwise", size=(3, 67), padding=(1, 1, 1, 1)),
    "max, windows apart": Case("max", size=(9, 40), kernel=(2, 2), stride=(3, 3)),
    "average, windows wider than the registers": Case("average", size=(6, 40), kernel=(3, 33)),
    "one column": Case("max", size=(5, 1), kernel=(3, 1)),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_windows(case: Case, target: tvm.target.Target) -> None:
    check(case, target)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Windows of any geometry; padding is less than the window, as every framework demands."""
    kernel = draw(st.tuples(*[st.integers(1, 5)] * 2))
    return Case(
        window_reduce=draw(st.sampled_from(["max", "average", "depthwise"])),
        batch=draw(st.integers(1, 2)),
        channels=draw(st.integers(1, 36)),
        size=tuple(k + draw(st.integers(0, 14)) for k in kernel),
        kernel=kernel,
        stride=draw(st.tuples(*[st.integers(1, 3)] * 2)),
        padding=tuple(draw(st.integers(0, (kernel[a % 2] - 1) // 2)) for a in range(4)),
        include_pad=draw(st.booleans()),
        ceil=draw(st.booleans()),
    )


@pytest.mark.slow
@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(cases())
def test_windows_of_any_geometry(case: Case) -> None:
    check(case, NATIVE)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("pixels", [1, 7, 8, 35])
def test_sums_of_planes(pixels: int, target: tvm.target.Target) -> None:
    core, layout = isa_of(target)
    image = np.random.default_rng(0).standard_normal((2, 21, pixels, 1)).astype("float32")
    bias = np.random.default_rng(1).standard_normal((1, 21, 1, 1)).astype("float32")
    epilogue = Epilogue((Step("add", (Operand("value", 0), Operand("argument", 0))),), ("channel",))
    kernel = plane_sum_kernel(2, 21, pixels, 0.5, epilogue, layout, core)
    (output,) = run_kernel(kernel, [poisoned(layout, image), layout.pack(bias)], target)
    assert_close(unpack(output, (2, 21, 1, 1)), image.sum((2, 3), keepdims=True) / 2 + bias)


@pytest.mark.parametrize("target", TARGETS)
def test_elementwise_operations_on_feature_maps(target: tvm.target.Target) -> None:
    core, layout = isa_of(target)
    x, y = np.random.default_rng(0).standard_normal((2, 2, 21, 5, 11)).astype("float32")
    epilogue = Epilogue(
        (Step("maximum", (Operand("value", 0), Operand("argument", 0))),), ("full",)
    )
    planes = Planes("identity", 2, 21, Window(5, 5, 1), Window(11, 11, 1), epilogue=epilogue)
    inputs = [poisoned(layout, x), poisoned(layout, y)]
    (output,) = run_kernel(planes_kernel(planes, layout, core), inputs, target)
    np.testing.assert_array_equal(unpack(output, x.shape), np.maximum(x, y))
