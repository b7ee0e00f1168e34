# SPDX-License-Identifier: Apache-2.0
"""Kernels put side by side in one launch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import tirx

from cuda_kernels import (
    Case,
    add,
    cuda_target,
    matmul,
    max_pool,
    row_sum,
    softmax,
    softmax_in_steps,
    tanh,
)
from tvm_ios.kernels.cuda.horizontal import fuse
from tvm_ios.kernels.cuda.kernel import CudaKernel
from tvm_ios.kernels.cuda.launch import NotFusible, launch_of
from tvm_ios.lower.cuda.build import KernelNames, build_kernels

TARGET = cuda_target()


def apart(cases: Sequence[Case]) -> list[list[int]]:
    """A wiring in which no two kernels share a tensor."""
    first_output = sum(len(case.kernel.inputs) for case in cases)
    inputs, outputs = iter(range(first_output)), iter(range(first_output, 1000))
    return [
        [*(next(inputs) for _ in c.kernel.inputs), *(next(outputs) for _ in c.kernel.outputs)]
        for c in cases
    ]


def fused(*cases: Case) -> CudaKernel:
    """The kernels of several cases in one launch, each with tensors of its own."""
    return fuse([case.kernel for case in cases], apart(cases), TARGET)


def random_inputs(kernel: CudaKernel) -> list[np.ndarray]:
    """Values around 0."""
    random = np.random.default_rng(3)
    return [random.standard_normal(s.shape).astype(s.dtype) for s in kernel.inputs]


def extents(kernel: CudaKernel) -> dict[str, int]:
    """What a kernel's one launch asks for."""
    launch = launch_of(kernel, TARGET)
    return {"blocks": launch.blocks, "threads": launch.threads, "shared": launch.shared_bytes}


def on_cpu(kernel: CudaKernel, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What a kernel without barriers computes, its blocks and threads taken one after another."""

    def serial(statement: tirx.AttrStmt) -> tirx.Stmt:
        if statement.attr_key != "thread_extent":
            return statement
        kind = tirx.ForKind.SERIAL
        return tirx.For(statement.node.var, 0, statement.value, kind, statement.body)

    function = kernel.function
    body = tvm_ffi.structural_map(function.body, [(tirx.AttrStmt, serial)])
    host = tvm.target.Target("llvm")
    function = tirx.PrimFunc(function.params, body, attrs=function.attrs).with_attr("target", host)
    plain = CudaKernel(kernel.name, kernel.key, kernel.inputs, kernel.outputs, function)
    module = build_kernels({"plain": plain}, host)
    outputs = [np.full(s.shape, np.nan, s.dtype) for s in kernel.outputs]
    tensors = [tvm.runtime.tensor(array) for array in (*inputs, *outputs)]
    module["plain"](*tensors)
    return [tensor.numpy() for tensor in tensors[len(inputs) :]]


@pytest.mark.parametrize(
    "cases",
    [
        [add(3, 5, 7), tanh(1000)],
        [tanh(1), max_pool(5, 13), add(2049)],
        [max_pool(3, 9), max_pool(3, 9), max_pool(16, 31), tanh(7, 300)],
    ],
)
def test_independent_threads_compute_the_same_on_a_cpu(cases: list[Case]) -> None:
    kernel = fused(*cases)
    inputs = random_inputs(kernel)
    results = on_cpu(kernel, inputs)
    remaining = list(inputs)
    for case, result in zip(cases, results, strict=True):
        mine = [remaining.pop(0) for _ in case.kernel.inputs]
        np.testing.assert_allclose(result, case.expected(*mine), rtol=2e-6, atol=1e-6)


def test_tensors_may_be_shared() -> None:
    first, second = add(3, 41), tanh(3, 41)
    kernel = fuse([first.kernel, second.kernel, first.kernel], [[0, 1, 2], [0, 3], [1, 1, 4]], TARGET)
    assert (len(kernel.inputs), len(kernel.outputs)) == (2, 3)
    x, y = random_inputs(kernel)
    total, squashed, doubled = on_cpu(kernel, [x, y])
    np.testing.assert_allclose(total, x + y, rtol=1e-6)
    np.testing.assert_allclose(squashed, np.tanh(x), rtol=2e-6)
    np.testing.assert_allclose(doubled, y + y, rtol=1e-6)


def test_a_fused_kernel_is_a_part_like_any_other() -> None:
    inner = fused(add(50), tanh(70))
    outer = fuse([max_pool(2, 5).kernel, inner], [[0, 4], [1, 2, 3, 5, 6]], TARGET)
    image, *others = random_inputs(outer)
    pooled, total, squashed = on_cpu(outer, [image, *others])
    np.testing.assert_array_equal(pooled, max_pool(2, 5).expected(image))
    np.testing.assert_allclose(total, others[0] + others[1], rtol=1e-6)
    np.testing.assert_allclose(squashed, np.tanh(others[2]), rtol=2e-6)


def test_blocks_are_as_large_as_the_part_that_needs_most() -> None:
    product, total, wave = matmul(33, 50, 47), row_sum(7, 45), tanh(5000)
    parts = [launch_of(case.kernel, TARGET) for case in (product, total)]
    assert [part.threads for part in parts] == [128, 32]
    cut = -(-launch_of(wave.kernel, TARGET).threads * launch_of(wave.kernel, TARGET).blocks // 128)
    assert extents(fused(product, total, wave)) == {
        "blocks": sum(part.blocks for part in parts) + cut,
        "threads": 128,
        "shared": parts[0].shared_bytes,
    }


def test_parts_use_one_shared_memory() -> None:
    first, second = matmul(33, 50, 47), softmax(7, 45)
    sizes = [extents(case.kernel)["shared"] for case in (first, second)]
    assert min(sizes) > 0
    assert extents(fused(first, second, first))["shared"] == max(sizes)


def test_blocks_are_numbered_in_the_order_of_the_parts() -> None:
    """What the caller puts first starts first."""
    long, short = row_sum(7, 4500), tanh(90)
    block = fused(long, short).function.body.node.var
    first = _first_condition(fused(long, short).function.body)
    tvm.ir.assert_structural_equal(first, block < 7, map_free_vars=True)
    reverse = _first_condition(fused(short, long).function.body)
    tvm.ir.assert_structural_equal(reverse, block < 32, map_free_vars=True)


def _first_condition(body: tirx.Stmt) -> tvm.ir.Expr:
    conditions = []
    lookup = [(tirx.IfThenElse, lambda statement: conditions.append(statement.condition))]
    tvm_ffi.structural_walk(body, lookup, order="pre")
    return conditions[0]
