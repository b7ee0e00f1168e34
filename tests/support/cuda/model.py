# SPDX-License-Identifier: Apache-2.0
"""A process of its own for ``stage/test_stage.py``: a model on a fake of CUDA's libraries.

It compiles a network for CUDA, with some of its operators made a stage on two streams, runs it
in several ways, and prints as JSON what the driver was asked in each run.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

if __name__ == "__main__":
    # A torch that is built for CUDA would bring CUDA's own libraries in before the fakes.
    sys.modules["torch"] = None

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, te
from tvm.relax.backend.cuda import pipeline
from tvm.s_tir import dlight

import tvm_ios
from support.cuda.fake_driver import TARGET
from support.networks import constant, relax_module
from tvm_ios.measure.transport.session import LocalSession

SHAPE = (1, 8, 16, 16)
Stage = list[tuple[str, int]]
"""The kernels of a stage in the order of their launches, each with its stream."""


def _no_code(_source: str, *_options: object) -> bytes:
    return b"//the fake driver runs no code"


class Driver:
    """The fake driver, see ``tests/cuda/control.h``."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self._library.TvmIosStandInJournal.restype = ctypes.c_size_t

    @contextmanager
    def journal(self) -> Iterator[list[str]]:
        """What the driver is asked in a ``with``; there once that has ended."""
        lines: list[str] = []
        self._library.TvmIosStandInClear()
        yield lines
        size = self._library.TvmIosStandInJournal(None, ctypes.c_size_t(0))
        text = ctypes.create_string_buffer(size)
        self._library.TvmIosStandInJournal(text, ctypes.c_size_t(size))
        lines += text.value.decode().splitlines()


def network() -> tvm.IRModule:
    """Two chains: a convolution, and two one after another."""

    def body(emit, x):
        x = emit(relax.op.nn.relu(x))
        first = emit(relax.op.nn.conv2d(x, constant(8, 8, 3, 3), padding=1))
        second = emit(relax.op.nn.conv2d(x, constant(8, 8, 1, 1, seed=1)))
        third = emit(relax.op.nn.conv2d(emit(relax.op.tanh(second)), constant(4, 8, 5, 5, seed=2)))
        first = emit(relax.op.nn.max_pool2d(first, (5, 5)))
        both = emit(relax.op.concat([first, third], axis=1))
        return emit(relax.op.nn.softmax(both, axis=1))

    return relax_module(body, SHAPE)


def staged(mod: tvm.IRModule, stage: Stage) -> tvm.IRModule:
    """``mod``, lowered to calls of kernels, with those of the stage in one call."""
    main = mod["main"]
    (block,) = main.body.blocks
    calls = {b.value.args[0].name_hint: b for b in block.bindings if _calls_kernel(b)}
    members = [calls[name] for name, _ in stage]
    tensors = _tensors(members)
    program = [1 + max(stream for _, stream in stage), 0]
    for index, (binding, (_, stream)) in enumerate(zip(members, stage, strict=True)):
        used = [*binding.value.args[1], binding.var]
        places = [next(i for i, t in enumerate(tensors) if t.same_as(u)) for u in used]
        program += [index, stream, 0, len(places), *places]
    outputs = [binding.var for binding in members]
    inputs = tensors[: len(tensors) - len(outputs)]
    kernels = [binding.value.args[0] for binding in members]
    call = relax.call_dps_packed(
        "tvm_ios.runtime.cuda.RunStage",
        relax.Tuple([relax.ShapeExpr(program), *kernels, *inputs]),
        out_ty=[output.ty for output in outputs],
    )
    results = relax.DataflowVar("stage", relax.TupleType([output.ty for output in outputs]))
    bindings: list[relax.Binding] = []
    last = [b for b in block.bindings if any(b.same_as(member) for member in members)][-1]
    for binding in block.bindings:
        if not any(binding.same_as(member) for member in members):
            bindings.append(binding)
        elif binding.same_as(last):
            bindings.append(relax.VarBinding(results, call))
            for i, output in enumerate(outputs):
                bindings.append(relax.VarBinding(output, relax.TupleGetItem(results, i)))
    body = relax.SeqExpr([relax.DataflowBlock(bindings)], main.body.body)
    mod = mod.clone()
    mod["main"] = relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs)
    return relax.transform.Normalize()(mod)


def _calls_kernel(binding: relax.Binding) -> bool:
    call_tir = tvm.ir.Op.get("relax.call_tir")
    return isinstance(binding.value, relax.Call) and binding.value.op.same_as(call_tir)


