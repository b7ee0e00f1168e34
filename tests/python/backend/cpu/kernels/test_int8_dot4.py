# SPDX-License-Identifier: Apache-2.0
"""Convolutions and products of bytes (dot4), and tensors that hold values on a grid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm

from support.conv2d import Case
from support.int8_dot4 import CASES, PRODUCTS, check, check_product
from support.networks import NATIVE, TARGETS, isa_of, run_kernel, x86
from tvm_ios.backend.cpu.isa.dot4 import small
from tvm_ios.backend.cpu.isa.int8 import Grid
from tvm_ios.backend.cpu.kernels.conv.image import IMAGE, byte_image_kernel
from tvm_ios.backend.cpu.kernels.factors import Factors
from tvm_ios.backend.cpu.kernels.rows.strided import copy_kernel
from tvm_ios.backend.cpu.kernels.storage import with_storage
from tvm_ios.ops.tensor import TensorSpec

INSTRUCTIONS = [
    x86("znver4", "avx512vnni"),
    x86("skylake-avx512", "avx512bw"),
    x86("haswell", "avx2"),
]
"""Processors that multiply bytes in different ways."""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("low", [0, -131])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_convolutions(case: Case, low: int, target: tvm.target.Target) -> None:
    core, layout = isa_of(target)
    check(case, target, replace(core, int8_dot4=None), layout.block, low)


@pytest.mark.parametrize(("factors", "low"), [("quads", 7), ("small quads", 0)])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("target", INSTRUCTIONS)
def test_convolutions_by_instructions(
    case: Case, low: int, factors: Factors, target: tvm.target.Target
) -> None:
    core, layout = isa_of(target)
    check(case, target, core, layout.block, low, factors)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("low", [0, -131])
@pytest.mark.parametrize(("rows", "depth", "columns"), PRODUCTS)
def test_products(rows: int, depth: int, columns: int, low: int, target: tvm.target.Target) -> None:
    core, _ = isa_of(target)
    check_product(rows, depth, columns, target, replace(core, int8_dot4=None), low)


@pytest.mark.parametrize(
    ("factors", "l2_bytes"), [("quads", 1 << 14), ("quads", 1 << 19), ("small quads", 1 << 19)]
)
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
