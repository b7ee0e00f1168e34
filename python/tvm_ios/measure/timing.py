# SPDX-License-Identifier: Apache-2.0
"""How often a stage is run until its latency is believed.

The speed of a machine changes while a search runs: with its clock, and by half where a neighbour
begins to compute. What counts is what a stage gains over its operators one after another, so the
two are run in turn, and a stage's seconds are those of its operators times the ratio.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..lower.assemble import Assembler, StageForm
from ..lower.implement import Implementation
from .device import Device
from .samples import Clock, sensible, take, take_steady

Samples = dict[str, list[float]]
"""Seconds by division."""

_BUDGET = 2.5e-3  # seconds that the repetitions of one stage take together, if they can
_REFINED_BUDGET = 12e-3  # the same for a stage that a schedule rests on
_UNSURE, _SURE = 0.05, 0.005  # relative errors of a few samples, and of any number of them
_FEW = 4
_ALONE = 5  # runs of an operator on one worker
_PAIRED = 2  # runs of a stage after which its operators are run
_HOPELESS = 1.15  # what is this much slower than the alternative at first is not repeated


@dataclass
class StageTimer:
    """Times stages in each division of their work.

    A division whose every sample is impossible is left out of what is returned.

    Attributes
    ----------
    assembler : Assembler
    operator_seconds : mapping of kernel key to float
        Operators' times on one worker, by which work is divided.
    """

    assembler: Assembler
    operator_seconds: Mapping[Hashable, float]

    def alone(self, device: Device, implementation: Implementation) -> Samples:
        """Seconds of an operator on one worker, after a run that warms up."""
        device.run(implementation)
        times = take(lambda count: device.time_alone(implementation, count), _ALONE)
        return {"alone": times} if times else {}

    def measure(self, device: Device, form: StageForm, known: float = math.inf) -> Samples:
        """Seconds of a stage in every division that is worth it.

        The first run warms up; it also says how often to repeat, and whether to: a stage far
        slower than ``known``, what its operators take one after another, is out of the running.
        It is infinite for an operator itself.
        """
        samples: Samples = {}
        limit = _HOPELESS * known
        for division in self.assembler.divisions(form, self.operator_seconds):
            clock = self._clock(device, form, division, known)
            first = take(clock, 1)
            if first and first[0] <= limit:
                first = self._repeat(clock, first[0], _BUDGET, (1, 7))
                limit = min(limit, _HOPELESS * float(np.median(first or [math.inf])))
            if first:
                samples[division] = first
        return samples

    def refine(
        self,
        device: Device,
        form: StageForm,
        samples: Mapping[str, Sequence[float]],
        known: float = math.inf,
    ) -> Samples:
        """More seconds of a measured stage, many more, in the divisions that came near."""
        best, _ = fastest(samples)
        more: Samples = {}
        for division, times in samples.items():
            typical = float(np.median(times))
            if typical <= _HOPELESS * best:
                clock = self._clock(device, form, division, known)
                more[division] = self._repeat(clock, typical, _REFINED_BUDGET, (7, 50))
        return {division: times for division, times in more.items() if times}

    def _clock(self, device: Device, form: StageForm, division: str, known: float) -> Clock:
        """Seconds of the stage, at the speed that the machine had when ``known`` was measured."""
        stage = self.assembler.stage(form, division, self.operator_seconds)
        if math.isinf(known):
            return lambda count: device.time(stage, count)
        apart = self.assembler.apart(form, self.operator_seconds)

        def clock(count: int) -> list[float]:
            times, reference = [], []
            for done in range(0, count, _PAIRED):
                part = min(_PAIRED, count - done)
                times += device.time(stage, part)
                reference += device.time(apart, part)
            believed = [seconds for seconds in reference if sensible([seconds])]
            scale = known / float(np.median(believed)) if believed else math.nan
            return [scale * seconds for seconds in times]

        return clock

    def _repeat(
        self, clock: Clock, expected: float, budget: float, limits: tuple[int, int]
    ) -> list[float]:
        low, high = limits
        return take_steady(clock, min(max(int(budget / expected), low), high), expected)


def fastest(samples: Mapping[str, Sequence[float]]) -> tuple[float, str]:
    """Median latency in seconds of the fastest division, and which it is."""
    medians = [(float(np.median(times)), division) for division, times in samples.items()]
    return min(medians, key=lambda entry: entry[0])


def relative_error(samples: Mapping[str, Sequence[float]]) -> float:
    """The standard error of the median of the fastest division, as a share of it.

    It is taken from the spread of the samples, of which the outer ones are not believed; for one
    sample, or equal ones, it is what clocks and caches always leave.
    """
    _, division = fastest(samples)
    logarithms = np.log(samples[division])
    spread = 1.4826 * float(np.median(np.abs(logarithms - np.median(logarithms))))
    if len(logarithms) < _FEW:
        spread = max(spread, _UNSURE)
    return max(1.2533 * spread / math.sqrt(len(logarithms)), _SURE)
