# SPDX-License-Identifier: Apache-2.0
"""Matrix products for CUDA whose slices are copied while others are multiplied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
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
from tvm_ios.backend.cuda.kernels.asynchronous import copyable
from tvm_ios.backend.cuda.kernels.implicit_gemm import gemm
from tvm_ios.backend.cuda.kernels.match_gemm import GemmMatch, match_gemm
from tvm_ios.backend.cuda.kernels.tiles import layouts_of, tiles

OLD = tvm.target.Target({**TARGET.export(), "arch": "sm_75"}, host="llvm")


def copies(match: GemmMatch, factors: str = "fp32") -> tuple[int | None, int | None]:
    """How many numbers a copy of the left and of the right operand brings."""
    (product,) = match.products
    operands = ((product.left, match.rows), (product.right, match.columns))
    found = [copyable(operand, outer, product.depth) for operand, outer in operands]
    layouts = layouts_of(factors, 32, 32, 32)
    left, right = (
        known.width(layout) if known is not None else None
        for known, layout in zip(found, layouts, strict=True)
    )
    return left, right


@pytest.mark.parametrize(
    ("case", "tile", "order"),
    [
        ("3x3", simt(32, 32, 8, part=(4, 4), slots=3), "reverse"),
        ("3x3", simt(16, 32, 16, part=(2, 4), teams=2, slots=2), "1"),
        ("1x1", simt(16, 16, 8, part=(2, 4), slots=4), "2"),  # a depth of two slices
        ("1x7", simt(32, 32, 16, part=(4, 8), teams=4, slots=4), "reverse"),  # of one
        ("first", simt(16, 32, 16, part=(2, 4), slots=3), "3"),
        ("dilated", simt(64, 16, 8, part=(4, 8), teams=3, slots=2), "4"),
    ],
)
def test_convolution(emulated: Emulated, case: str, tile: Any, order: str) -> None:
    function = conv(case)
    match = match_gemm(function)
    inputs = normal(function)
    kernel = gemm(match, tile(match))
    (actual,) = emulated.run_kernel(kernel, inputs, order=order)
    assert_close(actual, on_the_cpu(function, inputs), 1e-5)


def test_sums_are_those_of_other_tiles(emulated: Emulated) -> None:
    """The same numbers are added in the same order: nothing depends on the slots."""
    function = conv("3x3")
    match = match_gemm(function)
    inputs = normal(function)
    one, three = (
        emulated.run_kernel(gemm(match, simt(32, 32, 8, part=(4, 4), slots=slots)(match)), inputs)
        for slots in (1, 3)
    )
    np.testing.assert_array_equal(one[0], three[0])


@pytest.mark.parametrize(
    ("case", "tile", "order"),
    [
        ("3x3", warps("tf32", 32, 32, 16, part=(16, 16), teams=2, slots=3), "reverse"),
        ("3x3", warps("fp16", 16, 32, 32, part=(16, 16), teams=2, slots=3), "1"),
        ("3x3", warps("bf16", 32, 32, 64, part=(32, 16), teams=2, slots=4), "reverse"),
        ("first", warps("fp16", 32, 32, 16, part=(16, 32), slots=2), "2"),  # odd: in registers
    ],
)
def test_tensor_cores(emulated: Emulated, case: str, tile: Any, order: str) -> None:
    exact = conv(case)
    factors = tile(match_gemm(exact)).factors
    inputs = normal(exact)
    if factors == "tf32":
        function, expected = exact, [*map(rounded_to_tf32, inputs[:2]), inputs[2]]
    else:
        function = conv(case, "float16" if factors == "fp16" else "bfloat16")
        inputs = [array.astype(HALVES[factors]) for array in inputs]
        expected = [array.astype("float32") for array in inputs]
    match = match_gemm(function)
    (actual,) = emulated.run_kernel(gemm(match, tile(match)), inputs, order=order)
    limit = {"tf32": 1e-5, "fp16": 1e-3, "bf16": 8e-3}[factors]
    assert_close(actual.astype("float32"), on_the_cpu(exact, expected), limit)


def test_what_is_converted_passes_through_registers(emulated: Emulated) -> None:
    function = conv("3x3")
    match = match_gemm(function)
    assert copies(match, "fp16") == (None, None)
    tile = warps("fp16", 32, 32, 32, part=(32, 16), teams=2, slots=2)
    inputs = normal(function)
    rounded = [array.astype("float16").astype("float32") for array in inputs[:2]]
    (actual,) = emulated.run_kernel(gemm(match, tile(match)), inputs, order="reverse")
    assert_close(actual, on_the_cpu(function, [*rounded, inputs[2]]), 1e-5)


def repeated(emit: Any, x: relax.Var, y: relax.Var) -> relax.Expr:
    """A product of a matrix whose columns each are there four times."""
    return emit(relax.op.matmul(x, emit(relax.op.repeat(y, 4, 1))))


@pytest.mark.parametrize(
    ("body", "shapes", "widths"),
    [
        (PRODUCTS["heads"][0], PRODUCTS["heads"][1:], (None, 4)),  # a computed operand
        (PRODUCTS["transposed"][0], PRODUCTS["transposed"][1:], (4, 4)),
        (repeated, ((17, 24), (24, 5)), (1, 1)),
    ],
)
def test_product(emulated: Emulated, body: Any, shapes: Any, widths: Any) -> None:
    function = function_of(body, *shapes)
    match = match_gemm(function)
    assert copies(match) == widths
    inputs = normal(function)
    tile = simt(16, 16, 4, part=(2, 4), slots=2)(match)
    (actual,) = emulated.run_kernel(gemm(match, tile), inputs, order="reverse")
    assert_close(actual, on_the_cpu(function, inputs), 1e-5)


def test_widths_of_copies() -> None:
    """4 to 16 bytes, that lie beside each other in both memories."""
    single, half = match_gemm(conv("3x3")), match_gemm(conv("3x3", "float16"))
    assert copies(single) == (1, 4)  # ordinary units want the left operand transposed
    assert copies(single, "tf32") == (4, 4)
    assert copies(half, "fp16") == (8, 8)
    assert copies(half) == (None, None)
    assert copies(match_gemm(conv("first", "float16")), "fp16") == (None, None)
    assert copies(match_gemm(conv("first"))) == (1, 1)


def test_pipelines_are_tried_beside_other_tiles() -> None:
    shapes = ((1, 14, 14, 64), (3, 3, 64, 64), (1, 1, 1, 64))
    match = match_gemm(function_of(conv_relu(padding=1), *shapes))
    for precision in ("fp32", "tf32", "fp16"):
        known = tiles(match, TARGET, precision)
        slots = [tile.slots for tile in known]
        assert slots.count(1) == 6
        assert len(slots) == 10
        assert not any(tile.dynamic for tile in known if tile.slots == 1)
        if precision == "fp16":
            assert max(slots) == 2  # they pass through registers, which hold one slice
        assert {tile.slots for tile in tiles(match, OLD, precision)} == {1}


@pytest.mark.parametrize(("arch", "kib"), [("sm_80", 163), ("sm_89", 99), ("sm_90a", 227)])
def test_tiles_have_the_shared_memory_that_a_device_has(arch: str, kib: int) -> None:
    shapes = ((1, 7, 7, 512), (3, 3, 512, 512), (1, 1, 1, 512))
    match = match_gemm(function_of(conv_relu(padding=1), *shapes))
    target = tvm.target.Target({**TARGET.export(), "arch": arch}, host="llvm")
    known = tiles(match, target, "tf32")
    assert any(tile.dynamic for tile in known)
    assert all(tile.shared < kib << 10 for tile in known)
