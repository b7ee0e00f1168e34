# SPDX-License-Identifier: Apache-2.0
"""Timing of whole models on a CUDA device, with and without a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import tvm
from tvm import relax

from ....measure.timing.models import Contender, Timers, Timing, window_timers
from ....support.errors import device_errors
from ..code.pipeline import finish_pipeline
from ..code.toolchain import compile_sources, cuda_compiler
from .clock import warm_clock
from .rounds import take_timings

T = TypeVar("T")

UNGRAPHED = "launched"
"""The sequential variant, launched kernel by kernel, not captured in a graph."""
SEQUENTIAL = "sequential"


@dataclass(frozen=True)
class CudaVariants:
    """One function, compiled in several variants, each captured as one CUDA graph."""

    _device: tvm.runtime.Device
    _names: Sequence[str]
    _arguments: Sequence[Any]
    _vm: relax.VirtualMachine
    _plain: relax.VirtualMachine | None  # without graphs

    @classmethod
    def compile(
        cls,
        mod: tvm.IRModule,
        names: Sequence[str],
        inputs: Sequence[tvm.runtime.Tensor | tuple[Any, ...]],
        target: tvm.target.Target,
        device_id: int,
    ) -> CudaVariants:
        """Compile the variants for a device; ``sequential`` is also timed without a graph.

        The module, the names of its functions and their inputs are what
        :meth:`tvm_ios.backend.base.Backend.compile` is given.

        Parameters
        ----------
        target : tvm.target.Target
            The CUDA device and its host.
        device_id : int
            The device.
        """
        device = tvm.cuda(device_id)
        with device_errors(device_id):
            arguments = [_moved(value, device) for value in inputs]
        vm = _machine(mod, target, device, graph=True)
        plain = _machine(mod, target, device, graph=False) if SEQUENTIAL in names else None
        return cls(device, names, arguments, vm, plain)

    def time(self, work: Callable[[Timers], T]) -> T:
        """Call ``work`` with the timers of the variants, and of the one without a graph.

        A timer runs its variant back to back, on a device whose clock is at its level under load.
        """
        clock = warm_clock(self._device.index)

        def warm_timer(name: str, number: int) -> Callable[[], float]:
            timer = self.timer(name, number)
            return lambda: clock.take(timer)[0]

        with device_errors(self._device.index):
            return work(window_timers(self._timed, warm_timer))

    def shared_rounds(self) -> CudaVariants:
        """Return itself: whatever runs on the device can be timed in the same rounds."""
        return self

    @property
    def discarded(self) -> int:
        """The number of samples that were taken while the device's clock was low."""
        return warm_clock(self._device.index).discarded

    def timings(self, others: Mapping[str, Contender]) -> dict[str, Timing]:
        """Time each variant and each of ``others`` in interleaved rounds.

        The device's clock is at its level under load in all of them, see :mod:`.clock`.
        """
        contenders = {**{name: _Variant(self, name) for name in self._timed}, **others}
        with device_errors(self._device.index):
            return take_timings(contenders, warm_clock(self._device.index))

    @property
    def _timed(self) -> Sequence[str]:
        return self._names if self._plain is None else [*self._names, UNGRAPHED]

    def __call__(self, name: str, arguments: Sequence[tvm.runtime.Tensor | tuple[Any, ...]]) -> Any:
        """Run one variant and return its results."""
        with device_errors(self._device.index):
            return self._vm[name](*(_moved(value, self._device) for value in arguments))

    def timer(self, name: str, number: int) -> Callable[[], float]:
        """Return a function that runs a variant ``number`` times and returns seconds per run."""
        machine, function = self._machine_of(name)
        timer = machine.time_evaluator(function, self._device, number=number, repeat=1)
        return lambda: timer(*self._arguments).results[0]

    def run_once(self, name: str) -> None:
        """Run a variant, and wait for its result."""
        machine, function = self._machine_of(name)
        result = machine[function](*self._arguments)
        self._device.sync()
        del result  # frees its memory for the next run

    def _machine_of(self, name: str) -> tuple[relax.VirtualMachine, str]:
        return (self._plain, SEQUENTIAL) if name == UNGRAPHED else (self._vm, name)


@dataclass(frozen=True)
class _Variant:
    """A variant as one of several contenders."""

    variants: CudaVariants
    name: str

    def timer(self, number: int) -> Callable[[], float]:
        return self.variants.timer(self.name, number)

    def run_once(self) -> None:
        self.variants.run_once(self.name)


def build_model(mod: tvm.IRModule, target: tvm.target.Target, *, graph: bool) -> relax.VMExecutable:
    """Compile the variants of a function, each captured as one CUDA graph or not at all."""
    pipeline = finish_pipeline(target, graph=graph)
    with target, cuda_compiler():
        executable = tvm.compile(mod, target, relax_pipeline=pipeline)
        compile_sources(executable.mod)
    return executable


def _machine(
    mod: tvm.IRModule, target: tvm.target.Target, device: tvm.runtime.Device, *, graph: bool
) -> relax.VirtualMachine:
    executable = build_model(mod, target, graph=graph)
    return relax.VirtualMachine(executable, [device, tvm.cpu()])


def _moved(value: tvm.runtime.Tensor | tuple[Any, ...], device: tvm.runtime.Device) -> Any:
    if isinstance(value, tuple):
        return tuple(_moved(item, device) for item in value)
    return tvm.runtime.tensor(value.numpy(), device)
