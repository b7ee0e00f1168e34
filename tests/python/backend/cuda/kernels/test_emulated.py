# SPDX-License-Identifier: Apache-2.0
"""Kernels that TVM emits for CUDA, run on the CPU by the fake driver."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te
from tvm.s_tir import Schedule, dlight
from tvm.script import tirx as T

from support.cuda.fake_driver import TARGET, Emulated
from support.networks import assert_close

ORDERS = ["issued", "reverse", "1"]


def function(*tensors: te.Tensor) -> tvm.tirx.PrimFunc:
    """Inputs, then outputs."""
    return te.create_prim_func(list(tensors))


def scheduled(rule: Any, *tensors: te.Tensor) -> tvm.tirx.PrimFunc:
    """Inputs, then outputs, scheduled by one of dlight's rules."""
    with TARGET:
        mod = tvm.IRModule({"main": function(*tensors)})
        mod = dlight.ApplyDefaultSchedule(rule)(mod)
    assert mod["main"].attrs["tirx.is_scheduled"]
    return mod["main"]


def normal(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_elementwise(emulated: Emulated, dtype: str) -> None:
    x = te.placeholder((33, 65), dtype)
    zero = tvm.tirx.const(0, dtype)
    y = te.compute((33, 65), lambda i, j: te.max(x[i, j] * x[i, j] - x[i, j], zero))
    data = normal(33, 65, dtype=dtype)
    (actual,) = emulated.run_kernel(scheduled(dlight.gpu.Fallback(), x, y), [data])
    assert_close(actual, np.maximum(data * data - data, 0).astype(dtype), 1e-6)


def test_mathematics(emulated: Emulated) -> None:
    x = te.placeholder((1000,), "float32")
    y = te.compute((1000,), lambda i: te.tanh(x[i]) + te.exp(x[i]) * te.erf(te.sigmoid(x[i])))
    data = normal(1000)
    (actual,) = emulated.run_kernel(scheduled(dlight.gpu.Fallback(), x, y), [data])
    sigmoid = 1 / (1 + np.exp(-data))
    expected = np.tanh(data) + np.exp(data) * np.vectorize(math.erf)(sigmoid)
    assert_close(actual, expected.astype("float32"), 1e-5)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_reduction_by_shuffles(emulated: Emulated, order: str, dtype: str) -> None:
    x = te.placeholder((16, 1000), dtype)
    k = te.reduce_axis((0, 1000))
    y = te.compute((16,), lambda i: te.sum(x[i, k], axis=k))
    data = normal(16, 1000, dtype=dtype)
    (actual,) = emulated.run_kernel(scheduled(dlight.gpu.Reduction(), x, y), [data], order=order)
    assert_close(actual, data.sum(1, "float32").astype(dtype), 1e-5 if dtype == "float32" else 5e-3)


@pytest.mark.parametrize("order", ORDERS)
def test_product_in_shared_memory(emulated: Emulated, order: str) -> None:
    a, b = te.placeholder((128, 96)), te.placeholder((64, 96))
    k = te.reduce_axis((0, 96))
    c = te.compute((128, 64), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k))
    x, y = normal(128, 96), normal(64, 96, seed=1)
    kernel = scheduled(dlight.gpu.Matmul(), a, b, c)
    (actual,) = emulated.run_kernel(kernel, [x, y], order=order)
    assert_close(actual, x @ y.T, 1e-5)


def softmax(n: int, width: int) -> tuple[te.Tensor, te.Tensor]:
    x = te.placeholder((n, width))
    return x, tvm.topi.nn.softmax(x)


@pytest.mark.parametrize("order", ORDERS)
def test_softmax(emulated: Emulated, order: str) -> None:
    data = normal(7, 333)
    kernel = scheduled(dlight.gpu.GeneralReduction(), *softmax(7, 333))
    (actual,) = emulated.run_kernel(kernel, [data], order=order)
    e = np.exp(data - data.max(1, keepdims=True))
    assert_close(actual, e / e.sum(1, keepdims=True), 1e-5)


@pytest.mark.parametrize("vector", [1, 4])
def test_asynchronous_copies(emulated: Emulated, vector: int) -> None:
    x = te.placeholder((64, 128))
    y = te.compute((64, 128), lambda i, j: x[i, j] * 2, name="y")
    schedule = Schedule(function(x, y))
    block = schedule.get_sblock("y")
    copy = schedule.cache_read(block, 0, "shared")
    rows, columns = schedule.get_loops(block)
    schedule.bind(rows, "blockIdx.x")
    steps, threads, _ = schedule.split(columns, [None, 32 // vector, vector])
    schedule.bind(threads, "threadIdx.x")
    schedule.compute_at(copy, steps)
    threads, lanes = schedule.split(schedule.get_loops(copy)[-1], [None, vector])
    schedule.bind(threads, "threadIdx.x")
    schedule.vectorize(lanes)
    schedule.annotate(steps, "software_pipeline_stage", [0, 1])
    schedule.annotate(steps, "software_pipeline_order", [0, 1])
    schedule.annotate(steps, "software_pipeline_async_stages", [0])
    data = normal(64, 128)
    (actual,) = emulated.run_kernel(schedule.mod, [data], options={"tirx.use_async_copy": 1})
    np.testing.assert_array_equal(actual, data * 2)


@T.prim_func(s_tir=True)
def registers(
    A: T.Buffer((16, 16), "float16"),
    B: T.Buffer((16, 8), "float16"),
    C: T.Buffer((16, 8), "float32"),
):
    tx = T.launch_thread("threadIdx.x", 32)
    with T.sblock("product"):
        T.reads(A[0:16, 0:16], B[0:16, 0:8])
        T.writes(C[0:16, 0:8])
        shared = T.alloc_buffer((16, 16), "float16", scope="shared")
        a = T.alloc_buffer((8,), "float16", scope="local")
        b = T.alloc_buffer((4,), "float16", scope="local")
        c = T.alloc_buffer((4,), "float32", scope="local")
        for i in range(8):
            shared[(tx * 8 + i) // 16, (tx * 8 + i) % 16] = A[(tx * 8 + i) // 16, (tx * 8 + i) % 16]
        T.evaluate(T.tvm_storage_sync("shared"))
        T.evaluate(
            T.ptx_legacy.ldmatrix(
                "float16", False, 4, ".b16", a.data, 0,
                T.address_of(shared[tx % 16, 8 * (tx // 16)]), 0,
            )
        )  # fmt: skip
        for i in range(4):
            b[i] = B[(tx % 4) * 2 + i % 2 + 8 * (i // 2), tx // 4]
        for i in range(4):
            c[i] = T.float32(0)
        T.evaluate(
            T.ptx_legacy.mma(
                "float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32",
                a.data, 0, b.data, 0, c.data, 0, False,
            )
        )  # fmt: skip
        for i in range(4):
            C[tx // 4 + 8 * (i // 2), (tx % 4) * 2 + i % 2] = c[i]


def test_product_in_registers(emulated: Emulated) -> None:
    a, b = normal(16, 16, dtype="float16"), normal(16, 8, seed=1, dtype="float16")
    (actual,) = emulated.run_kernel(registers, [a, b])
    assert_close(actual, a.astype("float32") @ b.astype("float32"), 1e-6)
