# SPDX-License-Identifier: Apache-2.0
"""Who is timed, and how each of them loads a network.

What a function loads may be called by several threads at once, each of which asks for a
:class:`~peer.contender.Runner` of its own. Packages are imported where they are used, so that
nothing of one runtime is in the process of another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from peer.contender import CONTENDERS, Runner, Task

OWN = "ours"

Program = Callable[[], Runner]
"""What gives each caller its runner."""


@dataclass(frozen=True)
class Runtime:
    """An entry of the benchmark.

    Attributes
    ----------
    title : str
        The column of tables. Entries with the same one are settings of one system, of which the
        best counts.
    contender : str
        The contender of ``peers.py`` that has the same packages.
    load : callable
        Makes the program of a task.
    settings : str
        How it is set up, for the record.
    """

    title: str
    contender: str
    load: Callable[[Task], Program]
    settings: str

    @property
    def torch(self) -> bool:
        """Whether torch can be imported in its process, see :mod:`peer.without_torch`."""
        return CONTENDERS[self.contender].torch


def _ours(task: Task) -> Program:
    from peer.ours import prepare

    runner = prepare(task)
    return lambda: runner


def _sequential(task: Task) -> Program:
    from peer.onnx_runtime import prepare

    runner = prepare(task)
    return lambda: runner


def _parallel(task: Task) -> Program:
    return _session(task, parallel=True, spin=True)


def _sleeping(task: Task) -> Program:
    return _session(task, parallel=False, spin=False)


def _session(task: Task, *, parallel: bool, spin: bool) -> Program:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = task.threads
    if parallel:
        options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
        options.inter_op_num_threads = task.threads
    for pool in ("intra_op", "inter_op"):
        options.add_session_config_entry(f"session.{pool}.allow_spinning", str(int(spin)))
    session = onnxruntime.InferenceSession(task.model, options, ["CPUExecutionProvider"])
    runner = Runner(lambda: session.run(None, task.inputs), list)
    return lambda: runner


def _open_vino(task: Task) -> Program:
    """Compile the network once; a request serves one caller."""
    import openvino

    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": task.threads,
        "INFERENCE_PRECISION_HINT": "f32",  # not bf16, where the CPU has it
    }
    compiled = openvino.Core().compile_model(task.model, "CPU", settings)

    def runner() -> Runner:
        request = compiled.create_infer_request()
        for name, array in task.inputs.items():
            request.set_tensor(name, openvino.Tensor(array))
        return Runner(
            lambda: request.infer(share_outputs=True),  # nobody else copies outputs
            lambda result: [np.array(value) for value in result.values()],
        )

    return runner


RUNTIMES = {
    OWN: Runtime(OWN, "sequential", _ours, "a library of tvm-ios compile, run by tvm_ios_runtime"),
    "onnxruntime": Runtime(
        "ONNX Runtime", "onnxruntime", _sequential, CONTENDERS["onnxruntime"].settings
    ),
    "onnxruntime_parallel": Runtime(
        "ONNX Runtime",
        "onnxruntime",
        _parallel,
        "the same with parallel execution, inter_op_num_threads as intra_op_num_threads",
    ),
    "onnxruntime_sleeping": Runtime(
        "ONNX Runtime",
        "onnxruntime",
        _sleeping,
        "the same with sequential execution, without spinning",
    ),
    "openvino": Runtime("OpenVINO", "openvino", _open_vino, CONTENDERS["openvino"].settings),
}
DEFAULT = (OWN, "onnxruntime", "onnxruntime_parallel", "openvino")
TITLES = tuple(dict.fromkeys(runtime.title for runtime in RUNTIMES.values()))
