# SPDX-License-Identifier: Apache-2.0
"""Timing of stages: how often each is run, and relative to what.

The speed of a machine changes while a search runs: the clock frequency varies, and another process
may halve it. The search needs a stage's gain over its operators in serial order. The two are
therefore run in turn, and a stage's seconds are those of its operators times the measured ratio.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..backend.shared.implementation import Implementation
from ..backend.shared.kernel import Kernel
from ..backend.shared.stages import AnyStageBuilder, AnyStageSpec
from .samples import Turns, sensible, take, take_steady, take_turns
from .stage_runner import AnyStageRunner

Samples = dict[str, list[float]]
"""Seconds by work partitioning."""

_BUDGET = 2.5e-3  # seconds for all repetitions of a stage
_REFINED_BUDGET = 12e-3  # the same for a stage of a chosen schedule
_UNSURE, _SURE = 0.05, 0.005  # minimum relative errors: for few samples, and for any number
_FEW = 4
_ALONE = 5  # runs of an operator on one worker
_PAIRED = 2  # runs of a stage between two runs of its operators
_HOPELESS = 1.15  # a first run slower than the best alternative by this factor is not repeated


@dataclass
class StageTimer:
    """A timer of stages, for each partitioning of their work.

    A partitioning whose samples are all impossible is left out of the results.

    Attributes
    ----------
    stage_builder : StageBuilder
        The stage builder.
    operator_seconds : mapping of kernel key to float
        Seconds of operators on one worker, on which work partitioning is based.
    """

    stage_builder: AnyStageBuilder
    operator_seconds: Mapping[Hashable, float]

    def time_operator(
        self, device: AnyStageRunner, implementation: Implementation[Kernel]
    ) -> Samples:
        """Return the seconds of an operator on one worker, after a warm-up run."""
        device.run(implementation)
        times = take(lambda count: device.time_alone(implementation, count), _ALONE)
        return {"alone": times} if times else {}

    def measure(
        self, device: AnyStageRunner, spec: AnyStageSpec, known: float = math.inf
    ) -> Samples:
        """Time a stage in each work partitioning that is worth it.

        The first run of each partitioning is a warm-up. It determines the number of repetitions. A
        partitioning that is far slower than another, or than ``known``, is not repeated.

        Parameters
        ----------
        device : StageRunner
            The runner.
        spec : StageSpec
            The stage spec.
        known : float
            Seconds of the operators in serial order; infinity for a single operator.
        """
        partitionings = self.stage_builder.partitionings(spec, self.operator_seconds)
        turns = self._turns(device, spec, partitionings, known)
        first = {
            name: times for name, times in take_turns(turns, partitionings, 1).items() if times
        }
        limit = _HOPELESS * min(known, *(times[0] for times in first.values()), math.inf)
        kept = {name: times[0] for name, times in first.items() if times[0] <= limit}
        return _without_empty({**first, **self._repeat(turns, kept, _BUDGET, (1, 7))})

    def refine(
        self,
        device: AnyStageRunner,
        spec: AnyStageSpec,
        samples: Mapping[str, Sequence[float]],
        known: float = math.inf,
    ) -> Samples:
        """Time a measured stage many more times, in the partitionings that were nearly fastest.

        Parameters
        ----------
        device : StageRunner
            The runner.
        spec : StageSpec
            The stage spec.
        samples : mapping of str to sequence of float
            Seconds by work partitioning so far.
        known : float
            Seconds of the operators in serial order; infinity for a single operator.
        """
        best, _ = fastest(samples)
        medians = {name: float(np.median(times)) for name, times in samples.items()}
        near = {name: typical for name, typical in medians.items() if typical <= _HOPELESS * best}
        turns = self._turns(device, spec, near, known)
        return _without_empty(self._repeat(turns, near, _REFINED_BUDGET, (7, 50)))

    def _turns(
        self, device: AnyStageRunner, spec: AnyStageSpec, partitionings: Iterable[str], known: float
    ) -> Turns:
        """Return a sampler of the stage, scaled to the machine's speed when ``known`` was measured.

        The operators in serial order run before each round of partitionings, which find their
        inputs in the same cache state.
        """
        stages = {
            d: self.stage_builder.stage(spec, d, self.operator_seconds) for d in partitionings
        }
        if math.isinf(known):
            return lambda names, count: {name: device.time(stages[name], count) for name in names}
        serial = self.stage_builder.serial(spec, self.operator_seconds)

        def turns(names: Collection[str], count: int) -> Samples:
            times: Samples = {name: [] for name in names}
            reference = []
            for done in range(0, count, _PAIRED):
                part = min(_PAIRED, count - done)
                reference += device.time(serial, part)
                for name in names:
                    times[name] += device.time(stages[name], part)
            believed = [seconds for seconds in reference if sensible([seconds])]
            scale = known / float(np.median(believed)) if believed else math.nan
            return {name: [scale * seconds for seconds in times[name]] for name in names}

        return turns

    def _repeat(
        self, turns: Turns, expected: Mapping[str, float], budget: float, limits: tuple[int, int]
    ) -> Samples:
        """Sample the partitionings in ``expected`` as often as the budget allows."""
        if not expected:
            return {}
        low, high = limits
        count = min(max(int(budget / max(expected.values())), low), high)
        return take_steady(turns, count, expected)


def _without_empty(samples: Samples) -> Samples:
    return {partitioning: times for partitioning, times in samples.items() if times}


def fastest(samples: Mapping[str, Sequence[float]]) -> tuple[float, str]:
    """Return the median seconds of the fastest work partitioning, and its name."""
    medians = [(float(np.median(times)), partitioning) for partitioning, times in samples.items()]
    return min(medians, key=lambda entry: entry[0])


def relative_error(samples: Mapping[str, Sequence[float]]) -> float:
    """Return the relative standard error of the median of the fastest work partitioning.

    It follows from the median absolute deviation of the samples. For few or equal samples it has a
    floor, the error that clocks and caches always leave.
    """
    _, partitioning = fastest(samples)
    logarithms = np.log(samples[partitioning])
    spread = 1.4826 * float(np.median(np.abs(logarithms - np.median(logarithms))))
    if len(logarithms) < _FEW:
        spread = max(spread, _UNSURE)
    return max(1.2533 * spread / math.sqrt(len(logarithms)), _SURE)
