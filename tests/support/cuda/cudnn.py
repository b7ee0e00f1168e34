# SPDX-License-Identifier: Apache-2.0
"""Convolutions by the fake cuDNN, in the process to which fakes are CUDA.

:class:`support.cuda.fake_driver.Emulated` calls these functions.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

from support.cuda.fake_driver import TARGET
from support.networks import compile_plain, constant, conv, few_stages, relax_module, run_vm
from tvm_ios.backend.cuda.code.build import build_kernels
from tvm_ios.backend.cuda.code.network import RUN_STAGE
from tvm_ios.backend.cuda.code.pipeline import finish_pipeline
from tvm_ios.backend.cuda.kernels.cudnn import (
    CudnnAlgorithm,
    CudnnProblem,
    cudnn_algorithms,
    cudnn_kernel,
    cudnn_version,
)
from tvm_ios.backend.cuda.kernels.kernel import CudaKernel
from tvm_ios.backend.cuda.measure.builder import CudaKernelBuilder
from tvm_ios.backend.cuda.measure.runner import CudaStageRunner
from tvm_ios.backend.cuda.measure.tune import tuned
from tvm_ios.backend.cuda.rules.config import CudaLoweringConfig
from tvm_ios.backend.cuda.rules.cudnn import cudnn_problem
from tvm_ios.backend.cuda.rules.implement import implement
from tvm_ios.backend.cuda.stage.build import CudaStageBuilder
from tvm_ios.backend.cuda.target import limits_of
from tvm_ios.errors import UnsupportedError
from tvm_ios.graph.extract import extract
from tvm_ios.measure.cache import MeasurementCache
from tvm_ios.measure.transport.pool import LocalPool
from tvm_ios.measure.transport.session import LocalSession
from tvm_ios.rewrite.prepare import prepare
from tvm_ios.transform import InterOperatorSchedule

Arrays = Sequence[np.ndarray]


def use_fake_driver() -> str:
    """Let cuDNN be the fake driver, also where the real one is installed; its version."""
    library = Path(os.environ["TVM_IOS_FAKE_DRIVER"]).with_name("libcudnn.so.9")
    tvm_ffi.get_global_func("tvm_ios.runtime.cuda.UseCudnn")(str(library))
    return cudnn_version()


def convolve(problems: Mapping[str, CudnnProblem], inputs: Mapping[str, Arrays]) -> dict[str, Any]:
    """The result of each algorithm of each problem, by the problem's name and its variant."""
    kernels = {
        f"{name}_{algorithm.number}": (name, cudnn_kernel(problem, algorithm))
        for name, problem in problems.items()
        for algorithm in cudnn_algorithms(problem)
    }
    module = build_kernels({key: kernel for key, (_, kernel) in kernels.items()}, TARGET).mod
    return {key: _run(module[key], kernel, inputs[name]) for key, (name, kernel) in kernels.items()}


def _run(function: tvm_ffi.Function, kernel: CudaKernel, inputs: Arrays) -> np.ndarray:
    device = [tvm.runtime.tensor(array, tvm.cuda(0)) for array in inputs]
    written = [_poisoned(spec.shape, spec.dtype) for spec in kernel.outputs + kernel.scratch]
    function(*device, *written)
    return written[0].numpy()


def _poisoned(shape: Sequence[int], dtype: str) -> tvm.runtime.Tensor:
    return tvm.runtime.tensor(np.full(shape, 0xFF if dtype == "uint8" else np.nan, dtype), _CUDA)


_CUDA = tvm.cuda(0)


def refusal(problem: CudnnProblem, algorithm: int, inputs: Arrays) -> str:
    """What a user is told of an algorithm that the problem does not have."""
    kernel = cudnn_kernel(problem, CudnnAlgorithm(algorithm, 0, cudnn_version()))
    try:
        _run(build_kernels({"kernel": kernel}, TARGET).mod["kernel"], kernel, inputs)
    except UnsupportedError as error:
        return str(error)
    raise AssertionError("nothing was refused")


def choose_a_kernel(shape: Sequence[int]) -> list[str]:
    """The kernels that a convolution may have, one that cuDNN refuses and the one that it gets."""
    mod = prepare(relax_module(lambda emit, x: emit(conv(x, 8)), shape))
    network = implement(
        extract(mod), CudaLoweringConfig(TARGET, "fp32", limits_of(TARGET), cudnn=0)
    )
    (found,) = network.candidates
    problem, inputs = cudnn_problem(
        network.lowered.graph.operators[0], network.lowered.layouts, "fp32"
    )
    refused = cudnn_kernel(problem, CudnnAlgorithm(6, 0, cudnn_version()))
    first = replace(found[-1], kernel=refused, inputs=inputs)
    stage_builder = CudaStageBuilder(network=replace(network, candidates=((first, *found[-2:]),)))
    libraries = CudaKernelBuilder(TARGET)
    bench = CudaStageRunner(stage_builder.network, libraries, LocalSession(), 0, 0)
    chosen = tuned(
        stage_builder, LocalPool(bench, libraries), MeasurementCache(None, None, "graph")
    )
    return [first.kernel.variant, *(i.kernel.variant for i in found[-2:]), chosen.variant(0)]


