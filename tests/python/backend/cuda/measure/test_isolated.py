# SPDX-License-Identifier: Apache-2.0
"""A bad kernel costs only itself: it is not used, the search goes on, and the next one knows it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax, te, topi
from tvm.s_tir import dlight

from support.cuda.cli import command
from support.cuda.fake_driver import TARGET, Emulated
from support.cuda.whole import settings
from support.networks import (
    assert_close,
    compile_plain,
    conv,
    flatten,
    random_arguments,
    relax_module,
    run_vm,
)
from tvm_ios.backend.cuda.kernels.kernel import CudaKernel
from tvm_ios.backend.cuda.kernels.slices import ChannelSlice, within_slices
from tvm_ios.backend.cuda.measure.builder import CudaKernelBuilder
from tvm_ios.backend.cuda.measure.check import relative_error
from tvm_ios.compiler.compare import compare
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.measure.transport.locations import ProcessRunner
from tvm_ios.options import Options

LIMIT = 3.0  # seconds of a stage
NETWORK = relax_module(lambda emit, x: emit(conv(x, 8, 3, seed=1)), (1, 4, 6, 6))
ARGUMENTS = random_arguments(NETWORK)

Index = tvm.tirx.Var
Body = Callable[[Sequence[te.Tensor], Sequence[tvm.tirx.Var]], object]
"""An element of a kernel's result, of its inputs and the element's indices."""


def zero(inputs: Sequence[te.Tensor], _indices: Sequence[Index]) -> object:
    """Something else than the operator."""
    return inputs[0][(0,) * len(inputs[0].shape)] * 0.0


def unwritten(inputs: Sequence[te.Tensor], _indices: Sequence[Index]) -> object:
    """NaN, as where an element is left as it was."""
    return tvm.tirx.sqrt(zero(inputs, _indices) - 1.0)


def unknown(inputs: Sequence[te.Tensor], _indices: Sequence[Index]) -> object:
    """A function that no header declares."""
    return tvm.tirx.call_extern("float32", "no_such_function", zero(inputs, _indices))


def far_away(inputs: Sequence[te.Tensor], indices: Sequence[Index]) -> object:
    """What lies gigabytes in front of a tensor."""
    first, *others = (0,) * len(inputs[0].shape)
    return inputs[0][(first - 10_000_000 + indices[0], *others)]


def endless(inputs: Sequence[te.Tensor], _indices: Sequence[Index]) -> object:
    """A sum of more numbers than anybody waits for."""
    k = te.reduce_axis((0, 1 << 30), "k")
    flat = inputs[0][(0,) * len(inputs[0].shape)]
    return te.sum(flat * k.var.astype("float32"), axis=k)


def first(inputs: Sequence[te.Tensor], _indices: Sequence[Index]) -> object:
    """A number that was read, which is NaN if that tensor holds nothing else."""
    return inputs[0][(0,) * len(inputs[0].shape)]


def partial(kernel: CudaKernel) -> CudaKernel:
    """A kernel of the convolution that leaves the last channel as it was."""
    x, weights = (te.placeholder(spec.shape, spec.dtype) for spec in kernel.inputs)
    (spec,) = kernel.outputs
    padded = topi.nn.pad(x, (0, 1, 1, 0))
    i, j, c = (te.reduce_axis((0, size)) for size in weights.shape[:3])

    def element(n: Index, h: Index, w: Index, k: Index) -> object:
        return te.sum(padded[n, h + i, w + j, c] * weights[i, j, c, k], axis=[i, j, c])

    *image, channels = spec.shape
    function = te.create_prim_func([x, weights, te.compute((*image, channels - 1), element)])
    return by_fallback(kernel, within_slices(function, {2: ChannelSlice(0, channels)}))


BODIES: dict[str, Body] = {
    b.__name__: b for b in (zero, unwritten, unknown, far_away, endless, first)
}


def spoilt(kernel: CudaKernel, body: Body) -> CudaKernel:
    """A kernel that computes something else."""
    inputs = [te.placeholder(spec.shape, spec.dtype) for spec in kernel.inputs]
    (spec,) = kernel.outputs
    result = te.compute(spec.shape, lambda *indices: body(inputs, indices))
    return by_fallback(kernel, te.create_prim_func([*inputs, result]))


def spoil(kernel: CudaKernel, name: str) -> CudaKernel:
    return partial(kernel) if name == "partial" else spoilt(kernel, BODIES[name])


def by_fallback(kernel: CudaKernel, function: tvm.tirx.PrimFunc) -> CudaKernel:
    """The kernel with another function, whose elements each have a thread."""
    with TARGET:
        mod = dlight.ApplyDefaultSchedule(dlight.gpu.Fallback())(
            tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
        )
    return replace(kernel, function=mod["main"])


def search(
    directory: Path,
    name: str,
    variables: dict[str, str],
    network: tvm.IRModule = NETWORK,
    number: int = 0,
    candidate: int = 0,
) -> tuple[str, list[str], list[str], list[np.ndarray]]:
    """The kernel that a bad first candidate loses to; compiled kernels, warnings, and results.

    The operator and the candidate are given by number.
    """
    compile_, compiled, records = CudaKernelBuilder._compile, [], []
    options = Options(database=directory / "m.sqlite3")
    runner = ProcessRunner(LIMIT)
    scheduler = Scheduler.prepare(network, TARGET, options=options, runner=runner)
    victim = scheduler.stage_builder.network.candidates[number][candidate].kernel

    def spoiling(builder: CudaKernelBuilder, kernels: Sequence[CudaKernel]) -> object:
        compiled.extend(kernel.variant for kernel in kernels)
        bad = [spoil(k, name) if name and k.key == victim.key else k for k in kernels]
        return compile_(builder, bad)

    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: records.append(record.getMessage())
    logging.getLogger("tvm_ios").addHandler(handler)
    with pytest.MonkeyPatch.context() as patch, settings(variables):
        patch.setattr(CudaKernelBuilder, "_compile", spoiling)
        outcome = compare(scheduler)
        tensors = [tvm.runtime.tensor(array) for array in ARGUMENTS]
        results = flatten(outcome.variants(outcome.name, tensors))
        scheduler.close()
    logging.getLogger("tvm_ios").removeHandler(handler)
    operator = outcome.schedule.operators[number]
    return operator.kernel, [compiled.count(victim.variant), victim.variant], records, results


@pytest.mark.parametrize("name", [name for name in BODIES if name != "first"])
def test_a_bad_kernel_loses_and_is_remembered(
    emulated: Emulated, tmp_path: Path, name: str
) -> None:
    kernel, (times, victim), warnings, (result,) = emulated.call(search, tmp_path, name, {})
    assert times == (2 if name == "unknown" else 1)  # among others, and alone
    assert kernel != victim
    assert any("gave no times; it is not used" in line for line in warnings)
    assert any("something else" in line for line in warnings) == (name in ("zero", "unwritten"))
    assert any("cannot be compiled" in line for line in warnings) == (name == "unknown")
    assert_close(result, run_vm(compile_plain(NETWORK), ARGUMENTS)[0], 1e-5)
    again, (times, _), warnings, _ = emulated.call(search, tmp_path, name, {})
    assert (again, times, warnings) == (kernel, 0, [])


def test_what_is_left_in_memory_is_no_result(emulated: Emulated, tmp_path: Path) -> None:
    """The kernel before has written the right numbers to the same memory."""
    _, _, warnings, _ = emulated.call(search, tmp_path, "partial", {}, NETWORK, 0, 1)
    assert any("something else" in line for line in warnings)


def test_a_kernel_reads_numbers_beside_those_that_it_writes(
    emulated: Emulated, tmp_path: Path
) -> None:
    """A part of a concatenation is computed from another one, which another stage has computed."""

    def body(emit, x):
        left = emit(conv(x, 8, 3, seed=1))
        return emit(relax.op.concat([left, emit(conv(left, 8, 3, seed=2))], axis=1))

    network = relax_module(body, (1, 4, 6, 6))
    kernel, (_, victim), warnings, (result,) = emulated.call(
        search, tmp_path, "first", {}, network, 1
    )
    assert kernel != victim
    assert any("something else" in line for line in warnings)
    assert_close(result, run_vm(compile_plain(network), ARGUMENTS)[0], 1e-5)


def test_a_device_that_fails_now_and_then(emulated: Emulated, tmp_path: Path) -> None:
    """Each process of its own fails at its 20th graph; the next one goes on."""
    variables = {"TVM_IOS_FAKE_DRIVER_FAIL": "cuGraphLaunch:20:719"}
    _, _, warnings, (result,) = emulated.call(search, tmp_path, "", variables)
    assert warnings == []
    assert_close(result, run_vm(compile_plain(NETWORK), ARGUMENTS)[0], 1e-5)


def test_what_was_measured_before_a_device_was_full_is_there(
    emulated: Emulated, tmp_path: Path
) -> None:
    line = "compile zoo:nasrnn_small --target cuda -o new.so --database m.sqlite3"
    full = {"TVM_IOS_FAKE_DRIVER_FAIL": "cuMemAlloc:12:2", "TVM_IOS_FAKE_DRIVER_COMPUTE": "0"}
    status, _, error, files = emulated.call(command, tmp_path, line.split(), full)
    assert (status, "new.so" in files) == (4, False)
    assert "out of memory in cuMemAlloc" in error
    _, shown, _, _ = emulated.call(command, tmp_path, ["db", "info", "m.sqlite3", "--json"], {})
    assert json.loads(shown)["samples"] > 0


@pytest.mark.parametrize(
    ("result", "reference", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.5], [1.0, 2.0], 0.25),
        ([np.nan, 1.0], [np.nan, 1.0], 0.0),
        ([np.nan, 1.0], [0.0, 1.0], np.inf),
        ([0.0, 1.0], [np.inf, 1.0], np.inf),
        ([-np.inf, 1.0], [np.inf, 1.0], np.inf),
        ([1e-9, 0.0], [0.0, 0.0], np.inf),
        ([3, 4], [3, 4], 0.0),
        ([3, 5], [3, 4], np.inf),
    ],
)
def test_the_error_of_a_result(result: list, reference: list, error: float) -> None:
    assert relative_error(np.array(result), np.array(reference)) == error
