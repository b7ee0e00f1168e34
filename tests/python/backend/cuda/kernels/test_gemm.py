# SPDX-License-Identifier: Apache-2.0
"""Convolutions and matrix products for CUDA, run on the CPU by the fake driver."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax

from support.cuda.fake_driver import TARGET, Emulated
from support.cuda.functions import (
    conv_relu,
    function_of,
    normal,
    on_the_cpu,
    rounded_to_tf32,
)
from support.cuda.gemm import HALVES, PRODUCTS, conv, simt, warps
from support.networks import assert_close
from tvm_ios.backend.cuda.kernels.gemm_sum import add_products
from tvm_ios.backend.cuda.kernels.implicit_gemm import gemm
from tvm_ios.backend.cuda.kernels.match_gemm import match_gemm
from tvm_ios.backend.cuda.kernels.tensor_core import FACTORS
from tvm_ios.backend.cuda.kernels.tiles import tiles


@pytest.mark.parametrize(
    ("case", "tile"),
    [
        ("3x3", simt(32, 32, 8, part=(4, 4))),
        ("3x3", simt(64, 64, 8, part=(8, 8))),
        ("1x1", simt(16, 16, 16, part=(1, 4), teams=2)),
        ("1x7", simt(32, 32, 8, part=(8, 4), teams=4)),
        ("first", simt(16, 32, 16, part=(2, 4))),
        ("dilated", simt(64, 16, 8, part=(4, 8), teams=3)),
    ],
)
def test_convolution(emulated: Emulated, case: str, tile: Any) -> None:
    function = conv(case)
    match = match_gemm(function)
    inputs = normal(function)
    (actual,) = emulated.run_kernel(gemm(match, tile(match)), inputs, order="1")
    assert_close(actual, on_the_cpu(function, inputs), 1e-5)


@pytest.mark.parametrize(
    ("case", "tile"),
    [
        ("3x3", warps("tf32", 32, 32, 16, part=(16, 16))),
        ("3x3", warps("fp16", 32, 32, 32, part=(32, 16), teams=2)),
        ("3x3", warps("bf16", 16, 32, 16, part=(16, 16), teams=2)),
        ("first", warps("tf32", 64, 32, 16, part=(32, 16), teams=2)),
        ("first", warps("fp16", 32, 32, 16, part=(16, 32))),
        ("1x7", warps("fp16", 16, 16, 64, part=(16, 16), teams=4)),
    ],
)
def test_tensor_cores(emulated: Emulated, case: str, tile: Any) -> None:
    """Of factors that are rounded already, tensor cores compute what others do."""
    exact = conv(case)
    match = match_gemm(exact)
    factors = tile(match).factors
    function = conv(case, FACTORS[factors].dtype)
    match = match_gemm(function)
    inputs = normal(exact)
    if factors == "tf32":
        expected = on_the_cpu(exact, [*map(rounded_to_tf32, inputs[:2]), inputs[2]])
    else:
        inputs = [array.astype(HALVES[factors]) for array in inputs]
        expected = on_the_cpu(exact, [array.astype("float32") for array in inputs])
    (actual,) = emulated.run_kernel(gemm(match, tile(match)), inputs)
    assert actual.dtype == inputs[0].dtype
    limit = {"tf32": 1e-5, "fp16": 1e-3, "bf16": 8e-3}[factors]
    assert_close(actual.astype("float32"), expected, limit)


@pytest.mark.parametrize("factors", list(HALVES))
def test_halves_of_single_precision(emulated: Emulated, factors: str) -> None:
    """Tensors stay float32; what is multiplied is rounded on its way to the tensor cores."""
    function = conv("3x3")
    match = match_gemm(function)
    tile = warps(factors, 32, 32, 32, part=(32, 16), teams=2)
    inputs = normal(function)
    rounded = [array.astype(HALVES[factors]).astype("float32") for array in inputs[:2]]
    (actual,) = emulated.run_kernel(gemm(match, tile(match)), inputs)
    assert_close(actual, on_the_cpu(function, [*rounded, inputs[2]]), 1e-5)


def test_round_to_tf32_keeps_what_is_no_number(emulated: Emulated) -> None:
    function = function_of(lambda e, x, y: e(relax.op.matmul(x, y)), (16, 16), (16, 16))
    match = match_gemm(function)
    left, right = np.eye(16, dtype="float32"), np.ones((16, 16), "float32")
    right[3, 4] = np.frombuffer(np.uint32(0x7FFFFFFF).tobytes(), "float32")[0]
    right[5, 6] = np.inf
    tile = warps("tf32", 16, 16, 16, part=(16, 16), teams=2)(match)
    (actual,) = emulated.run_kernel(gemm(match, tile), [left, right])
    assert np.isnan(actual[:, 4]).all()
    assert actual[5, 6] == np.inf
    assert (actual[:, 0] == 1).all()


@pytest.mark.parametrize(
    ("name", "precision"),
    [*((name, "fp32") for name in PRODUCTS), ("batch", "tf32"), ("heads", "tf32")],
)
def test_first_tile_of_a_product(emulated: Emulated, name: str, precision: str) -> None:
    body, *shapes = PRODUCTS[name]
    function = function_of(body, *shapes)
    match = match_gemm(function)
    inputs = normal(function)
    if precision == "tf32":
        inputs = [rounded_to_tf32(array) for array in inputs]
    (actual,) = emulated.run_kernel(gemm(match, tiles(match, TARGET, precision)[0]), inputs)
    assert_close(actual, on_the_cpu(function, inputs), 1e-5)


def plain_conv(**attributes: Any) -> Any:
    """A convolution and nothing else, channels last."""
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    return lambda emit, x, w: emit(relax.op.nn.conv2d(x, w, **layouts, **attributes))


def added(emit: Any, x: Any, w: Any, bias: Any, y: Any, v: Any, u: Any) -> Any:
    """Three convolutions, two of one image, in sum."""
    values = [
        plain_conv(padding=1)(emit, x, w),
        plain_conv()(emit, y, v),
        plain_conv(padding=2)(emit, x, u),
    ]
    value = emit(relax.op.add(emit(relax.op.add(values[0], values[1])), values[2]))
    return emit(relax.op.nn.relu(emit(relax.op.add(value, bias))))


@pytest.mark.parametrize(
    ("tile", "order"),
    [
        (simt(16, 32, 8, part=(2, 4)), "reverse"),
        (simt(32, 32, 8, part=(8, 4), teams=4), "1"),
        (warps("tf32", 32, 32, 16, part=(16, 16), teams=2), "1"),
        (warps("fp16", 16, 16, 64, part=(16, 16), teams=2), "reverse"),
    ],
)
def test_sum_of_convolutions(emulated: Emulated, tile: Any, order: str) -> None:
    """The depths are of 144, 7 and 400 numbers: no slice is full of the second."""
    image, other = (1, 9, 7, 16), (1, 9, 7, 7)
    weights = ((3, 3, 16, 18), (1, 1, 7, 18), (5, 5, 16, 18))
    parts = [
        function_of(conv_relu(padding=1), image, weights[0], (1, 1, 1, 18)),
        function_of(plain_conv(), other, weights[1]),
        function_of(plain_conv(padding=2), image, weights[2]),
    ]
    match = add_products(list(map(match_gemm, parts)), [(0, 1, 2), (3, 4), (0, 5)])
    whole = function_of(added, image, weights[0], (1, 1, 1, 18), other, *weights[1:])
    # Numbers that are not rounded, whatever they are multiplied in.
    inputs = [np.clip(np.rint(array), -3, 3) for array in normal(whole)]
    (actual,) = emulated.run_kernel(gemm(match, tile(match)), inputs, order=order)
    np.testing.assert_array_equal(actual, on_the_cpu(whole, inputs))
