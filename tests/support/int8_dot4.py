# SPDX-License-Identifier: Apache-2.0
"""Kernels that multiply bytes, compared with sums of integers, which float32 has as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import tvm

from support.aarch64 import NEON
from support.conv2d import Case, reference
from support.networks import run_kernel, unpack, x86
from tvm_ios.backend.cpu.core import Core, core_of
from tvm_ios.backend.cpu.kernels.conv.conv2d import conv2d_kernel
from tvm_ios.backend.cpu.kernels.conv.shape import Conv2d
from tvm_ios.backend.cpu.kernels.factors import Factors, Multiplication
from tvm_ios.backend.cpu.kernels.layout import Layout, blocks, pack_int8_quads, pack_lowest
from tvm_ios.backend.cpu.kernels.matmul.packing import pack_matrix
from tvm_ios.backend.cpu.kernels.matmul.reduced_precision import (
    pack_int8_dot4,
    reduced_precision_matmul_kernel,
)
from tvm_ios.backend.cpu.kernels.matmul.reduced_precision import pack_lowest as pack_matrix_lowest
from tvm_ios.lowering.product import Matmul

LIKE_AVX_VNNI = [x86("haswell", "avx512vnni", "+avx512vnni", "+avx512vl")]
"""The code of a processor with AVX-VNNI, but in the encoding of AVX-512."""


def eight_lanes() -> Core:
    """A core with AVX-VNNI."""
    target = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "alderlake"}
    return replace(core_of(tvm.target.Target(target)), l2_bytes=1 << 19)


def neon_with(feature: str) -> tvm.target.Target:
    """AArch64 with an extension; the test is skipped if TVM cannot compile for it."""
    if "aarch64" not in tvm.target.codegen.llvm_get_targets():
        pytest.skip("TVM's LLVM has no AArch64")
    return tvm.target.Target({**NEON, "mattr": ["+neon", feature]})


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

PRODUCTS = [(1, 512, 1000), (7, 36, 20), (3, 8, 16), (13, 64, 250), (2, 12, 5), (300, 768, 90)]


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
    """Return factors, extremes among them; those of small quads are at most 64."""
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
