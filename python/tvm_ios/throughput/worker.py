# SPDX-License-Identifier: Apache-2.0
"""The process of one system: it loads a model, then answers how many calls it made in a while.

It is started as a file, ``python worker.py REQUEST``, so that nothing of the compiler is in its
memory. REQUEST and the lines that it reads are the JSON of :mod:`.contest`, and so are those that
it prints. It ends when standard input does.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TextIO

import numpy as np

Arrays = Sequence[np.ndarray]
"""The inputs of a call, in the order of the model."""
_SENTENCE = 200  # characters


class System(Protocol):
    """A model that is ready to run."""

    def outputs(self, batch: int) -> list[np.ndarray]:
        """Run once."""

    def burst(self, callers: int, batch: int, seconds: float) -> tuple[list[float], float]:
        """Return the latencies of the calls that begin within a time, and when all had ended."""


class _Called:
    """A model that threads call."""

    def __init__(self, calls: Mapping[int, Callable[[], Sequence[Any]]]) -> None:
        self._calls = calls
        self._longest = dict.fromkeys(calls, 0.0)  # seconds of a call

    def outputs(self, batch: int) -> list[np.ndarray]:
        return [np.array(array) for array in self._calls[batch]()]

    def burst(self, callers: int, batch: int, seconds: float) -> tuple[list[float], float]:
        call, ready, began = self._calls[batch], threading.Barrier(callers), [0.0]
        warms = self._longest[batch] < seconds  # a longer call needs no other one before it

        def repeat(_number: int) -> list[float]:
            if warms:
                call()
            if ready.wait() == 0:
                began[0] = time.perf_counter()
            ready.wait()
            latencies: list[float] = []
            before = began[0]
            while before < began[0] + seconds or not latencies:
                call()
                after = time.perf_counter()
                latencies.append(after - before)
                before = after
            return latencies

        with ThreadPoolExecutor(callers) as threads:
            latencies = [t for times in threads.map(repeat, range(callers)) for t in times]
        self._longest[batch] = max(latencies)
        return latencies, time.perf_counter() - began[0]


class _Queued:
    """A model whose queue of requests is kept full."""

    def __init__(self, queues: Mapping[int, Any]) -> None:
        self._queues = queues

    def outputs(self, batch: int) -> list[np.ndarray]:
        request = self._queues[batch][0]
        request.infer()
        return [np.array(tensor.data) for tensor in request.output_tensors]

    def burst(self, _callers: int, batch: int, seconds: float) -> tuple[list[float], float]:
        queue = self._queues[batch]
        latencies: list[float] = []
        queue.set_callback(lambda request, _: latencies.append(request.latency / 1e3))
        for _ in range(len(queue)):
            queue.start_async()
        queue.wait_all()
        latencies.clear()
        began = time.perf_counter()
        while time.perf_counter() < began + seconds:
            queue.start_async()
        queue.wait_all()
        return latencies, time.perf_counter() - began


def _ours(model: str, _threads: int, inputs: Mapping[int, Arrays]) -> System:
    """Load a library as it is deployed, by the runtime alone."""
    from tvm_ios_env.torchless import torch_hidden

    with torch_hidden():
        import tvm_ios_runtime

    loaded = tvm_ios_runtime.load(model)

    def call(arrays: Arrays) -> Callable[[], Sequence[Any]]:
        placed = []
        for array in arrays:
            placed.append(tvm_ios_runtime.empty(array.shape, array.dtype))
            placed[-1][...] = array
        return lambda: loaded(*placed)

    return _Called({batch: call(arrays) for batch, arrays in inputs.items()})


def _onnx_runtime(model: str, threads: int, inputs: Mapping[int, Arrays]) -> System:
    """Create a session that any number of threads may call."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [known.name for known in session.get_inputs()]

    def call(arrays: Arrays) -> Callable[[], Sequence[Any]]:
        given = dict(zip(names, arrays, strict=True))
        return lambda: session.run(None, given)

    return _Called({batch: call(arrays) for batch, arrays in inputs.items()})


def _openvino(model: str, threads: int, inputs: Mapping[int, Arrays]) -> System:
    """Compile the model for each batch, with OpenVINO's hint for throughput."""
    import openvino

    settings = {
        "PERFORMANCE_HINT": "THROUGHPUT",
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
    }

    def queue(arrays: Arrays) -> Any:
        core = openvino.Core()
        network = core.read_model(model)
        network.reshape({i: list(array.shape) for i, array in enumerate(arrays)})
        requests = openvino.AsyncInferQueue(core.compile_model(network, "CPU", settings))
        for request in requests:
            for number, array in enumerate(arrays):
                request.set_input_tensor(number, openvino.Tensor(array))
        return requests

    return _Queued({batch: queue(arrays) for batch, arrays in inputs.items()})


_SYSTEMS = {"tvm_ios": _ours, "onnxruntime": _onnx_runtime, "openvino": _openvino}


def main() -> None:
    """Serve."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who has started it says when to end
    channel = _private_stdout()
    request = json.loads(sys.argv[1])
    try:
        system = _prepared(request)
    except Exception as error:  # whatever a package raises is its answer
        _say(channel, {"error": _sentence(error)})
        return
    _say(channel, {})
    for line in sys.stdin:
        try:
            _say(channel, _turn(system, **json.loads(line)))
        except Exception as error:
            _say(channel, {"error": _sentence(error)})


def _prepared(request: Mapping[str, Any]) -> System:
    """Load the model, run it once at each batch and save what it computed."""
    inputs = {}
    for batch, file in request["inputs"].items():
        with np.load(file) as arrays:
            inputs[int(batch)] = [arrays[name] for name in arrays.files]
    system = _SYSTEMS[request["system"]](request["model"], request["threads"], inputs)
    for batch in inputs:
        np.savez(request["outputs"][str(batch)], *system.outputs(batch))
    return system


def _turn(system: System, callers: int, batch: int, seconds: float) -> dict[str, float]:
    gc.collect()
    gc.disable()
    latencies, elapsed = system.burst(callers, batch, seconds)
    gc.enable()
    return {
        "samples_per_s": batch * len(latencies) / elapsed,
        "latency_s": statistics.median(latencies),
    }


def _private_stdout() -> TextIO:
    """Standard output for us alone: what a package prints goes to standard error."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return channel


def _say(channel: TextIO, message: Mapping[str, Any]) -> None:
    print(json.dumps(message), file=channel, flush=True)


def _sentence(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed"
    text = " ".join(str(error).split())[:_SENTENCE]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


if __name__ == "__main__":
    main()
