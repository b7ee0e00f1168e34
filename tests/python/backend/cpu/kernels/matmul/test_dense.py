# SPDX-License-Identifier: Apache-2.0
"""Concatenation, changes of layout, and matrix products."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st

from support.networks import NATIVE, TARGETS, assert_close, isa_of, poisoned, run_kernel, unpack
from tvm_ios.backend.cpu.kernels.convert import block_kernel, pack_weights_kernel, unblock_kernel
from tvm_ios.backend.cpu.kernels.kernel import convert_input, convert_output
from tvm_ios.backend.cpu.kernels.layout import pack_weights
from tvm_ios.backend.cpu.kernels.maps.concat import concat_kernel
from tvm_ios.backend.cpu.kernels.matmul.matmul import Matmul, matmul_kernel
from tvm_ios.backend.cpu.kernels.matmul.packing import pack_matrix
from tvm_ios.ops.epilogue import Epilogue, Operand, Step


def random_array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "channels", [(16, 32, 20), (5, 20, 7), (8, 24, 13), (3,), (16, 16), (1, 1, 1, 40)]
)
def test_concat(channels: tuple[int, ...], target: tvm.target.Target) -> None:
    _, layout = isa_of(target)
    arrays = [random_array(2, c, 3, 5, seed=i) for i, c in enumerate(channels)]
    kernel = concat_kernel(2, channels, 15, layout)
    (output,) = run_kernel(kernel, [poisoned(layout, a) for a in arrays], target)
    expected = np.concatenate(arrays, axis=1)
    np.testing.assert_array_equal(unpack(output, expected.shape), expected)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(2, 20, 5, 7), (1, 3, 1, 9), (1, 32, 4, 1)])
def test_layouts_are_converted_there_and_back(
    shape: tuple[int, int, int, int], target: tvm.target.Target
) -> None:
    _, layout = isa_of(target)
    data = random_array(*shape)
    (blocked,) = run_kernel(block_kernel(shape, layout), [data], target)
    np.testing.assert_array_equal(unpack(blocked, shape), data)
    (plain,) = run_kernel(unblock_kernel(shape, layout), [poisoned(layout, data)], target)
    np.testing.assert_array_equal(plain, data)


@pytest.mark.parametrize("target", TARGETS)
def test_conversions_become_phases_of_the_kernel_that_they_feed(target: tvm.target.Target) -> None:
    """``[2, 20, 3, 5]`` and 4 more channels, row-major on both sides of a blocked kernel."""
    _, layout = isa_of(target)
    kernel = concat_kernel(2, (20, 4), 15, layout)
    first, second, result = (2, 20, 15, 1), (2, 4, 15, 1), (2, 24, 15, 1)
    kernel = convert_input(kernel, 1, block_kernel(second, layout))
    kernel = convert_output(kernel, 0, unblock_kernel(result, layout))
    assert len(kernel.phases) == 3
    assert len(kernel.scratch) == 2
    a, b = random_array(*first), random_array(*second, seed=1)
    (output,) = run_kernel(kernel, [poisoned(layout, a), b], target)
    np.testing.assert_array_equal(output, np.concatenate([a, b], axis=1))


@pytest.mark.parametrize(("in_block", "out_block"), [(1, 16), (16, 16), (8, 4)])
def test_weights_are_packed_alike_at_run_time(in_block: int, out_block: int) -> None:
    weights = random_array(21, 10, 3, 2)
    expected = pack_weights(weights, in_block, out_block, 1)
    kernel = pack_weights_kernel(weights.shape, in_block, out_block)
    (packed,) = run_kernel(kernel, [weights], NATIVE)
    written = ~np.isnan(packed)
    assert written.sum() == weights.size
    np.testing.assert_array_equal(packed[written], expected[written])
    assert not expected[~written].any()


STEPS = (
    Step("add", (Operand("value", 0), Operand("argument", 0))),
    Step("add", (Operand("value", 1), Operand("argument", 1))),
)


def check_matmul(
    rows: int, depth: int, columns: int, target: tvm.target.Target, l2_bytes: int = 0
) -> None:
    core, _ = isa_of(target)
    core = replace(core, l2_bytes=l2_bytes or core.l2_bytes)
    a, b = random_array(rows, depth), random_array(depth, columns, seed=1)
    bias, residual = random_array(columns, seed=2), random_array(rows, columns, seed=3)
    product = Matmul(rows, depth, columns, Epilogue(STEPS, ("last", "full")))
    inputs = [a[None], pack_matrix(b, core.lanes), bias, residual[None]]
    (output,) = run_kernel(matmul_kernel(product, core), inputs, target)
    expected = a.astype("float64") @ b + bias + residual
    assert_close(output[0], expected.astype("float32"))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    [(1, 512, 1000), (7, 33, 20), (3, 5, 16), (13, 64, 250), (2, 9, 5), (40, 1, 32)],
)
def test_matrix_products(rows: int, depth: int, columns: int, target: tvm.target.Target) -> None:
    check_matmul(rows, depth, columns, target)


@pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    [(23, 80, 250), (50, 77, 128), (40, 16, 200), (1, 64, 250), (37, 192, 250), (9, 768, 40)],
)
@pytest.mark.parametrize("l2_bytes", [1 << 10, 1 << 14, 1 << 15])
def test_matrix_products_beyond_the_cache(
    rows: int, depth: int, columns: int, l2_bytes: int
) -> None:
    """Weights are prefetched, and the depth is divided into k-blocks."""
    check_matmul(rows, depth, columns, NATIVE, l2_bytes=l2_bytes)


@pytest.mark.slow
@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(st.integers(1, 70), st.integers(1, 40), st.integers(1, 150))
def test_matrix_products_of_any_size(rows: int, depth: int, columns: int) -> None:
    check_matmul(rows, depth, columns, NATIVE)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 21, 17), (3, 17, 40)),
        ((1, 5, 9), (4, 9, 33)),
        ((4, 30, 9), (1, 9, 7)),
        ((2, 1, 64), (2, 64, 100)),
        ((1, 65, 2049), (1, 2049, 20)),
    ],
)
def test_products_of_computed_matrices(
    left: tuple[int, int, int], right: tuple[int, int, int], target: tvm.target.Target
) -> None:
    core, _ = isa_of(target)
    a, b = random_array(*left), random_array(*right, seed=1)
    expected = a.astype("float64") @ b
    bias = random_array(right[-1], seed=2)
    residual = random_array(*expected.shape, seed=3)
    product = Matmul(
        *left[1:],
        right[-1],
        Epilogue(STEPS, ("last", "full")),
        batch=len(expected),
        weights=False,
        left_batch=len(a) > 1,
        right_batch=len(b) > 1,
    )
    (output,) = run_kernel(matmul_kernel(product, core), [a, b, bias, residual], target)
    assert_close(output, (expected + bias + residual).astype("float32"))
