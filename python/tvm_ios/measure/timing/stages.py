# SPDX-License-Identifier: Apache-2.0
"""Timing of stages inside of the running network: how often, and with which work partitionings."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...lowering.implementation import Implementation
from ...lowering.kernel import Kernel
from ...lowering.stages import AnyStage, AnyStageBuilder
from ..protocol import AnyStageRunner
from .in_network_trial import InNetworkTrial
from .speed import MachineSpeed

Samples = dict[str, list[float]]
"""Seconds by work partitioning."""

_TOGETHER = 10e-3  # seconds that runs take that are timed together, if one is shorter
_LONG, _LEAD = 4e-3, 2e-3  # seconds of a run, and of its first stages, that warm up themselves
_MOST_RUNS = 8  # timed together
_ROUNDS, _REFINED_ROUNDS = 2, 4  # rounds in which a partitioning is timed
_ALONE = 4  # runs of the operators on one worker
_UNSURE, _SURE = 0.05, 0.005  # minimum relative errors: for few samples, and for any number
_FEW = 4
_NEWEST = 12  # samples that count: older ones are of other schedules around the stage
_HOPELESS = 1.15  # a partitioning slower than the best by this factor is not timed again


@dataclass
class StageTimer:
    """A timer of stages, for each partitioning of their work.

    Attributes
    ----------
    stage_builder : StageBuilder
        The stage builder.
    operator_seconds : mapping of kernel key to float
        Seconds of operators on one worker, on which work partitioning is based.
    speed : MachineSpeed
        The machine's speed.
    failed : callable
        Returns the work partitionings of a stage that failed.
    trying : dict of stage key to str
        The work partitioning that each stage was timed with last.
    """

    stage_builder: AnyStageBuilder
    operator_seconds: Mapping[Hashable, float]
    speed: MachineSpeed = field(default_factory=MachineSpeed)
    failed: Callable[[Hashable], Collection[str]] = lambda _key: ()
    trying: dict[Hashable, str] = field(default_factory=dict)

    def time_operators(
        self, runner: AnyStageRunner, implementations: Sequence[Implementation[Kernel]]
    ) -> list[list[float]]:
        """Return the seconds of each operator on one worker, after a warm-up run."""
        table = self.speed.steady(lambda: runner.time_alone(implementations, 1 + _ALONE))
        return [sensible(column) for column in table.T]

    def measure(
        self, runner: AnyStageRunner, trial: InNetworkTrial, known: Mapping[Hashable, Samples]
    ) -> dict[Hashable, Samples]:
        """Time the wanted stages of a trial, in each work partitioning that is worth it.

        A partitioning that is far slower than another is timed once only. A stage without a
        possible time is left out of the result.

        Parameters
        ----------
        runner : StageRunner
            The stage runner.
        trial : InNetworkTrial
            The stages.
        known : mapping of stage key to Samples
            Earlier samples, by which the partitionings of the other stages are chosen.
        """
        return self._try_in_network(runner, trial, known, _ROUNDS)

    def refine(
        self, runner: AnyStageRunner, trial: InNetworkTrial, known: Mapping[Hashable, Samples]
    ) -> dict[Hashable, Samples]:
        """Time measured stages more often, in the partitionings that were nearly fastest.

        The parameters are those of :meth:`measure`.
        """
        return self._try_in_network(runner, trial, known, _REFINED_ROUNDS)

    def _try_in_network(
        self,
        runner: AnyStageRunner,
        trial: InNetworkTrial,
        known: Mapping[Hashable, Samples],
        rounds: int,
    ) -> dict[Hashable, Samples]:
        taken: dict[Hashable, Samples] = {key: {} for key in trial.wanted}
        first = [stage.key in trial.wanted for stage in trial.stages].index(True)
        seconds = lead = 0.0  # of one run, and of the stages before those that are timed
        for _ in range(rounds):
            tried = [
                self._worth_timing(stage, {**known.get(stage.key, {}), **taken.get(stage.key, {})})
                if stage.key in trial.wanted
                else self._usual(stage, known.get(stage.key, {}))
                for stage in trial.stages
            ]
            for number in range(max(map(len, tried))):
                chosen = [names[number % len(names)] for names in tried]
                warm_up = 0 if seconds > _LONG and lead > _LEAD else 1
                table = self._run(runner, trial, chosen, seconds, warm_up)
                seconds = float(np.nansum(table, axis=1).min())
                lead = float(np.nansum(table[:, :first], axis=1).min())
                for stage, name, column in zip(trial.stages, chosen, table.T, strict=True):
                    if stage.key in taken and (times := sensible(column)):
                        taken[stage.key].setdefault(name, []).extend(times)
        return {key: samples for key, samples in taken.items() if samples}

    def _run(
        self,
        runner: AnyStageRunner,
        trial: InNetworkTrial,
        chosen: Sequence[str],
        expected: float,
        warm_up: int,
    ) -> np.ndarray:
        """Return the seconds of each stage in one or more runs.

        Parameters
        ----------
        runner : StageRunner
            The stage runner.
        trial : InNetworkTrial
            The stages.
        chosen : sequence of str
            The work partitioning of each.
        expected : float
            The seconds of one run; 0 if they are not known.
        warm_up : int
            The number of runs that warm up.
        """
        self.trying.update(
            (stage.key, name) for stage, name in zip(trial.stages, chosen, strict=True)
        )
        stages = [
            self.stage_builder.partition(stage, name, self.operator_seconds)
            for stage, name in zip(trial.stages, chosen, strict=True)
        ]
        runs = warm_up + (min(max(int(_TOGETHER / expected), 1), _MOST_RUNS) if expected > 0 else 1)
        return self.speed.steady(lambda: runner.time(stages, runs), warm_up)

    def _worth_timing(self, stage: AnyStage, samples: Samples) -> list[str]:
        """Return all partitionings of a new stage, and those near the best of a measured one."""
        if not samples:
            return self.possible(stage)
        best, _ = fastest(samples)
        return [name for name in samples if typical(samples[name]) <= _HOPELESS * best]

    def possible(self, stage: AnyStage) -> list[str]:
        """Return the partitionings of a stage that are worth timing and have not failed."""
        failed = self.failed(stage.key)
        known = self.stage_builder.partitionings(stage, self.operator_seconds)
        return [name for name in known if name not in failed]

    def _usual(self, stage: AnyStage, samples: Samples) -> list[str]:
        return [
            fastest(samples)[1] if samples else self.stage_builder.preferred_partitioning(stage)
        ]


def sensible(samples: Iterable[float]) -> list[float]:
    """Return the samples that can be durations: finite and above zero."""
    return [float(s) for s in samples if math.isfinite(s) and s > 0]


def typical(times: Sequence[float]) -> float:
    """Return the median of the newest samples."""
    return float(np.median(times[-_NEWEST:]))


def fastest(samples: Mapping[str, Sequence[float]]) -> tuple[float, str]:
    """Return the median seconds of the fastest work partitioning, and its name."""
    medians = [(typical(times), partitioning) for partitioning, times in samples.items()]
    return min(medians, key=lambda entry: entry[0])


def relative_error(samples: Mapping[str, Sequence[float]], scale: float = 0.0) -> float:
    """Return the relative standard error of the median of the fastest work partitioning.

    It follows from the median absolute deviation of the samples. For few or equal samples it has a
    floor, the error that clocks and caches always leave.

    Parameters
    ----------
    samples : mapping of str to sequence of float
        Seconds by work partitioning.
    scale : float
        The relative error of the speed that the samples were scaled by.
    """
    _, partitioning = fastest(samples)
    logarithms = np.log(samples[partitioning][-_NEWEST:])
    spread = 1.4826 * float(np.median(np.abs(logarithms - np.median(logarithms))))
    if len(logarithms) < _FEW:
        spread = max(spread, _UNSURE)
    return max(1.2533 * math.hypot(spread, scale) / math.sqrt(len(logarithms)), _SURE)