def _tensors(members: list[relax.Binding]) -> list[relax.Expr]:
    """What the kernels read from outside of the stage, then what they write."""
    outputs = [binding.var for binding in members]
    inputs: list[relax.Expr] = []
    for binding in members:
        for tensor in binding.value.args[1]:
            if not any(tensor.same_as(known) for known in (*inputs, *outputs)):
                inputs.append(tensor)
    return [*inputs, *outputs]


def compile_network(stage: Stage, cuda_graph: bool) -> relax.VirtualMachine:
    """The network on device 0, with the stage."""
    config = {"relax.backend.use_cuda_graph": cuda_graph}
    with TARGET, tvm.transform.PassContext(config=config):
        passes = pipeline.library_dispatch_passes(TARGET) + pipeline.legalize_passes(TARGET)
        mod = staged(tvm.transform.Sequential(passes)(network()), stage)
        rest = pipeline.dataflow_lower_passes(TARGET) + pipeline.finalize_passes(TARGET)
        executable = tvm.compile(mod, target=TARGET, relax_pipeline=tvm.transform.Sequential(rest))
    return relax.VirtualMachine(executable, tvm.cuda(0))


Run = Callable[[], list[str]]
"""Runs a model once, on an image at an address of its own; gives the driver's journal."""


def runner(driver: Driver, cuda_graph: bool, stage: Stage) -> Run:
    """The network with a stage, compiled."""
    machine = compile_network(stage, cuda_graph)

    def run() -> list[str]:
        image = tvm.runtime.tensor(np.ones(SHAPE, "float32"), tvm.cuda(0))
        with driver.journal() as journal:
            machine["main"](image)
        return journal

    return run


@contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    """A variable that the fake driver reads, within a ``with``."""
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]


def refusal(call: Callable[[], object]) -> str:
    """The error of the user that a call ends in."""
    try:
        call()
    except tvm_ios.TvmIosError as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("nothing was refused")


def driver_refusals() -> dict[str, str]:
    """What is said of drivers that are of no use; afterwards the driver is one that is."""
    describe = tvm_ffi.get_global_func("tvm_ios.runtime.cuda.Describe")
    with environment("TVM_IOS_FAKE_DRIVER_DEVICES", "0"):
        no_device = refusal(lambda: describe(0))
    with environment("TVM_IOS_FAKE_DRIVER_VERSION", "11080"):
        old = refusal(lambda: describe(0))
    return {"no_device": no_device, "old": old, "number": refusal(lambda: describe(7))}


def time_stage() -> list[float]:
    """Seconds of a stage of two streams; on the fake driver a launch takes a millisecond."""
    placeholder = te.placeholder((64,), "float32")
    add = te.create_prim_func([placeholder, te.compute((64,), lambda i: placeholder[i] + 1)])
    with TARGET:
        mod = tvm.IRModule({"add": add.with_attr("global_symbol", "add")})
        mod = dlight.ApplyDefaultSchedule(dlight.gpu.Fallback())(mod)
    module = tvm.compile(mod, TARGET).mod
    session = LocalSession()
    runner = session.call("cuda.NewStageRunner", 0)
    memory = session.call("cuda.AddMemory", runner, 4 * 256)
    specs = np.array([2, 32, 1, 64] * 2, "int64")  # two tensors of 64 floats
    assert session.call("cuda.AddKernel", runner, module, "add", specs.tobytes()) == 0
    between = [(0, 1), (0, 2), (2, 3)]  # which of the memory's four tensors are read and written
    calls = [
        (0, stream, 0, memory, 256 * read, memory, 256 * written)
        for stream, (read, written) in zip((0, 1, 0), between, strict=True)
    ]
    run = [2, 3, *(number for call in calls for number in call)]
    runs = np.array(run * 5, "int64").tobytes()
    seconds = session.call("cuda.TimeOnRunner", runner, runs, 3, -1, 0.0)
    return np.frombuffer(seconds, "float64").tolist()


def main() -> None:
    """Print what happened."""
    # What is asked of the driver matters here, not what is computed.
    tvm_ffi.register_global_func("tvm_callback_cuda_compile", _no_code, override=True)
    stages: list[Stage] = json.loads(sys.argv[1])
    driver = Driver()
    result: dict[str, object] = {"refusals": driver_refusals()}
    on_streams = runner(driver, cuda_graph=False, stage=stages[0])
    with environment("TVM_IOS_FAKE_DRIVER_FAIL", "cuStreamCreate:1:2"):
        result["out_of_memory"] = refusal(on_streams)
    result["streams"] = [on_streams() for _ in range(3)]
    in_graphs = [runner(driver, cuda_graph=True, stage=stage) for stage in stages]
    result["graphs"] = [[run() for run in in_graphs] for _ in range(3)]
    result["seconds"] = time_stage()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
