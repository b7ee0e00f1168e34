# SPDX-License-Identifier: Apache-2.0
"""A network run by PyTorch: compiled, or by its own kernels in one CUDA graph."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..frontend.importing import captured
from ..support.text import first_line
from .contenders import NAMES, Peers
from .torch_module import torch_module

_WARM_UP = 3  # runs, after which cuDNN has chosen, and nothing is allocated any more

_NARROW = {"fp16": torch.float16, "bf16": torch.bfloat16}

Run = Callable[[], Any]


@dataclass(frozen=True)
class TorchRun:
    """A network, ready to run on inputs that are on its device.

    Attributes
    ----------
    device : torch.device
    run : callable
        One inference, which may still be under way when it returns; its outputs.
    """

    device: torch.device
    run: Run

    def outputs(self) -> list[np.ndarray]:
        """Return the outputs of one run, as float64."""
        return [tensor.double().cpu().numpy() for tensor in _leaves(self.run())]

    def timer(self, number: int) -> Callable[[], float]:
        """Return a function that runs the network several times and returns the seconds per run."""
        return lambda: self._seconds(number)

    def run_once(self) -> None:
        """Run one inference, and wait for its end."""
        self.run()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _seconds(self, number: int) -> float:
        if self.device.type != "cuda":
            begin = time.perf_counter()
            for _ in range(number):
                self.run()
            return (time.perf_counter() - begin) / number
        with torch.cuda.device(self.device):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(number):
                self.run()
            end.record()
            end.synchronize()
            return begin.elapsed_time(end) / 1e3 / number


def torch_runs(
    model: str,
    batch: int | None,
    inputs: Sequence[np.ndarray],
    device: torch.device,
    precision: str,
    trust: bool = False,
    names: Sequence[str] = NAMES,
) -> Peers:
    """Get PyTorch ready, channels last, in some of its ways; autotuning takes minutes.

    Parameters
    ----------
    model, batch
        As for :func:`~tvm_ios.baselines.torch_module.torch_module`.
    inputs : sequence of ndarray
    device : torch.device
        On one that is no GPU nothing is captured in a graph; that is for trying this out.
    precision : str
        As :class:`tvm_ios.options.Options` has it; PyTorch computes in the same.
    trust : bool
        As for :func:`~tvm_ios.baselines.torch_module.torch_module`.
    names : sequence of str
        Of the ways.
    """
    found = Peers()
    tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True
    try:
        with captured():
            module = (
                torch_module(model, batch, trust).to(device).to(memory_format=torch.channels_last)
            )
        dtype = _NARROW.get(precision, torch.float32)
        module = module.to(dtype)  # what is floating-point of it
        tensors = [_placed(array, device, dtype) for array in inputs]
    except Exception as error:  # what converting and copying raise is not one type
        found.left_out = dict.fromkeys(names, first_line(error))
        return found
    for name in names:
        try:
            with torch.no_grad(), captured():
                found.ready[name] = TorchRun(device, _WAYS[name](module, tensors, device))
                found.ready[name].outputs()  # which compiles
        except Exception as error:  # nor is what a compiler raises
            found.ready.pop(name, None)
            found.left_out[name] = first_line(error)
    return found


def _placed(array: np.ndarray, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    tensor = torch.from_numpy(array).to(device)
    tensor = tensor.to(dtype) if tensor.is_floating_point() else tensor
    return tensor.to(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


def _tuned(module: torch.nn.Module, inputs: list[torch.Tensor], device: torch.device) -> Run:
    """Inductor with every kernel that it can try, in CUDA graphs of its own."""
    return _compiled(module, inputs, "max-autotune" if device.type == "cuda" else "default")


def _untuned(module: torch.nn.Module, inputs: list[torch.Tensor], device: torch.device) -> Run:
    """Inductor with the kernels that it expects to be fast, in CUDA graphs of its own."""
    return _compiled(module, inputs, "reduce-overhead" if device.type == "cuda" else "default")


def _compiled(module: torch.nn.Module, inputs: list[torch.Tensor], mode: str) -> Run:
    run = _run_of(torch.compile(module, mode=mode), inputs)
    for _ in range(_WARM_UP):
        run()
    return run


def _in_graph(module: torch.nn.Module, inputs: list[torch.Tensor], device: torch.device) -> Run:
    """PyTorch's own kernels and cuDNN's, which is left to choose, in one CUDA graph."""
    run = _run_of(module, inputs)
    return captured_in_graph(run, device) if device.type == "cuda" else run


def _eager(module: torch.nn.Module, inputs: list[torch.Tensor], _device: torch.device) -> Run:
    """The same kernels, launched one by one."""
    return _run_of(module, inputs)


def _run_of(module: Callable[..., Any], inputs: list[torch.Tensor]) -> Run:
    def run() -> Any:
        with torch.no_grad():
            return module(*inputs)

    return run


def captured_in_graph(run: Run, device: torch.device) -> Run:
    """Capture the work that ``run`` gives a GPU in a CUDA graph, and return what replays it."""
    with torch.cuda.device(device):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP):
                run()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = run()

    def replay() -> Any:
        graph.replay()
        return outputs

    return replay


_WAYS: dict[str, Callable[[torch.nn.Module, list[torch.Tensor], torch.device], Run]] = {
    "torch_cudnn": _in_graph,
    "torch_compile": _tuned,
    "torch_reduce_overhead": _untuned,
    "torch_eager": _eager,
}


def _leaves(result: Any) -> list[torch.Tensor]:
    """Yield the tensors of nested tuples and lists."""
    if isinstance(result, torch.Tensor):
        return [result]
    return [tensor for item in result for tensor in _leaves(item)]
