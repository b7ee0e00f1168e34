# SPDX-License-Identifier: Apache-2.0
"""Convolutions and products of bytes (dot4), and tensors that hold values on a grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import tvm

from support.conv2d import Case, reference
from support.networks import NATIVE, TARGETS, isa_of, run_kernel, unpack, x86
from tvm_ios.backend.cpu.core import Core
from tvm_ios.backend.cpu.isa.dot4 import small
from tvm_ios.backend.cpu.isa.int8 import Grid
from tvm_ios.backend.cpu.kernels.conv.conv2d import conv2d_kernel
from tvm_ios.backend.cpu.kernels.conv.image import IMAGE, byte_image_kernel
from tvm_ios.backend.cpu.kernels.conv.shape import Conv2d
from tvm_ios.backend.cpu.kernels.factors import Factors, Multiplication
from tvm_ios.backend.cpu.kernels.layout import Layout, blocks, pack_int8_quads, pack_lowest
from tvm_ios.backend.cpu.kernels.matmul.packing import pack_matrix
from tvm_ios.backend.cpu.kernels.matmul.reduced_precision import (
    pack_int8_dot4,
    reduced_precision_matmul_kernel,
)
from tvm_ios.backend.cpu.kernels.matmul.reduced_precision import pack_lowest as pack_matrix_lowest
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

INSTRUCTIONS = [
    x86("znver4", "avx512vnni"),
    x86("skylake-avx512", "avx512bw"),
    x86("haswell", "avx2"),
]
"""Processors that multiply bytes in different ways."""


def stored(image: np.ndarray, block: int, random: np.random.Generator) -> np.ndarray:
    """Return bytes in blocks of channels; what lies behind the last channel may be anything."""
    batch, channels, *size = image.shape
    shape = (batch, blocks(channels, block) * block, *size)
    whole = random.integers(0, 256, shape, dtype="uint8")
    whole[:, :channels] = image
    return Layout(block).pack(whole)


Run = Callable[..., list[np.ndarray]]
"""``run(kernel, inputs, target)`` returns a kernel's outputs."""


def drawn(random: np.random.Generator, shape: tuple[int, ...], factors: Factors) -> np.ndarray:
    """Return factors, extremes among them; small ones are up to 64, or of opposite signs."""
    whole = random.integers(-128, 128, shape, dtype="int8")
    if factors == "quads":
        extremes = random.choice(np.array([-128, -127, 127], "int8"), shape)
        return np.where(random.random(shape) < 0.3, extremes, whole)
    return np.clip(whole, -64, 64)


def check(
    case: Case,
    target: tvm.target.Target,
    core: Core,
    block: int,
    low: int,
    factors: Factors = "quads",
    run: Run = run_kernel,
) -> None:
    """Compare with sums of integers, which float32 has as they are."""
    multiplication = Multiplication.of(factors, core)
    random = np.random.default_rng(0)
    layout, result = Layout(block), Layout(core.lanes)
    image = random.integers(0, 256, (case.batch, case.channels, *case.size), dtype="uint8")
    shape = (case.channels // case.groups, *case.kernel)
    weights = [drawn(random, (k, *shape), factors) for k in case.out_channels]
    quads = [pack_int8_quads(w, block, core.lanes, case.groups) for w in weights]
    lowest = low + multiplication.offset
    inputs = [
        stored(image, block, random),
        multiplication.pack(np.concatenate(quads)),
    ]
    if lowest:
        inputs.append(np.concatenate([pack_lowest(w, lowest, core.lanes) for w in weights]))
    conv = Conv2d(case.batch, case.channels, *case.windows(), case.out_channels, case.groups)
    kernel = conv2d_kernel(conv, layout, result, core, factors=factors, low=low)
    for found, w in zip(run(kernel, inputs, target), weights, strict=True):
        expected = reference(case, image.astype("float64") + low, w.astype("float64"))
        np.testing.assert_array_equal(unpack(found, expected.shape), expected.astype("float32"))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("low", [0, -131])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_convolutions(case: Case, low: int, target: tvm.target.Target) -> None:
    core, layout = isa_of(target)
    check(case, target, replace(core, int8_dot4=None), layout.block, low)


@pytest.mark.parametrize("factors", ["quads", "small quads"])
@pytest.mark.parametrize("low", [0, 7])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("target", INSTRUCTIONS)
def test_convolutions_by_instructions(
    case: Case, low: int, factors: Factors, target: tvm.target.Target
) -> None:
    core, layout = isa_of(target)
    check(case, target, core, layout.block, low, factors)


def check_product(
    rows: int,
    depth: int,
    columns: int,
    target: tvm.target.Target,
    core: Core,
    low: int = 0,
    factors: Factors = "quads",
    run: Run = run_kernel,
) -> None:
    random, multiplication = np.random.default_rng(0), Multiplication.of(factors, core)
    left = random.integers(0, 256, (1, rows, depth), dtype="uint8")
    right = drawn(random, (depth, columns), factors)
    kernel = reduced_precision_matmul_kernel(Matmul(rows, depth, columns), core, factors, low)
    inputs = [left, pack_int8_dot4(pack_matrix(right, core.lanes), multiplication)]
    if lowest := low + multiplication.offset:
        inputs.append(pack_matrix_lowest(right, lowest, core.lanes))
    (output,) = run(kernel, inputs, target)
    expected = (left[0].astype("int64") + low) @ right
    np.testing.assert_array_equal(output[0], expected.astype("float32"))


PRODUCTS = [(1, 512, 1000), (7, 36, 20), (3, 8, 16), (13, 64, 250), (2, 12, 5), (300, 768, 90)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("low", [0, -131])
@pytest.mark.parametrize(("rows", "depth", "columns"), PRODUCTS)
def test_products(rows: int, depth: int, columns: int, low: int, target: tvm.target.Target) -> None:
    core, _ = isa_of(target)
    check_product(rows, depth, columns, target, replace(core, int8_dot4=None), low)


@pytest.mark.parametrize("l2_bytes", [1 << 14, 1 << 19])
@pytest.mark.parametrize("factors", ["quads", "small quads"])
@pytest.mark.parametrize(("rows", "depth", "columns"), PRODUCTS)
@pytest.mark.parametrize("target", INSTRUCTIONS)
def test_products_by_instructions(
    rows: int,
    depth: int,
    columns: int,
    factors: Factors,
    l2_bytes: int,
    target: tvm.target.Target,
) -> None:
    core = replace(isa_of(target)[0], l2_bytes=l2_bytes)
    check_product(rows, depth, columns, target, core, 7, factors)


@pytest.mark.parametrize(
    ("pair", "fits"),
    [
        ((64, 64), True),
        ((127, 1), True),
        ((127, 2), False),
        ((-127, -1), True),
        ((-64, -65), False),
        ((-128, 0), True),
        ((-128, 127), True),
    ],
)
def test_small_factors(pair: tuple[int, int], fits: bool) -> None:
    """Neighbours along an axis, the extreme products of which are computed here."""
    products = [a * pair[0] + b * pair[1] for a in (0, 255) for b in (0, 255)]
    assert fits == (min(products) >= -(2**15) and max(products) < 2**15)
    factors = np.zeros((3, 7, 2), "int8")
    factors[1, 4:6, 1] = pair
    assert small(factors, 1) == fits
    factors[1, 3:7, 1] = 127, 127, 0, 0  # of two pairs
    assert small(factors, 1)
    factors[1, 5:7, 1] = 0, 127  # the last has no neighbour
    assert small(factors, 1)


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
