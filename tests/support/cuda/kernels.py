# SPDX-License-Identifier: Apache-2.0
"""Small kernels, scheduled for CUDA by TVM's rules, and what NumPy makes of the same inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax, s_tir, te, tirx, topi
from tvm.s_tir import dlight

from support.cuda.fake_driver import TARGET
from support.cuda.functions import conv_relu, function_of, on_the_cpu, rounded_to_tf32, tile_of
from tvm_ios.backend.cuda.kernels.implicit_gemm import gemm
from tvm_ios.backend.cuda.kernels.kernel import CudaKernel
from tvm_ios.backend.cuda.kernels.match_gemm import match_gemm
from tvm_ios.backend.cuda.kernels.schedule import schedule
from tvm_ios.ops.tensor import TensorSpec


@dataclass(frozen=True)
class Case:
    """A kernel and the function of arrays that it computes."""

    kernel: CudaKernel
    expected: Callable[..., np.ndarray]


def _case(
    name: str,
    shapes: Sequence[tuple[int, ...]],
    compute: Callable[..., te.Tensor],
    rule: dlight.ScheduleRule,
    expected: Callable[..., np.ndarray],
    dtype: str = "float32",
) -> Case:
    inputs = [te.placeholder(shape, dtype, name=f"x{i}") for i, shape in enumerate(shapes)]
    result = compute(*inputs)
    function = te.create_prim_func([*inputs, result]).with_attr("global_symbol", name)
    with TARGET:
        scheduled = dlight.ApplyDefaultSchedule(rule)(tvm.IRModule({name: function}))[name]
    return Case(_kernel(name, scheduled), expected)


def _kernel(name: str, function: tirx.PrimFunc) -> CudaKernel:
    tensors = [(tuple(map(int, p.ty.shape)), str(p.ty.dtype)) for p in function.params]
    *inputs, output = (TensorSpec(*tensor) for tensor in tensors)
    return CudaKernel(name, (name, *tensors), tuple(inputs), (output,), function)


def convolution(precision: str, pipeline: bool = False) -> Case:
    """A convolution, a bias and a ReLU by the rule that comes first."""
    function = function_of(conv_relu(padding=1), (1, 9, 10, 16), (3, 3, 16, 20), (1, 1, 1, 20))

    def expected(x: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
        if precision == "tf32":
            x, weights = rounded_to_tf32(x), rounded_to_tf32(weights)
        return on_the_cpu(function, [x, weights, bias])

    known = schedule(function, TARGET, precision)
    best = next(c for c in known if ("*" in c.name) == pipeline)
    return Case(_kernel(f"convolution_{precision}", best.function), expected)


def pipeline(rows: int, depth: int, columns: int) -> Case:
    """A product whose slices have more shared memory than a device gives without being asked."""
    function = function_of(
        lambda emit, x, y: emit(relax.op.matmul(x, y)), (rows, depth), (depth, columns)
    )
    match = match_gemm(function)
    tile = tile_of(match, "fp32", (32, 32, 16), (4, 8), 1, teams=4, slots=4)
    assert tile.dynamic
    return Case(_kernel("pipeline", gemm(match, tile)), np.matmul)


def matmul(rows: int, inner: int, columns: int) -> Case:
    """A product through shared memory, with barriers."""
    shapes = ((rows, inner), (inner, columns))
    return _case("matmul", shapes, topi.matmul, dlight.gpu.Matmul(), np.matmul)


def row_sum(rows: int, columns: int) -> Case:
    """A sum that the threads of a warp add up by exchanging values."""

    def compute(x: te.Tensor) -> te.Tensor:
        return topi.sum(x, axis=1)

    def expected(x: np.ndarray) -> np.ndarray:
        return x.sum(axis=1)

    return _case("row_sum", [(rows, columns)], compute, dlight.gpu.Reduction(), expected)


def sum_by_48(rows: int) -> Case:
    """A sum of 48 values by as many threads, which are no whole number of warps."""

    def compute(x: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, 48))
        return te.compute((rows,), lambda i: te.sum(x[i, k], axis=k), name="y")

    def expected(x: np.ndarray) -> np.ndarray:
        return x.sum(axis=1)

    return _case("sum_by_48", [(rows, 48)], compute, _ByRow(), expected)


def softmax(rows: int, columns: int) -> Case:
    """Reductions by warps and then, through shared memory, across them."""

    def expected(x: np.ndarray) -> np.ndarray:
        exp = np.exp(x - x.max(axis=1, keepdims=True))
        return exp / exp.sum(axis=1, keepdims=True)

    rule = dlight.gpu.GeneralReduction()
    return _case("softmax", [(rows, columns)], topi.nn.softmax, rule, expected)


def softmax_in_steps(rows: int, columns: int) -> Case:
    """The same in several launches, with a workspace between them."""
    rule, expected = dlight.gpu.Fallback(), softmax(rows, columns).expected
    return _case("steps", [(rows, columns)], topi.nn.softmax, rule, expected)


def backwards(rows: int, columns: int, dtype: str = "float32") -> Case:
    """Each row from its end, through shared memory, by a block of as many threads as columns."""

    def compute(x: te.Tensor) -> te.Tensor:
        return te.compute((rows, columns), lambda i, j: x[i, columns - 1 - j], name="y")

    def expected(x: np.ndarray) -> np.ndarray:
        return x[:, ::-1]

    return _case("backwards", [(rows, columns)], compute, _ByRow(), expected, dtype)


class _ByRow(dlight.ScheduleRule):
    """A block of threads for each row, which is first copied to shared memory."""

    def apply(self, func: tvm.tirx.PrimFunc, target: tvm.target.Target, _: bool) -> s_tir.Schedule:
        """The scheduled function."""
        schedule = s_tir.Schedule(func)
        block = schedule.get_sblock("y")
        copy = schedule.cache_read(block, 0, "shared")
        row, column = schedule.get_loops(block)
        schedule.bind(row, "blockIdx.x")
        schedule.bind(column, "threadIdx.x")
        schedule.compute_at(copy, row)
        schedule.bind(schedule.get_loops(copy)[-1], "threadIdx.x")
        return schedule


def add(*shape: int, dtype: str = "float32") -> Case:
    """A sum of two tensors, whose threads know nothing of each other."""
    return _case("add", [shape, shape], topi.add, dlight.gpu.Fallback(), np.add, dtype)


def tanh(*shape: int) -> Case:
    """A function of each element."""
    return _case("tanh", [shape], topi.tanh, dlight.gpu.Fallback(), np.tanh)


def max_pool(channels: int, size: int) -> Case:
    """The largest of 2x2 values."""

    def compute(x: te.Tensor) -> te.Tensor:  # channels first
        return topi.nn.pool2d(x, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), "max")

    def expected(x: np.ndarray) -> np.ndarray:
        half = size // 2
        x = x[:, :, : 2 * half, : 2 * half]
        return x.reshape(1, channels, half, 2, half, 2).max(axis=(3, 5))

    return _case("max_pool", [(1, channels, size, size)], compute, dlight.gpu.Fallback(), expected)
