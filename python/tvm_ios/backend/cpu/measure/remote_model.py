# SPDX-License-Identifier: Apache-2.0
"""Timing of whole models on a remote device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import tvm
from tvm import relax

from ....measure.model import Timers, window_timers
from ....measure.pool import AnyRunnerPool
from ....measure.session import RemoteSession
from ....measure.stage_runner import AnyStageRunner
from ....support.errors import DeviceError, ModelError
from ....support.folders import TemporaryFolder
from ...shared.export import export
from .runner import CpuStageRunner

T = TypeVar("T")

_NAME = "models.so"


@dataclass(frozen=True)
class RemoteVariants:
    """One function, compiled in several variants and run on a device."""

    _folder: TemporaryFolder
    _names: Sequence[str]
    _inputs: Sequence[tvm.runtime.Tensor]
    _pool: AnyRunnerPool

    @classmethod
    def compile(
        cls,
        mod: tvm.IRModule,
        names: Sequence[str],
        inputs: Sequence[tvm.runtime.Tensor | tuple[Any, ...]],
        target: tvm.target.Target,
        pool: AnyRunnerPool,
        compiler: str | None,
    ) -> RemoteVariants:
        """Compile the variants into a library for the device.

        The module, the names of its functions and their inputs are what
        :meth:`tvm_ios.backend.base.Backend.compile` is given.

        Parameters
        ----------
        target : tvm.target.Target
            The target of the code.
        pool : RunnerPool
            The runner pool.
        compiler : str, optional
            The linker of code for the device.

        Raises
        ------
        ModelError
            If an input is a tuple, which cannot be sent.
        """
        if any(isinstance(value, tuple) for value in inputs):
            raise ModelError(
                "A tuple cannot be sent to a device; give the model tensors as inputs."
            )
        folder = TemporaryFolder()
        executable = tvm.compile(mod, target, relax_pipeline=relax.get_default_pipeline(target))
        export(executable, folder.path / _NAME, compiler)
        return cls(folder, names, inputs, pool)

    def time(self, work: Callable[[Timers], T]) -> T:
        """Call ``work`` with the timers of the variants on a device; again if that is lost."""
        return self._on_device(lambda session: work(self._timers(session)))

    def __call__(self, name: str, arguments: Sequence[tvm.runtime.Tensor | tuple[Any, ...]]) -> Any:
        """Run one variant on the device and return its results."""
        return self._on_device(lambda session: self._run(session, name, arguments))

    def shared_rounds(self) -> None:
        """Return None: only these variants are timed."""

    def _on_device(self, work: Callable[[RemoteSession], T]) -> T:
        results: list[T | None] = []
        self._pool.each(
            [None],
            lambda device, _: work(_session(device)),
            lambda _, result: results.append(result),
        )
        result = results[0]
        if result is None:
            raise DeviceError(
                "The whole model crashed on two devices, though its stages did not; compile it "
                "with --no-search and run it on one to see why."
            )
        return result

    def _timers(self, session: RemoteSession) -> Timers:
        vm = self._load(session)
        device = session.connection.cpu()
        for name in self._names:
            self._set_inputs(session, vm, name, self._inputs)

        def timer_of(name: str, number: int) -> Callable[[], float]:
            timer = vm.time_evaluator("invoke_stateful", device, number=number, repeat=1)
            return lambda: session.watched(lambda: timer(name).results[0])

        return window_timers(self._names, timer_of)

    def _run(self, session: RemoteSession, name: str, arguments: Sequence[Any]) -> Any:
        vm = self._load(session)
        self._set_inputs(session, vm, name, arguments)
        session.watched(lambda: vm.invoke_stateful(name))
        return _here(session.watched(lambda: vm.get_outputs(name)))

    def _load(self, session: RemoteSession) -> relax.VirtualMachine:
        module = session.load_file(str(self._folder.path / _NAME), _NAME)
        return session.watched(lambda: relax.VirtualMachine(module, session.connection.cpu()))

    def _set_inputs(
        self, session: RemoteSession, vm: relax.VirtualMachine, name: str, inputs: Sequence[Any]
    ) -> None:
        device = session.connection.cpu()

        def send(value: Any) -> tvm.runtime.Tensor:
            return session.watched(lambda: tvm.runtime.tensor(value.numpy(), device))

        sent = [send(value) for value in inputs]
        session.watched(lambda: vm.set_input(name, *sent))


def _here(outputs: Any) -> Any:
    """Copy outputs of a device to tensors of this process."""
    if isinstance(outputs, tuple):
        return tuple(map(_here, outputs))
    return tvm.runtime.tensor(outputs.numpy())


def _session(device: AnyStageRunner) -> RemoteSession:
    assert isinstance(device, CpuStageRunner), "a CPU's stages run on a CPU's devices"
    assert isinstance(device.session, RemoteSession), "the device is remote"
    return device.session
