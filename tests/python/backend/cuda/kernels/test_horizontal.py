# SPDX-License-Identifier: Apache-2.0
"""Horizontal fusion: kernels in one launch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx

from support.cuda.fake_driver import TARGET, Emulated
from support.cuda.kernels import (
    Case,
    add,
    backwards,
    convolution,
    matmul,
    max_pool,
    pipeline,
    row_sum,
    softmax,
    softmax_in_steps,
    sum_by_48,
    tanh,
)
from support.cuda.nvrtc import compile_source
from support.cuda.run import ordered
from support.networks import assert_close
from tvm_ios.backend.cuda.code.build import KernelNames, build_kernels
from tvm_ios.backend.cuda.kernels.horizontal import fuse
from tvm_ios.backend.cuda.kernels.kernel import CudaKernel
from tvm_ios.backend.cuda.kernels.launch import NotFusible, launch_of


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


def assert_parts_equal(
    cases: Sequence[Case], inputs: Sequence[np.ndarray], results: Sequence[np.ndarray]
) -> None:
    """Each part's result is what NumPy makes of its inputs."""
    remaining = list(inputs)
    for case, result in zip(cases, results, strict=True):
        mine = [remaining.pop(0) for _ in case.kernel.inputs]
        exact = result.dtype == np.float32
        assert_close(result, case.expected(*mine), 1e-5 if exact else 2e-3)


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
    assert_parts_equal(cases, inputs, on_cpu(kernel, inputs))


def test_tensors_may_be_shared() -> None:
    first, second = add(3, 41), tanh(3, 41)
    kernel = fuse(
        [first.kernel, second.kernel, first.kernel], [[0, 1, 2], [0, 3], [1, 1, 4]], TARGET
    )
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
    forth, back = (_first_condition(fused(*parts)) for parts in ((long, short), (short, long)))
    blocks = extents(fused(long, short))["blocks"]
    assert (int(forth.b), int(back.b)) == (7, blocks - 7)


def _first_condition(kernel: CudaKernel) -> tvm.ir.Expr:
    conditions = []
    lookup = [(tirx.IfThenElse, lambda statement: conditions.append(statement.condition))]
    tvm_ffi.structural_walk(kernel.function.body, lookup, order="pre")
    return conditions[0]


@pytest.mark.parametrize(
    ("cases", "reason"),
    [
        ([tanh(9), softmax_in_steps(7, 45)], "kernel steps has a workspace of its own"),
        ([tanh(9), sum_by_48(3)], "kernel sum_by_48 exchanges values within a warp"),
        ([backwards(3, 33), row_sum(2, 4500)], "kernel backwards needs a fraction of a warp"),
    ],
)
def test_what_cannot_share_a_launch_is_refused(cases: list[Case], reason: str) -> None:
    with pytest.raises(NotFusible, match=reason):
        fused(*cases)


def test_a_library_s_kernel_is_refused() -> None:
    library = replace(tanh(9).kernel, fusible=False)
    with pytest.raises(NotFusible, match="calls a library"):
        launch_of(library, TARGET)


@pytest.mark.parametrize(
    ("wiring", "what"),
    [
        ([[0, 1], [1, 2]], "reads what is written"),
        ([[0, 1], [0, 1]], "written twice"),
        ([[0, 2], [1, 4]], "not numbered in order"),
        ([[0, 0], [1, 2]], "reads what is written"),
    ],
)
def test_parts_that_depend_on_each_other_are_an_error(wiring: list[list[int]], what: str) -> None:
    kernel = tanh(9).kernel
    with pytest.raises(AssertionError, match=what):
        fuse([kernel, kernel], wiring, TARGET)


def test_equal_kernels_are_one_function() -> None:
    names = KernelNames("net")
    first, second = (fused(add(9), tanh(9)) for _ in range(2))
    assert names.name_of(first) == names.name_of(second) != names.name_of(add(9).kernel)
    assert len(names.kernels) == 2


COMBINATIONS = {
    "unequal_blocks": [matmul(33, 50, 47), row_sum(7, 45), max_pool(5, 13)],
    "three_with_barriers": [softmax(7, 45), backwards(3, 64), backwards(2, 96), tanh(5000)],
    "one_twice": [softmax(7, 45), add(9), softmax(7, 45), add(9)],
    "shuffles_beside_many_threads": [row_sum(5, 37), row_sum(3, 4500), add(3, 5, 7)],
    "a_part_of_a_warp": [backwards(3, 45), row_sum(7, 45), add(11, 13)],
    "half_precision": [backwards(3, 64, "float16"), add(33, dtype="float16"), tanh(7)],
    "our_rules": [convolution("fp32"), convolution("tf32"), max_pool(4, 7)],
    "pipelines": [convolution("fp32", True), convolution("tf32", True), softmax(7, 45)],
    "much_shared_memory": [matmul(33, 50, 47), pipeline(33, 130, 35), softmax(7, 45), add(9)],
    "alone": [softmax(5, 33)],
}


