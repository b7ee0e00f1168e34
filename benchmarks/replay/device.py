# SPDX-License-Identifier: Apache-2.0
"""A simulated device, which times stages whose true latencies are given."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np

from tvm_ios.lowering.implementation import Implementation
from tvm_ios.lowering.kernel import Kernel
from tvm_ios.lowering.replacements.find import Replacements
from tvm_ios.lowering.stages import AnyStage, AnyStageBuilder, Stage, StageBuilder
from tvm_ios.measure.protocol import TimedRuns
from tvm_ios.measure.timing.speed import MachineSpeed
from tvm_ios.schedule.timeline import Span

from .machine import Machine

T = TypeVar("T")
R = TypeVar("R")

_ARITHMETIC, _COPY = 50e-6, 200e-6  # seconds of the known work on the machine undisturbed
_COLD, _WARM_AFTER = 1.3, 1e-3  # stages that begin in the first millisecond take longer


class Latencies(Protocol):
    """The true latencies of a device."""

    def alone(self, kernel: Kernel) -> float:
        """Return the seconds of a kernel on one worker."""

    def stage(self, stage: AnyStage) -> Mapping[str, float]:
        """Return the seconds of a stage in each partitioning that it has."""


@dataclass(frozen=True)
class SimulatedStage(Stage[Kernel]):
    """A stage, and what it takes."""

    seconds: float


@dataclass
class SimulatedStageBuilder(StageBuilder[Kernel, SimulatedStage]):
    """The stages of another stage builder, with the partitionings that a device has.

    Attributes
    ----------
    original : StageBuilder
        The other builder.
    latencies : Latencies
        The device.
    """

    original: AnyStageBuilder = field(kw_only=True)
    latencies: Latencies = field(kw_only=True)

    @property
    def default_partitioning(self) -> str:
        return self.original.default_partitioning

    @property
    def cache_bytes(self) -> int:
        return self.original.cache_bytes

    @cached_property
    def replacements(self) -> Replacements[Kernel]:
        return self.original.replacements

    def partitionings(self, stage: AnyStage, costs: Mapping[Hashable, float]) -> tuple[str, ...]:
        try:
            return tuple(self.latencies.stage(stage))
        except Crash:  # which shows when it runs
            return (self.default_partitioning,)

    def partition(
        self, stage: AnyStage, partitioning: str, costs: Mapping[Hashable, float]
    ) -> SimulatedStage:
        seconds = self.latencies.stage(stage)[partitioning]
        return SimulatedStage(stage.implementations, stage.groups, stage.after, seconds)

    def kernels(self, stage: AnyStage, costs: Mapping[Hashable, float]) -> Iterable[Kernel]:
        return []

    def max_saving(
        self,
        stage: AnyStage,
        serial: Mapping[Hashable, float],
        costs: Mapping[Hashable, float],
    ) -> float:
        return self.original.max_saving(stage, serial, costs)


Readings = Callable[[TimedRuns], TimedRuns]
"""What a wrong clock makes of timed runs."""


class SimulatedRunner:
    """A runner on a simulated machine.

    Parameters
    ----------
    machine : Machine
        The machine, whose time passes.
    latencies : Latencies
        The device.
    readings : callable, optional
        A wrong clock.
    """

    def __init__(
        self, machine: Machine, latencies: Latencies, readings: Readings | None = None
    ) -> None:
        self._machine, self._latencies = machine, latencies
        self._readings = readings or (lambda runs: runs)

    def prepare(self) -> None:
        """Do nothing: there is nothing to load."""

    def time_alone(
        self, implementations: Sequence[Implementation[Kernel]], repeat: int
    ) -> TimedRuns:
        return self._time([self._latencies.alone(i.kernel) for i in implementations], repeat)

    def time(self, stages: Sequence[SimulatedStage], repeat: int) -> TimedRuns:
        return self._time([stage.seconds for stage in stages], repeat)

    def trace(self, stages: Sequence[SimulatedStage], repeat: int) -> list[Span]:
        raise AssertionError("there is nothing to look at")

    def _time(self, stages: Sequence[float], repeat: int) -> TimedRuns:
        true = np.array(stages, "float64")
        cold = np.where(np.cumsum(true) - true < _WARM_AFTER, _COLD * true, true)
        first = self._known(_COPY)
        seconds, preempted, arithmetic = [], [], []
        for run in range(repeat):
            before = self._known(_ARITHMETIC)
            taken, interrupted = self._machine.work(true if run else cold)
            seconds.append(taken)
            preempted.append(interrupted)
            arithmetic.append([before, self._known(_ARITHMETIC)])
        copies = np.array([first, self._known(_COPY)])
        return self._readings(
            TimedRuns(np.array(seconds), np.array(preempted), np.array(arithmetic), copies)
        )

    def _known(self, seconds: float) -> float:
        """Return the seconds of a piece of known work."""
        return float(self._machine.work(np.array([seconds]))[0][0])


class Crash(Exception):
    """What latencies raise for a stage that crashes when it runs."""


class SimulatedPool:
    """The pool of one simulated runner, in which a crash loses what runs at that time.

    Parameters
    ----------
    runner : SimulatedRunner
        The runner.
    """

    def __init__(self, runner: SimulatedRunner) -> None:
        self._runner = runner

    def compile(self, kernels: Iterable[Kernel]) -> None:
        """Do nothing: simulated kernels have no code."""

    def each(
        self,
        items: Sequence[T],
        work: Callable[[SimulatedRunner, T], R],
        done: Callable[[T, R | None], None],
    ) -> None:
        for item in items:
            try:
                result = work(self._runner, item)
            except Crash:
                done(item, None)
            else:
                done(item, result)

    def close(self) -> None:
        """Do nothing: this pool holds no resources."""


def simulated_speed(machine: Machine) -> MachineSpeed:
    """Return what judges the speed of a simulated machine, and waits in its time."""
    return MachineSpeed(sleep=machine.sleep)
