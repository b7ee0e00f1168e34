# SPDX-License-Identifier: Apache-2.0
"""Kernels for CUDA, run on the CPU by the stand-in for its driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te
from tvm.s_tir import dlight

from cuda_support import TARGET, Emulated
from support import assert_close

RULES = [
    dlight.gpu.Matmul(),
    dlight.gpu.Reduction(),
    dlight.gpu.GeneralReduction(),
    dlight.gpu.Fallback(),
]


def scheduled(*tensors: te.Tensor, rules: Sequence[Any] = RULES) -> tvm.tirx.PrimFunc:
    """Inputs, then outputs, as a function for CUDA."""
    with TARGET:
        mod = tvm.IRModule({"main": te.create_prim_func(list(tensors))})
        return dlight.ApplyDefaultSchedule(*rules)(mod)["main"]


def normal(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_elementwise(emulated: Emulated, dtype: str) -> None:
    x = te.placeholder((33, 65), dtype)
    y = te.compute(
        (33, 65), lambda i, j: te.max(x[i, j] * x[i, j] - x[i, j], tvm.tirx.const(0, dtype))
    )
    data = normal(33, 65, dtype=dtype)
    (actual,) = emulated.run_kernel(scheduled(x, y), [data])
    assert_close(actual, np.maximum(data * data - data, 0).astype(dtype), 1e-6)


@pytest.mark.parametrize("order", ["", "reverse", "1"])
def test_reduction_by_shuffles(emulated: Emulated, order: str) -> None:
    x = te.placeholder((16, 1000), "float32")
    k = te.reduce_axis((0, 1000))
    y = te.compute((16,), lambda i: te.sum(x[i, k], axis=k))
    data = normal(16, 1000)
    (actual,) = emulated.run_kernel(scheduled(x, y), [data], order=order)
    assert_close(actual, data.sum(1), 1e-5)
