# SPDX-License-Identifier: Apache-2.0
"""How often a stage is run until its latency is believed.

The speed of a machine changes while a search runs: with its clock, and by half where a neighbour
begins to compute. What counts is what a stage gains over its operators one after another, so the
two are run in turn, and a stage's seconds are those of its operators times the ratio.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..backend.shared.implementation import Implementation
from ..backend.shared.kernel import Kernel
from ..backend.shared.stages import AnyAssembler, AnyForm
from .device import AnyDevice
from .samples import Turns, sensible, take, take_steady, take_turns

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

    assembler: AnyAssembler
    operator_seconds: Mapping[Hashable, float]

    def alone(self, device: AnyDevice, implementation: Implementation[Kernel]) -> Samples:
        """Seconds of an operator on one worker, after a run that warms up."""
        device.run(implementation)
        times = take(lambda count: device.time_alone(implementation, count), _ALONE)
        return {"alone": times} if times else {}

    def measure(self, device: AnyDevice, form: AnyForm, known: float = math.inf) -> Samples:
        """Seconds of a stage in every division that is worth it.

        The first run warms up; it also says how often to repeat, and whether to: a division far
        slower than another, or than ``known``, what the operators take one after another, is out
        of the running. ``known`` is infinite for an operator itself.
        """
        divisions = self.assembler.divisions(form, self.operator_seconds)
        turns = self._turns(device, form, divisions, known)
        first = {name: times for name, times in take_turns(turns, divisions, 1).items() if times}
        limit = _HOPELESS * min(known, *(times[0] for times in first.values()), math.inf)
        kept = {name: times[0] for name, times in first.items() if times[0] <= limit}
        return _without_empty({**first, **self._repeat(turns, kept, _BUDGET, (1, 7))})

    def refine(
        self,
        device: AnyDevice,
        form: AnyForm,
        samples: Mapping[str, Sequence[float]],
        known: float = math.inf,
    ) -> Samples:
        """More seconds of a measured stage, many more, in the divisions that came near."""
        best, _ = fastest(samples)
        medians = {name: float(np.median(times)) for name, times in samples.items()}
        near = {name: typical for name, typical in medians.items() if typical <= _HOPELESS * best}
        turns = self._turns(device, form, near, known)
        return _without_empty(self._repeat(turns, near, _REFINED_BUDGET, (7, 50)))

    def _turns(
        self, device: AnyDevice, form: AnyForm, divisions: Iterable[str], known: float
    ) -> Turns:
        """Seconds of the stage, at the speed that the machine had when ``known`` was measured.

        The operators one after another have a turn before the divisions, which find their inputs
        where those left them.
        """
        stages = {d: self.assembler.stage(form, d, self.operator_seconds) for d in divisions}
        if math.isinf(known):
            return lambda names, count: {name: device.time(stages[name], count) for name in names}
        apart = self.assembler.apart(form, self.operator_seconds)

        def turns(names: Collection[str], count: int) -> Samples:
            times: Samples = {name: [] for name in names}
            reference = []
            for done in range(0, count, _PAIRED):
                part = min(_PAIRED, count - done)
                reference += device.time(apart, part)
                for name in names:
                    times[name] += device.time(stages[name], part)
            believed = [seconds for seconds in reference if sensible([seconds])]
            scale = known / float(np.median(believed)) if believed else math.nan
            return {name: [scale * seconds for seconds in times[name]] for name in names}

        return turns

    def _repeat(
        self, turns: Turns, expected: Mapping[str, float], budget: float, limits: tuple[int, int]
    ) -> Samples:
        """Samples of those divisions whose seconds are expected, as many as the budget allows."""
        if not expected:
            return {}
        low, high = limits
        count = min(max(int(budget / max(expected.values())), low), high)
        return take_steady(turns, count, expected)


def _without_empty(samples: Samples) -> Samples:
    return {division: times for division, times in samples.items() if times}


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
