# SPDX-License-Identifier: Apache-2.0
"""All implementations of an operator on a CUDA device, run on the CPU by the fake driver."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm import relax, s_tir

from support.cuda.fake_driver import TARGET, Emulated
from support.cuda.functions import conv_relu, function_of, normal, on_the_cpu, rounded_to_tf32
from support.cuda.windows import WINDOWS
from support.networks import assert_close
from tvm_ios.backend.cuda.kernels.match_gemm import match_gemm
from tvm_ios.backend.cuda.kernels.schedule import ScheduledFunction, schedule
from tvm_ios.backend.cuda.kernels.tiles import tiles
from tvm_ios.backend.cuda.target import limits_of
from tvm_ios.lowering.no_rule import NoRule

OTHERS: dict[str, tuple[Any, ...]] = {
    "relu": (lambda e, x: e(relax.op.nn.relu(x)), (3, 50)),
    "concat": (lambda e, x, y: e(relax.op.concat([x, y], 1)), (3, 50), (3, 14)),
    "transpose": (lambda e, x: e(relax.op.permute_dims(x)), (30, 50)),
    "softmax": (lambda e, x: e(relax.op.nn.softmax(x)), (5, 70)),
    "argmax": (lambda e, x: e(relax.op.argmax(x, axis=1)), (5, 70)),
    "sum": (lambda e, x: e(relax.op.sum(x, axis=[1])), (5, 700)),
}


def names(candidates: tuple[ScheduledFunction, ...]) -> list[str]:
    return [candidate.name for candidate in candidates]


@pytest.mark.parametrize("name", WINDOWS)
def test_window(emulated: Emulated, name: str) -> None:
    body, *shapes = WINDOWS[name]
    function = function_of(body, *shapes)
    ours = [c for c in schedule(function, TARGET) if c.name.startswith("window")]
    assert ours
    inputs = normal(function)
    expected = on_the_cpu(function, inputs)
    for candidate in (ours[0], ours[-1]) if name in ("max", "depthwise") else ours[:1]:
        (actual,) = emulated.run_kernel(candidate.function, inputs, order="1")
        assert_close(actual, expected, 1e-5)


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_left_to_dlight(name: str) -> None:
    body, *shapes = OTHERS[name]
    candidates = schedule(function_of(body, *shapes), TARGET)
    assert candidates
    assert all(c.name.startswith("dlight_") for c in candidates)
    assert names(candidates)[-1] == "dlight_Fallback"


def test_workspace_and_launches() -> None:
    body, *shapes = OTHERS["softmax"]
    candidates = {c.name: c for c in schedule(function_of(body, *shapes), TARGET)}
    at_once = candidates["dlight_GeneralReduction"]
    assert (at_once.launches, at_once.workspace) == (1, False)
    fallback = candidates["dlight_Fallback"]
    assert fallback.launches > 1
    assert fallback.workspace


def test_products_of_integers_are_no_matter_of_these_rules() -> None:
    function = function_of(
        lambda e, x, y: e(relax.op.matmul(x, y)), (32, 32), (32, 32), dtype="int32"
    )
    assert not any(name.startswith("gemm") for name in names(schedule(function, TARGET)))


def test_channels_are_columns_wherever_they_came_from() -> None:
    """A convolution that was written for channels first, its tensors' layouts changed since."""

    def body(emit: Any, x: relax.Var, weights: relax.Var) -> relax.Expr:
        return emit(relax.op.nn.relu(emit(relax.op.nn.conv2d(x, weights, padding=1))))

    sch = s_tir.Schedule(function_of(body, (1, 16, 9, 7), (32, 16, 3, 3)))
    pad, product, result = sch.get_child_blocks(sch.get_sblock("root"))
    last = lambda n, c, h, w: (n, h, w, c)  # noqa: E731
    sch.transform_layout(pad, ("read", 0), last)
    sch.transform_layout(product, ("read", 1), lambda o, i, h, w: (h, w, i, o))
    sch.transform_layout(result, ("write", 0), last)
    match = match_gemm(sch.mod["main"])
    assert match.rows.extents == (9, 7)
    assert match.columns.extents == (32,)
    (product,) = match.products
    assert product.depth.extents == (3, 3, 16)
    assert (product.left.vector, product.right.vector, match.vector) == (4, 4, 4)


def test_blocks_that_divide_one_axis_only() -> None:
    """98 blocks of 128 threads are a channel here, which TVM does not see through."""

    def body(emit: Any, x: relax.Var, weights: relax.Var) -> relax.Expr:
        return emit(relax.op.nn.conv2d(x, weights, padding=1, groups=32))

    function = function_of(body, (1, 32, 112, 112), (32, 1, 3, 3))
    assert names(schedule(function, TARGET))[0].startswith("window")


