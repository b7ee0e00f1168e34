# SPDX-License-Identifier: Apache-2.0
"""The profile of a run: work, waiting, and how much longer kernels take than alone."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..lowering.implementation import Implementation
from ..lowering.kernel import Kernel
from ..schedule.timeline import Timeline
from .protocol import AnyStageRunner
from .timing.stages import sensible
from .transport.pool import AnyRunnerPool

Computed = tuple[int, ...]
"""The operators that a kernel computes."""


@dataclass(frozen=True)
class StageProfile:
    """What the workers did in a stage.

    Attributes
    ----------
    seconds : float
        From the start of its first kernel to the end of its last one.
    busy : float
        Seconds in which workers ran kernels, of all workers together.
    waiting : float
        Seconds in which workers waited for its kernels, of all workers together.
    alone : float
        Seconds of the same kernels on one worker, one after another, with cold weights.
    moved_bytes : int
        The size of the tensors that its kernels read and write.
    """

    seconds: float
    busy: float
    waiting: float
    alone: float
    moved_bytes: int

    @property
    def busy_over_alone(self) -> float:
        """How much longer its kernels took than alone, as a ratio."""
        return self.busy / self.alone if self.alone else math.nan


@dataclass(frozen=True)
class NetworkProfile:
    """What the workers did in a run of a whole network.

    Attributes
    ----------
    workers : int
    seconds : float
        Of the run.
    stages : mapping of int to StageProfile
        The stages that have kernels, by their number in the schedule.
    """

    workers: int
    seconds: float
    stages: Mapping[int, StageProfile]

    @cached_property
    def busy_over_alone(self) -> float:
        """How much longer the kernels took than alone, as a ratio."""
        alone = sum(stage.alone for stage in self.stages.values())
        return sum(stage.busy for stage in self.stages.values()) / alone if alone else math.nan

    @cached_property
    def waiting_share(self) -> float:
        """The share of the workers' time in which they waited for each other."""
        waiting = sum(stage.waiting for stage in self.stages.values())
        return waiting / (self.workers * self.seconds) if self.seconds else 0.0


def time_alone(
    pool: AnyRunnerPool, implementations: Sequence[Implementation[Kernel]], repeat: int
) -> dict[Computed, float]:
    """Return the least seconds of kernels on one worker, by the operators that they compute.

    They run one after another, with cold weights. A kernel without a possible time is left out.

    Parameters
    ----------
    pool : RunnerPool
        The runner pool.
    implementations : sequence of Implementation
        The kernels.
    repeat : int
        The number of runs.
    """
    pool.compile(i.kernel for i in implementations)
    found: dict[Computed, float] = {}

    def note(run: Sequence[Implementation[Kernel]], samples: list[list[float]] | None) -> None:
        for implementation, times in zip(run, samples or [], strict=bool(samples)):
            if times:
                found[implementation.operators] = min(times)

    def work(runner: AnyStageRunner, run: Sequence[Implementation[Kernel]]) -> list[list[float]]:
        timed = runner.time_alone(run, 1 + repeat).after(1)  # the first run warms up
        return [sensible(column) for column in timed.undisturbed().T]

    pool.each([implementations], work, note)
    return found


def profile(
    timeline: Timeline,
    alone: Mapping[Computed, float],
    moved_bytes: Mapping[Computed, int],
    workers: int,
) -> NetworkProfile:
    """Sum up a timeline.

    Parameters
    ----------
    timeline : Timeline
        A run.
    alone : mapping of operators to float
        Seconds of each kernel on one worker.
    moved_bytes : mapping of operators to int
        What each kernel reads and writes.
    workers : int
        The number of workers.
    """
    waiting: dict[int, float] = defaultdict(float)
    spans = timeline.spans
    for wait in timeline.waits:
        waiting[wait.cause.stage] += wait.end - wait.begin
    stages = {}
    for number in sorted({span.stage for span in spans}):
        own = [span for span in spans if span.stage == number]
        kernels = {span.operators for span in own}
        stages[number] = StageProfile(
            seconds=max(span.end for span in own) - min(span.begin for span in own),
            busy=sum(span.end - span.begin for span in own),
            waiting=waiting[number],
            alone=sum(alone.get(kernel, math.nan) for kernel in kernels),
            moved_bytes=sum(moved_bytes[kernel] for kernel in kernels),
        )
    return NetworkProfile(workers, max(span.end for span in spans), stages)
