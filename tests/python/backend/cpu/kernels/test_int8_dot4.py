# SPDX-License-Identifier: Apache-2.0
"""Convolutions and products of bytes (dot4), and tensors that hold values on a grid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm

from support.conv2d import Case, reference
from support.networks import NATIVE, TARGETS, isa_of, run_kernel, unpack
from tvm_ios.backend.cpu.core import Core
from tvm_ios.backend.cpu.isa.int8 import Grid
from tvm_ios.backend.cpu.kernels.conv.conv2d import conv2d_kernel
from tvm_ios.backend.cpu.kernels.conv.image import IMAGE, byte_image_kernel
from tvm_ios.backend.cpu.kernels.conv.shape import Conv2d
from tvm_ios.backend.cpu.kernels.layout import Layout, blocks, pack_int8_dot4, pack_lowest
from tvm_ios.backend.cpu.kernels.matmul.packing import pack_matrix
from tvm_ios.backend.cpu.kernels.matmul.reduced_precision import (
    pack_int8_dot4 as pack_matrix_int8_dot4,
)
from tvm_ios.backend.cpu.kernels.matmul.reduced_precision import reduced_precision_matmul_kernel
from tvm_ios.backend.cpu.kernels.rows.strided import copy_kernel
from tvm_ios.backend.cpu.kernels.storage import with_storage
from tvm_ios.lowering.product import Matmul
from tvm_ios.ops.tensor import TensorSpec

CASES = {
    "1x1": Case(kernel=(1, 1), padding=(0, 0, 0, 0)),
    "3x3 of a batch": Case(batch=2, channels=33),
    "five channels": Case(channels=5, out_channels=(40,)),
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

NO_INSTRUCTIONS = "this machine does not multiply bytes"


def stored(image: np.ndarray, block: int, random: np.random.Generator) -> np.ndarray:
    """Return bytes in blocks of channels; what lies behind the last channel may be anything."""
    batch, channels, *size = image.shape
    shape = (batch, blocks(channels, block) * block, *size)
    whole = random.integers(0, 256, shape, dtype="uint8")
    whole[:, :channels] = image
    return Layout(block).pack(whole)


def check(case: Case, target: tvm.target.Target, core: Core, block: int, low: int) -> None:
    """Compare with sums of integers, which float32 has as they are."""
    random = np.random.default_rng(0)
    layout, result = Layout(block), Layout(core.lanes)
    image = random.integers(0, 256, (case.batch, case.channels, *case.size), dtype="uint8")
    shape = (case.channels // case.groups, *case.kernel)
    weights = [random.integers(-128, 128, (k, *shape), dtype="int8") for k in case.out_channels]
    inputs = [
        stored(image, block, random),
        np.concatenate([pack_int8_dot4(w, block, core.lanes, case.groups) for w in weights]),
    ]
    if low:
        inputs.append(np.concatenate([pack_lowest(w, low, core.lanes) for w in weights]))
    conv = Conv2d(case.batch, case.channels, *case.windows(), case.out_channels, case.groups)
    kernel = conv2d_kernel(conv, layout, result, core, factors="quads", low=low)
    for found, w in zip(run_kernel(kernel, inputs, target, 0), weights, strict=True):
        expected = reference(case, image.astype("float64") + low, w.astype("float64"))
        np.testing.assert_array_equal(unpack(found, expected.shape), expected.astype("float32"))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("low", [0, -131])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_convolutions(case: Case, low: int, target: tvm.target.Target) -> None:
    core, layout = isa_of(target)
    check(case, target, replace(core, int8_dot4=None), layout.block, low)


@pytest.mark.parametrize("low", [0, 7])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_convolutions_by_instructions(case: Case, low: int) -> None:
    core, layout = isa_of(NATIVE)
    if core.int8_dot4 is None:
        pytest.skip(NO_INSTRUCTIONS)
    check(case, NATIVE, core, layout.block, low)


def check_product(rows: int, depth: int, columns: int, target: tvm.target.Target, core: Core):
    random = np.random.default_rng(0)
    left = random.integers(0, 256, (1, rows, depth), dtype="uint8")
    right = random.integers(-128, 128, (depth, columns), dtype="int8")
    kernel = reduced_precision_matmul_kernel(Matmul(rows, depth, columns), core, "quads")
    packed = pack_matrix_int8_dot4(pack_matrix(right, core.lanes))
    (output,) = run_kernel(kernel, [left, packed], target)
    expected = left[0].astype("int64") @ right
    np.testing.assert_array_equal(output[0], expected.astype("float32"))


PRODUCTS = [(1, 512, 1000), (7, 36, 20), (3, 8, 16), (13, 64, 250), (2, 12, 5), (300, 768, 90)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("rows", "depth", "columns"), PRODUCTS)
def test_products(rows: int, depth: int, columns: int, target: tvm.target.Target) -> None:
    core, _ = isa_of(target)
    check_product(rows, depth, columns, target, replace(core, int8_dot4=None))


@pytest.mark.parametrize("l2_bytes", [1 << 14, 1 << 19])
@pytest.mark.parametrize(("rows", "depth", "columns"), PRODUCTS)
def test_products_by_instructions(rows: int, depth: int, columns: int, l2_bytes: int) -> None:
    core, _ = isa_of(NATIVE)
    if core.int8_dot4 is None:
        pytest.skip(NO_INSTRUCTIONS)
    check_product(rows, depth, columns, NATIVE, replace(core, l2_bytes=l2_bytes))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("grid", [Grid(0.037, 0), Grid(1.0, -128), Grid(3e-5, -17)])
def test_values_on_a_grid_are_stored_exactly(grid: Grid, target: tvm.target.Target) -> None:
    core, _ = isa_of(target)
    multiples = np.arange(256, dtype="float32") + grid.low
    values = multiples * np.float32(grid.scale)
    copy = copy_kernel(TensorSpec((256,)), core)
    (found,) = run_kernel(with_storage(copy, {}, {0: grid}), [values], target)
    np.testing.assert_array_equal(found, np.arange(256, dtype="uint8"))
    (again,) = run_kernel(with_storage(copy, {0: grid}, {}), [found], target)
    np.testing.assert_array_equal(again, values)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_images(channels: int, target: tvm.target.Target) -> None:
    """Pixels of four channels, of which those that an image does not have are zero."""
    core, _ = isa_of(target)
    image = np.random.default_rng(0).integers(0, 256, (2, channels, 5, 37), dtype="uint8")
    (found,) = run_kernel(byte_image_kernel(image.shape, core), [image], target)
    np.testing.assert_array_equal(found, IMAGE.pack(image))


@pytest.mark.parametrize("low", [0, -100])
def test_an_image_of_blocks_of_four_channels(low: int) -> None:
    core, _ = isa_of(NATIVE)
    case = Case(channels=3, size=(23, 29), kernel=(7, 7), stride=(2, 2), padding=(3, 3, 3, 3))
    check(case, NATIVE, core, IMAGE.block, low)
