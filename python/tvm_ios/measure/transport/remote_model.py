# SPDX-License-Identifier: Apache-2.0
"""Timing of whole models in a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import tvm
from tvm import relax

from ...support.errors import DeviceError, ModelError
from ...support.folders import TemporaryFolder
from ..timing.models import Timers, window_timers
from .pool import AnyRunnerPool
from .session import RemoteSession

T = TypeVar("T")

Timer = Callable[[], float]


class Variant(NamedTuple):
    """A variant of a model: a function of a library."""

    library: Path
    function: str


def on_cpu(session: RemoteSession) -> list[tvm.runtime.Device]:
    """Return the CPU of a session, as the devices of a model."""
    return [session.connection.cpu()]


def as_it_is(timer: Timer) -> Timer:
    """Return the timer: nothing needs to be done before it."""
    return timer


def unchanged(_session: RemoteSession, _error: RuntimeError) -> None:
    """Do nothing about an error that a session has answered."""


@dataclass(frozen=True)
class RemoteVariants:
    """Variants of one function, run on a device of a session.

    Attributes
    ----------
    variants : mapping of str to Variant
        The variants by name.
    folder : TemporaryFolder
        Has their libraries.
    inputs : sequence of tensors
        What they are timed on.
    pool : RunnerPool
        Its stage runners have a session.
    devices : callable
        Returns the devices of a model; the first one computes.
    warmed : callable
        Returns a timer that brings the device to its speed first.
    give_up : callable
        Is told of an error that a session has answered, and may raise another one.
    """

    variants: Mapping[str, Variant]
    folder: TemporaryFolder
    inputs: Sequence[tvm.runtime.Tensor]
    pool: AnyRunnerPool
    devices: Callable[[RemoteSession], list[tvm.runtime.Device]] = on_cpu
    warmed: Callable[[Timer], Timer] = as_it_is
    give_up: Callable[[RemoteSession, RuntimeError], None] = unchanged

    def __post_init__(self) -> None:
        if any(isinstance(value, tuple) for value in self.inputs):
            raise ModelError(
                "A tuple cannot be sent to a device; give the model tensors as inputs."
            )

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

        def job(runner: Any, _item: None) -> T:  # of a stage runner in another process
            runner.prepare()
            try:
                return work(runner.session)
            except RuntimeError as error:
                self.give_up(runner.session, error)
                raise

        self.pool.each([None], job, lambda _, result: results.append(result))
        result = results[0]
        if result is None:
            raise DeviceError(
                "The whole model crashed on two devices, though its stages did not; compile it "
                "with --no-search and run it on one to see why."
            )
        return result

    def _timers(self, session: RemoteSession) -> Timers:
        machines = {name: self._load(session, name) for name in self.variants}
        device = self.devices(session)[0]
        for name, machine in machines.items():
            self._set_inputs(session, machine, name, self.inputs)

        def timer_of(name: str, number: int) -> Timer:
            evaluate = machines[name].time_evaluator(
                "invoke_stateful", device, number=number, repeat=1
            )
            function = self.variants[name].function
            return self.warmed(lambda: session.watched(lambda: evaluate(function).results[0]))

        return window_timers(list(self.variants), timer_of)

    def _run(self, session: RemoteSession, name: str, arguments: Sequence[Any]) -> Any:
        machine, function = self._load(session, name), self.variants[name].function
        self._set_inputs(session, machine, name, arguments)
        session.watched(lambda: machine.invoke_stateful(function))
        return _here(session.watched(lambda: machine.get_outputs(function)))

    def _load(self, session: RemoteSession, name: str) -> relax.VirtualMachine:
        library = self.variants[name].library
        # A session keeps what it has loaded by name; other variants have a folder of their own.
        module = session.load_file(str(library), f"{library.parent.name}-{library.name}")
        return session.watched(lambda: relax.VirtualMachine(module, self.devices(session)))

    def _set_inputs(
        self,
        session: RemoteSession,
        machine: relax.VirtualMachine,
        name: str,
        inputs: Sequence[Any],
    ) -> None:
        device, function = self.devices(session)[0], self.variants[name].function

        def send(value: Any) -> tvm.runtime.Tensor:
            return session.watched(lambda: tvm.runtime.tensor(value.numpy(), device))

        sent = [send(value) for value in inputs]
        session.watched(lambda: machine.set_input(function, *sent))


def _here(outputs: Any) -> Any:
    """Copy outputs of a device to tensors of this process."""
    if isinstance(outputs, tuple):
        return tuple(map(_here, outputs))
    return tvm.runtime.tensor(outputs.numpy())
