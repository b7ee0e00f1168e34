# SPDX-License-Identifier: Apache-2.0
"""Ranges of the channels of blocked feature maps."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

from support.networks import TARGETS, isa_of, poisoned, run_kernel, unpack
from tvm_ios.backend.cpu.kernels.channels import channels_kernel
from tvm_ios.backend.cpu.kernels.planes import Planes
from tvm_ios.tir.epilogue import Epilogue, Operand, Step
from tvm_ios.tir.window import Window

ADD = Epilogue(
    (
        Step("add", (Operand("value", 0), Operand("argument", 0))),
        Step("maximum", (Operand("value", 1), Operand("argument", 1))),
    ),
    ("channel", "full"),
)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("begin", "end", "channels"),
    [(0, 16, 40), (16, 40, 40), (5, 26, 40), (26, 52, 104), (39, 40, 40), (1, 37, 37), (0, 3, 3)],
)
def test_ranges(begin: int, end: int, channels: int, target: tvm.target.Target) -> None:
    core, layout = isa_of(target)
    random = np.random.default_rng(0)
    image = random.standard_normal((2, channels, 3, 35)).astype("float32")
    shift = random.standard_normal((1, end - begin, 1, 1)).astype("float32")
    least = random.standard_normal((2, end - begin, 3, 35)).astype("float32")
    rows, columns = (Window(size, size, 1) for size in (3, 35))
    planes = Planes("identity", 2, end - begin, rows, columns, epilogue=ADD)
    kernel = channels_kernel(planes, begin, channels, layout, core)
    inputs = [poisoned(layout, image), layout.pack(shift), poisoned(layout, least)]
    (output,) = run_kernel(kernel, inputs, target)
    expected = np.maximum(image[:, begin:end] + shift, least)
    np.testing.assert_array_equal(unpack(output, least.shape), expected)
