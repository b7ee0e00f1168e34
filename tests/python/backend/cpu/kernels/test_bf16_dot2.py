# SPDX-License-Identifier: Apache-2.0
"""Kernels that multiply bfloat16 (dot2), and those whose tensors hold bfloat16."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm

from support.bf16_dot2 import check_convolution, check_product, half_format, rounded
from support.conv2d import Case
from support.networks import NATIVE, TARGETS, isa_of, run_kernel
from tvm_ios.backend.cpu.isa.bfloat16 import exact, nearest
from tvm_ios.backend.cpu.kernels.conv.image import IMAGE, image_kernel
from tvm_ios.backend.cpu.kernels.layout import Layout
from tvm_ios.backend.cpu.kernels.rows.strided import copy_kernel
from tvm_ios.backend.cpu.kernels.storage import with_storage
from tvm_ios.ops.tensor import TensorSpec

CASES = {
    "1x1": Case(kernel=(1, 1), padding=(0, 0, 0, 0)),
    "1x1 of a batch": Case(batch=2, channels=48, kernel=(1, 1), padding=(0, 0, 0, 0)),
    "3x3 of a batch": Case(batch=2, channels=33),
    "odd channels": Case(channels=37, out_channels=(40,)),
    "one channel": Case(channels=1),
    "7x7, strided": Case(channels=3, size=(17, 19), kernel=(7, 7), stride=(2, 2)),
    "dilated": Case(dilation=(2, 3), padding=(2, 3, 2, 3)),
    "1x19, its taps in groups": Case(
        channels=9, size=(3, 23), kernel=(1, 19), padding=(0, 9, 0, 9), dilation=(1, 2)
    ),
    "groups": Case(channels=32, out_channels=(64,), groups=2),
    "two results": Case(out_channels=(10, 24)),
    "many weights": Case(channels=130, out_channels=(200,), size=(5, 6)),
}
NO_INSTRUCTIONS = "this machine does not run bfloat16"
BLOCKS = {"blocked": None, "few lanes": 4}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_convolutions(case: Case, block: int | None, target: tvm.target.Target) -> None:
    core, layout = isa_of(target)
    check_convolution(case, target, replace(core, bf16_dot2=None), Layout(block or layout.block))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_convolutions_by_instructions(case: Case) -> None:
    core, layout = isa_of(NATIVE)
    if core.bf16_dot2 is None:
        pytest.skip(NO_INSTRUCTIONS)
    check_convolution(case, NATIVE, core, layout)


PRODUCTS = [(1, 512, 1000), (7, 34, 20), (3, 6, 16), (13, 64, 250), (2, 10, 5), (300, 768, 90)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("rows", "depth", "columns"), PRODUCTS)
def test_products(rows: int, depth: int, columns: int, target: tvm.target.Target) -> None:
    core, _ = isa_of(target)
    check_product(rows, depth, columns, target, replace(core, bf16_dot2=None))


@pytest.mark.parametrize("l2_bytes", [1 << 14, 1 << 19])
@pytest.mark.parametrize(("rows", "depth", "columns"), PRODUCTS)
def test_products_by_instructions(rows: int, depth: int, columns: int, l2_bytes: int) -> None:
    core, _ = isa_of(NATIVE)
    if core.bf16_dot2 is None:
        pytest.skip(NO_INSTRUCTIONS)
    check_product(rows, depth, columns, NATIVE, replace(core, l2_bytes=l2_bytes))


def test_numbers_are_rounded_to_the_nearest_even_one() -> None:
    """Of all kinds: ties, the largest, infinities, tiny ones, and NaN with any payload."""
    special = np.array([0x3F808000, 0x3F818000, 0x7F7FFFFF, 0x7F800001, 0xFFFFFFFF, 0x1], "uint32")
    random = np.random.default_rng(0).integers(0, 1 << 32, 1024 - 10, dtype="uint32")
    values = np.concatenate([special, random]).view("float32")
    values = np.concatenate([values, np.array([np.inf, -np.inf, 0.0, -0.0], "float32")])
    core = replace(isa_of(NATIVE)[0], bf16_dot2=None)
    kernel = with_storage(copy_kernel(TensorSpec((1024,)), core), {}, {0: half_format(core)})
    (bits,) = run_kernel(kernel, [values], NATIVE)
    np.testing.assert_array_equal(bits, nearest(values))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(exact(bits), rounded(values))


def test_numbers_are_rounded_by_instructions() -> None:
    """As by the code for other processors, but for numbers that are not normal."""
    core, _ = isa_of(NATIVE)
    if core.bf16_dot2 is None:
        pytest.skip(NO_INSTRUCTIONS)
    bits = np.random.default_rng(1).integers(0, 1 << 32, 4096, dtype="uint32")
    values = bits[(bits >> 23 & 255) > 0][:2048].view("float32")
    kernel = with_storage(copy_kernel(TensorSpec((2048,)), core), {}, {0: half_format(core)})
    (found,) = run_kernel(kernel, [values], NATIVE)
    np.testing.assert_array_equal(exact(found), exact(nearest(values)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_images(channels: int, target: tvm.target.Target) -> None:
    """Pixels of four channels, of which those that an image does not have are zero."""
    core, _ = isa_of(target)
    values = np.random.default_rng(0).standard_normal((2, channels, 5, 37)).astype("float32")
    for c in {core, replace(core, bf16_dot2=None)}:
        (found,) = run_kernel(image_kernel(values.shape, c), [values], target)
        np.testing.assert_array_equal(found, nearest(IMAGE.pack(values)))