@pytest.fixture(scope="module")
def kernels() -> dict[str, CudaKernel]:
    """The combinations, and one kernel as it is."""
    together = {name: fused(*cases) for name, cases in COMBINATIONS.items()}
    return together | {"alone": COMBINATIONS["alone"][0].kernel}


def test_parts_compute_the_same_on_a_device(
    emulated: Emulated, kernels: dict[str, CudaKernel]
) -> None:
    """In any order of blocks and of threads."""
    inputs = {name: random_inputs(kernel) for name, kernel in kernels.items()}
    for results in emulated.call(run_together, kernels, inputs, ["reverse", "5"]):
        for name, cases in COMBINATIONS.items():
            assert_parts_equal(cases, inputs[name], results[name])


def run_together(
    kernels: dict[str, CudaKernel], inputs: dict[str, list[np.ndarray]], orders: list[str]
) -> list[dict[str, list[np.ndarray]]]:
    """What kernels that are compiled at once compute; in the process of an ``Emulated``."""
    module = build_kernels(kernels, TARGET)
    results = []
    for order in orders:
        with ordered(order):
            results.append({n: _run(module[n], k, inputs[n]) for n, k in kernels.items()})
    return results


def _run(
    function: tvm_ffi.Function, kernel: CudaKernel, inputs: list[np.ndarray]
) -> list[np.ndarray]:
    read = [tvm.runtime.tensor(array, tvm.cuda(0)) for array in inputs]
    written = [tvm.runtime.empty(s.shape, s.dtype, tvm.cuda(0)) for s in kernel.outputs]
    function(*read, *written)
    return [tensor.numpy() for tensor in written]


def test_a_network_calls_them_by_name(emulated: Emulated) -> None:
    """Linked to Relax's code as modules of other code generators are."""
    cases = [add(3, 5), tanh(11)]
    kernel = fused(*cases)
    inputs = random_inputs(kernel)
    assert_parts_equal(cases, inputs, emulated.call(call_from_relax, kernel, inputs))


def call_from_relax(kernel: CudaKernel, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """What a Relax function returns that calls a kernel; in the process of an ``Emulated``."""
    names = KernelNames("net")
    types = [relax.TensorType(spec.shape, spec.dtype) for spec in kernel.tensors]
    read, written = types[: len(inputs)], types[len(inputs) :]
    parameters = [relax.Var(f"x{i}", ty) for i, ty in enumerate(read)]
    builder = relax.BlockBuilder()
    with builder.function("main", parameters):
        name = names.name_of(kernel)
        results = builder.emit(relax.call_dps_packed(name, relax.Tuple(parameters), written))
        builder.emit_func_output(results)
    library = build_kernels(names.kernels, TARGET).mod
    mod = builder.get().with_attr("external_mods", [library])
    pipeline = relax.get_default_pipeline(TARGET)
    executable = tvm.compile(mod, TARGET, relax_pipeline=pipeline)
    machine = relax.VirtualMachine(executable, tvm.cuda(0))
    arrays = [tvm.runtime.tensor(array, tvm.cuda(0)) for array in inputs]
    return [result.numpy() for result in machine["main"](*arrays)]


@pytest.mark.parametrize("architecture", ["sm_80", pytest.param("sm_90", marks=pytest.mark.slow)])
def test_one_compilation_of_all_kernels(kernels: dict[str, CudaKernel], architecture: str) -> None:
    """Each is one entry, with the bounds of its launch and one piece of shared memory."""
    (device,) = build_kernels(kernels, TARGET).mod.imports
    ptx = compile_source(device.inspect_source(), "ptx", architecture).decode()
    entries = dict(re.findall(r"\.entry (\w+)_kernel\(.*?\.maxntid (\d+)", ptx, re.DOTALL))
    assert entries == {n: str(extents(k)["threads"]) for n, k in kernels.items()}
    pieces = re.findall(r"\.shared .* _ZZ\d+(\w+)_kernel\S*\[(\d+)\]", ptx)
    fused_pieces = sorted(piece for piece in pieces if piece[0] != "alone")
    shared = {n: extents(k)["shared"] for n, k in kernels.items() if n != "alone"}
    static = {n: size for n, size in shared.items() if 0 < size <= 48 << 10}
    assert fused_pieces == sorted((n, str(size)) for n, size in static.items())
    assert shared.keys() - static.keys() >= {"much_shared_memory"}  # asked for at the launch