def test_precision_decides_what_multiplies() -> None:
    shapes = ((1, 14, 14, 32), (3, 3, 32, 64), (1, 1, 1, 64))
    single = function_of(conv_relu(padding=1), *shapes)
    half = function_of(conv_relu(padding=1), *shapes, dtype="float16")
    assert names(schedule(single, TARGET, "fp32"))[0].startswith("gemm_fp32")
    assert names(schedule(single, TARGET, "tf32"))[0].startswith("gemm_tf32")
    assert names(schedule(single, TARGET, "fp16"))[0].startswith("gemm_fp16")
    assert names(schedule(single, TARGET, "bf16"))[0].startswith("gemm_bf16")
    assert names(schedule(half, TARGET, "fp16"))[0].startswith("gemm_fp16")
    assert names(schedule(half, TARGET, "fp32"))[0].startswith("gemm_fp32")


def test_few_rows_are_tried_without_tensor_cores() -> None:
    body = lambda e, x, w: e(relax.op.matmul(x, e(relax.op.permute_dims(w))))  # noqa: E731
    function = function_of(body, (1, 256), (512, 256))
    found = names(schedule(function, TARGET, "tf32"))
    assert any(name.startswith("gemm_fp32") for name in found)
    assert any(name.startswith("gemm_tf32") for name in found)
    assert "dlight_GEMV" in found


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    size=st.tuples(st.integers(1, 80), st.integers(1, 80)),
    channels=st.tuples(st.integers(1, 600), st.integers(2, 600)),
    kernel=st.integers(1, 5),
    precision=st.sampled_from(["fp32", "tf32"]),
)
def test_tiles_are_what_a_block_can_have(size: Any, channels: Any, kernel: int, precision: str):
    weights = (kernel, kernel, *channels)
    shapes = ((1, *size, channels[0]), weights, (1, 1, 1, channels[1]))
    match = match_gemm(function_of(conv_relu(padding=kernel // 2), *shapes))
    try:
        found = tiles(match, TARGET, precision)
    except NoRule:
        (product,) = match.products
        assert match.rows.extent * match.columns.extent * product.depth.extent < 2048
        return
    assert 1 <= len(found) <= 10
    for tile in found:
        assert 32 <= tile.threads <= 256
        assert tile.shared < (49152 if tile.slots == 1 else 227 << 10)
        assert tile.rows % tile.part_rows == tile.columns % tile.part_columns == 0
        tall, wide = -(-match.rows.extent // tile.rows), -(-match.columns.extent // tile.columns)
        assert tile.blocks == tall * wide


@settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    size=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    channels=st.tuples(st.integers(1, 20), st.integers(2, 40)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    strides=st.integers(1, 3),
    choice=st.integers(0, 5),
    precision=st.sampled_from(["fp32", "tf32"]),
)
def test_any_convolution(
    emulated: Emulated, size: Any, channels: Any, kernel: Any, strides: Any, choice: int,
    precision: str,
) -> None:  # fmt: skip
    shapes = ((1, *size, channels[0]), (*kernel, *channels), (1, 1, 1, channels[1]))
    padding = [k // 2 for k in kernel]
    function = function_of(conv_relu(padding=padding, strides=strides), *shapes)
    inputs: list[np.ndarray] = [rounded_to_tf32(array) for array in normal(function)]
    candidates = schedule(function, TARGET, precision)
    candidate: tvm.tirx.PrimFunc = candidates[choice % len(candidates)].function
    (actual,) = emulated.run_kernel(candidate, inputs)
    assert_close(actual, on_the_cpu(function, inputs), 1e-5)


def test_tiles_fit_the_device() -> None:
    """Fewer multiprocessors want fewer and larger tiles, and less shared memory fewer slots."""
    match = match_gemm(
        function_of(lambda emit, x, y: emit(relax.op.matmul(x, y)), (196, 512), (512, 512))
    )
    usual = limits_of(TARGET)
    few = tiles(match, TARGET, "fp32", replace(usual, multiprocessors=8))
    assert few[0].blocks < tiles(match, TARGET, "fp32", usual)[0].blocks
    narrow = tiles(match, TARGET, "fp32", replace(usual, block_shared_bytes=32 << 10))
    pipelines = [tile for tile in narrow if tile.slots > 1]
    assert pipelines
    assert all(tile.shared <= 32 << 10 for tile in pipelines)
    assert any(tile.shared > 32 << 10 for tile in tiles(match, TARGET, "fp32", usual))
