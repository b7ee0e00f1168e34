# SPDX-License-Identifier: Apache-2.0
"""How often a stage is run until its latency is believed."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ..lower.assemble import Assembler, StageForm
from ..lower.divide import Division
from ..lower.region import LoweredStage
from .device import Device

_BUDGET = 2.5e-3  # seconds that the repetitions of one stage take together, if they can
_REFINED_BUDGET = 12e-3  # the same for a stage that a schedule rests on
_HOPELESS = 1.15  # what is this much slower than the alternative at first is not repeated


@dataclass
class StageTimer:
    """Latencies of stages in each division of their work; samples add up.

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
    _samples: dict[Hashable, dict[Division, list[float]]] = field(default_factory=dict)

    def measure(self, form: StageForm, known: float = math.inf) -> None:
        """Time a stage in every division that is worth it.

        The first run warms up; it also says how often to repeat, and whether to: a stage far
        slower than ``known``, what its operators take one after another, is out of the running.
        """
        samples = self._samples.setdefault(form.key, {})
        limit = _HOPELESS * known
        for division in self.assembler.divisions(form, self.operator_seconds):
            stage = self._stage(form, division)
            (first,) = self.device.time(stage, 1)
            if first > limit:
                samples[division] = [first]
                continue
            samples[division] = self._repeat(stage, first, _BUDGET, (1, 7))
            limit = min(limit, _HOPELESS * float(np.median(samples[division])))

    def refine(self, form: StageForm) -> None:
        """Time a measured stage again, much more often, in the divisions that came near."""
        best, _ = self.result(form)
        for division, samples in self._samples[form.key].items():
            typical = float(np.median(samples))
            if typical <= _HOPELESS * best:
                stage = self._stage(form, division)
                samples += self._repeat(stage, typical, _REFINED_BUDGET, (7, 50))

    def result(self, form: StageForm) -> tuple[float, Division]:
        """Median latency in seconds of the faster division, and which it is."""
        samples = self._samples[form.key]
        medians: list[tuple[float, Division]] = [
            (float(np.median(times)), division) for division, times in samples.items()
        ]
        return min(medians, key=lambda entry: entry[0])

    def _stage(self, form: StageForm, division: Division) -> LoweredStage:
        return self.assembler.stage(form, division, self.operator_seconds)

    def _repeat(
        self, stage: LoweredStage, expected: float, budget: float, limits: tuple[int, int]
    ) -> list[float]:
        low, high = limits
        return self.device.time(stage, min(max(int(budget / expected), low), high))
