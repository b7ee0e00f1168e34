# SPDX-License-Identifier: Apache-2.0
"""How often a stage is run until its latency is believed."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..lower.assemble import Assembler, StageForm
from ..lower.divide import Division
from ..lower.region import LoweredStage
from .device import Device

_BUDGET = 2.5e-3  # seconds that the repetitions of one stage take together, if they can
_REFINED_BUDGET = 12e-3  # the same for a stage that a schedule rests on
_UNSURE, _SURE = 0.05, 0.005  # relative errors of a few samples, and of any number of them
_FEW = 4
_HOPELESS = 1.15  # what is this much slower than the alternative at first is not repeated


@dataclass
class StageTimer:
    """Times stages in each division of their work.

    Attributes
    ----------
    device : Device
    assembler : Assembler
    operator_seconds : mapping of kernel key to float
        Operators' times on one worker, by which work is divided.
    """

    device: Device
    assembler: Assembler
    operator_seconds: Mapping[Hashable, float]

    def measure(self, form: StageForm, known: float = math.inf) -> dict[str, list[float]]:
        """Seconds of a stage in every division that is worth it.

        The first run warms up; it also says how often to repeat, and whether to: a stage far
        slower than ``known``, what its operators take one after another, is out of the running.
        """
        samples: dict[str, list[float]] = {}
        limit = _HOPELESS * known
        for division in self.assembler.divisions(form, self.operator_seconds):
            stage = self._stage(form, division)
            (first,) = self.device.time(stage, 1)
            if first > limit:
                samples[division] = [first]
                continue
            samples[division] = self._repeat(stage, first, _BUDGET, (1, 7))
            limit = min(limit, _HOPELESS * float(np.median(samples[division])))
        return samples

    def refine(
        self, form: StageForm, samples: Mapping[str, Sequence[float]]
    ) -> dict[str, list[float]]:
        """More seconds of a measured stage, many more, in the divisions that came near."""
        best, _ = fastest(samples)
        more: dict[str, list[float]] = {}
        for division, times in samples.items():
            typical = float(np.median(times))
            if typical <= _HOPELESS * best:
                stage = self._stage(form, division)
                more[division] = self._repeat(stage, typical, _REFINED_BUDGET, (7, 50))
        return more

    def _stage(self, form: StageForm, division: Division) -> LoweredStage:
        return self.assembler.stage(form, division, self.operator_seconds)

    def _repeat(
        self, stage: LoweredStage, expected: float, budget: float, limits: tuple[int, int]
    ) -> list[float]:
        low, high = limits
        return self.device.time(stage, min(max(int(budget / expected), low), high))


def fastest(samples: Mapping[str, Sequence[float]]) -> tuple[float, Division]:
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