def run_side_by_side(
    problem: CudnnProblem, weights: Sequence[np.ndarray], images: Arrays, order: str
) -> tuple[list[np.ndarray], list[list[str]]]:
    """Two convolutions of an image on two streams in a CUDA graph, added up; relu comes before.

    Returns
    -------
    results : list of ndarray
        For each image.
    journals : list of list of str
        What the driver was asked.
    """
    kernel = cudnn_kernel(problem, cudnn_algorithms(problem)[0])
    mod = _two_convolutions(kernel, weights)
    with TARGET, tvm.transform.PassContext(config={"relax.backend.use_cuda_graph": True}):
        pipeline = relax.get_default_pipeline(TARGET)
        machine = relax.VirtualMachine(tvm.compile(mod, TARGET, relax_pipeline=pipeline), _CUDA)
    return _run_in_turn(machine, images, order)


def run_network(images: Arrays, order: str) -> tuple[list[np.ndarray], list[np.ndarray], Any]:
    """A network in stages whose convolutions are all cuDNN's, in a CUDA graph.

    Returns
    -------
    results, expected : list of ndarray
        For each image; expected is what TVM computes on the CPU.
    journals : list of list of str
        What the driver was asked.
    """
    mod = relax_module(_network, images[0].shape)
    stages = {"cost_model": few_stages, "max_group_size": 1}
    search = InterOperatorSchedule(TARGET, cudnn=True, **stages)
    search(mod)
    operators = [
        replace(op, kernel="cudnn1") if op.kind == "conv2d" else op
        for op in search.schedule.operators
    ]
    schedule = replace(search.schedule, operators=tuple(operators))
    scheduled = InterOperatorSchedule(TARGET, cudnn=True, schedule=schedule)(mod)
    with TARGET, tvm.transform.PassContext(config={"relax.backend.use_cuda_graph": True}):
        executable = tvm.compile(scheduled, TARGET, relax_pipeline=finish_pipeline(TARGET))
    results, journals = _run_in_turn(relax.VirtualMachine(executable, _CUDA), images, order)
    plain = compile_plain(mod)
    return results, [run_vm(plain, [image])[0] for image in images], journals


def _network(emit: Callable[..., relax.Expr], x: relax.Expr) -> relax.Expr:
    """Two branches, one of them with a residual, all with something after the convolutions."""
    bias = constant(1, 8, 1, 1, seed=9)
    stem = emit(relax.op.nn.relu(emit(relax.op.add(emit(conv(x, 8)), bias))))
    left = emit(conv(stem, 8, 3, seed=1))
    right = emit(relax.op.nn.relu(emit(conv(stem, 8, 1, seed=2))))
    right = emit(relax.op.add(emit(conv(right, 8, 3, seed=3)), bias))
    right = emit(relax.op.nn.relu(emit(relax.op.add(right, left))))
    return emit(relax.op.concat([left, right], axis=1))


def _run_in_turn(
    machine: relax.VirtualMachine, images: Arrays, order: str
) -> tuple[list[np.ndarray], list[list[str]]]:
    """A model's results and the driver's journals."""
    results, journals = [], []
    with pytest.MonkeyPatch.context() as patch:
        if order:
            patch.setenv("TVM_IOS_FAKE_DRIVER_ORDER", order)
        for image in images:
            with _journal() as lines:
                result = machine["main"](tvm.runtime.tensor(image, _CUDA))
            results.append(result.numpy())
            journals.append(lines)
    return results, journals


def _two_convolutions(kernel: CudaKernel, weights: Arrays) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    variable = tvm.ir.GlobalVar("cudnn")
    relax.expr._update_type(variable, relax.FuncType.opaque_func())
    x = relax.Var("x", relax.TensorType(kernel.inputs[0].shape, "float32"))
    written = (*kernel.outputs, *kernel.scratch) * 2
    # x, two weights; then a result and a workspace of each call.
    program = relax.ShapeExpr([2, 0, 0, 0, 0, 4, 0, 1, 3, 4, 0, 1, 0, 4, 0, 2, 5, 6])
    with builder.function("main", [x]):
        with builder.dataflow():
            tensors = [builder.emit(relax.op.nn.relu(x)), *map(relax.const, weights)]
            call = relax.call_dps_packed(
                RUN_STAGE,
                relax.Tuple([program, variable, *tensors]),
                out_ty=[relax.TensorType(spec.shape, spec.dtype) for spec in written],
            )
            stage = builder.emit(call)
            results = [builder.emit(relax.TupleGetItem(stage, i)) for i in (0, 2)]
            both = builder.emit(relax.op.add(*results))
            output = builder.emit_output(relax.op.abs(both))
        builder.emit_func_output(output)
    mod = builder.get()
    mod[variable] = relax.ExternFunc("cudnn")
    return mod.with_attr("external_mods", [build_kernels({"cudnn": kernel}, TARGET).mod])


@contextmanager
def _journal() -> Iterator[list[str]]:
    """What the driver is asked in a ``with``; there once that has ended."""
    driver = ctypes.CDLL("libcuda.so.1")
    driver.TvmIosStandInJournal.restype = ctypes.c_size_t
    lines: list[str] = []
    driver.TvmIosStandInClear()
    yield lines
    size = driver.TvmIosStandInJournal(None, ctypes.c_size_t(0))
    text = ctypes.create_string_buffer(size)
    driver.TvmIosStandInJournal(text, ctypes.c_size_t(size))
    lines += text.value.decode().splitlines()
