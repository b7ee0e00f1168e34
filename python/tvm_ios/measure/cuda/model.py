# SPDX-License-Identifier: Apache-2.0
"""Whole models on a CUDA device timed against each other, with and without a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import tvm
from tvm import relax

from ...device_errors import device_errors
from ...lower.cuda.toolchain import cuda_compiler
from ...peers.gpu import Peer
from ..model import finish_pipeline, median_rounds

UNGRAPHED = "launched"
"""The sequential way, kernel by kernel, not captured in a graph."""
_SEQUENTIAL = "sequential"


class CudaWays:
    """One function lowered in several ways and compiled, each captured as one CUDA graph.

    Parameters
    ----------
    mod : tvm.IRModule
        Holds a function for each way; equal kernels of theirs are one.
    names : sequence of str
        The functions. Where one of them is ``sequential``, it is also timed without a graph.
    inputs : sequence of tensors
        What the ways are timed with.
    target : tvm.target.Target
    device_id : int
    """

    def __init__(
        self,
        mod: tvm.IRModule,
        names: Sequence[str],
        inputs: Sequence[tvm.runtime.Tensor | tuple],
        target: tvm.target.Target,
        device_id: int,
    ) -> None:
        self._device = tvm.cuda(device_id)
        self._names = list(names)
        with device_errors(device_id):
            self._arguments = [_moved(value, self._device) for value in inputs]
        self._vm = self._machine(mod, target, graph=True)
        self._plain = self._machine(mod, target, graph=False) if _SEQUENTIAL in names else None

    def seconds(self, peers: Mapping[str, Peer] = MappingProxyType({})) -> dict[str, float]:
        """Median seconds of each way and of each of ``peers``, in interleaved rounds."""
        names = self._names if self._plain is None else [*self._names, UNGRAPHED]

        def timer(name: str, number: int) -> Callable[[], float]:
            return peers[name].timer(number) if name in peers else self._timer(name, number)

        with device_errors(self._device.index):
            return median_rounds([*names, *peers], timer)

    def __call__(self, name: str, arguments: Sequence[tvm.runtime.Tensor | tuple]) -> Any:
        with device_errors(self._device.index):
            return self._vm[name](*(_moved(value, self._device) for value in arguments))

    def _machine(
        self, mod: tvm.IRModule, target: tvm.target.Target, *, graph: bool
    ) -> relax.VirtualMachine:
        pipeline = finish_pipeline(target, graph=graph)
        with target, cuda_compiler():
            executable = tvm.compile(mod, target, relax_pipeline=pipeline)
        return relax.VirtualMachine(executable, [self._device, tvm.cpu()])

    def _timer(self, name: str, number: int) -> Callable[[], float]:
        machine, function = (self._plain, _SEQUENTIAL) if name == UNGRAPHED else (self._vm, name)
        timer = machine.time_evaluator(function, self._device, number=number, repeat=1)
        return lambda: timer(*self._arguments).results[0]


def _moved(value: tvm.runtime.Tensor | tuple, device: tvm.runtime.Device) -> Any:
    if isinstance(value, tuple):
        return tuple(_moved(item, device) for item in value)
    return tvm.runtime.tensor(value.numpy(), device)
