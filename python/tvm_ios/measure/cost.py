# SPDX-License-Identifier: Apache-2.0
"""The measured cost of candidate stages."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from ..lower.assemble import Assembler, StageForm
from ..lower.implement import Implementation
from ..lower.network import LoweredStage
from ..lower.plan import Division
from ..search import Candidate
from ..threads import with_workers
from .device import Device
from .progress import progress

_MIN_WINDOW = 100e-6  # seconds between two looks at the clock
_BUDGET = 2.5e-3  # seconds that the repetitions of one stage take together, if they can
_HOPELESS = 1.3  # a division this much slower at its first run is not repeated
_WORTH = 0.01  # share of its operators' time that a stage must be able to gain to be measured
_LAUNCH = 5e-6  # seconds, generous: what one parallel launch less can save


@dataclass(frozen=True)
class Measurement:
    """The faster division of a stage and its latency in seconds."""

    seconds: float
    division: Division


class MeasuredCost:
    """Times stages by the mechanism that will run them.

    Structurally equal stages are measured once. A stage that can gain next to nothing over its
    operators run one after another is not measured but priced a hair above them, so it is never
    chosen: see :meth:`_can_gain`. A stage that cannot run, one that mixes an operator that stays as
    TVM wrote it with others, costs infinity. Such an operator alone costs nothing, as every
    schedule has it.

    Parameters
    ----------
    device : Device
    assembler : Assembler
    """

    def __init__(self, device: Device, assembler: Assembler) -> None:
        self._device, self._assembler = device, assembler
        self._known: dict[Hashable, Measurement] = {}
        self._skipped: set[Hashable] = set()
        self.operator_seconds = self._time_operators()

    @property
    def measurements(self) -> int:
        """Stages that were measured."""
        return len(self._known) - len(self._skipped)

    def __call__(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """Latency in seconds per candidate; operators are indices in the graph."""
        runnable = [c for c in candidates if not self._alone(c)]
        forms = {c: self._assembler.form_of(c.ops, c.strategy) for c in runnable}
        self._measure(list(forms.values()))
        return np.array(
            [
                self._known[forms[c].key].seconds if c in forms else self._price_alone(c)
                for c in candidates
            ],
            "float64",
        )

    def division(self, candidate: Candidate) -> Division:
        """The faster division of a candidate that was measured."""
        if self._alone(candidate):
            return "tiles"
        return self._known[self._assembler.form_of(candidate.ops, candidate.strategy).key].division

    def _alone(self, candidate: Candidate) -> bool:
        return any(op in self._assembler.lowered.alone for op in candidate.ops)

    @staticmethod
    def _price_alone(candidate: Candidate) -> float:
        return 0.0 if len(candidate.ops) == 1 else math.inf

    def _measure(self, forms: Sequence[StageForm]) -> None:
        """Measure the stages that are new."""
        new = {form.key: form for form in forms if form.key not in self._known}
        if not new:
            return
        kernels = [i.kernel for form in new.values() for i in form.implementations]
        self._device.compile(kernels)
        self._time_new([i for form in new.values() for i in form.implementations])

        singles = {f.key: f for form in new.values() for f in _split(form)}
        self._measure_all({key: f for key, f in singles.items() if key not in self._known})
        worth = {}
        for key, form in new.items():
            if key in self._known:
                continue
            if self._can_gain(form):
                worth[key] = form
            else:
                seconds = sum(self._known[f.key].seconds for f in _split(form))
                self._known[key] = Measurement(seconds * (1 + 1e-6), "tiles")
                self._skipped.add(key)
        self._measure_all(worth)

    def _measure_all(self, forms: dict[Hashable, StageForm]) -> None:
        def work() -> None:
            with progress("measuring stages", len(forms)) as advance:
                for key, form in forms.items():
                    self._known[key] = self._measure_one(form)
                    advance(1)

        if forms:
            with_workers(self._assembler.workers, work)

    def _can_gain(self, form: StageForm) -> bool:
        """Whether running the stage's operators together may pay.

        Together they can save launches, the time in which workers wait for the last tile of one
        operator, and what an operator alone loses against an even share of its work. Where these
        add up to less than 1% of the operators' time, no composition of them is worth a look.
        """
        workers, total, gain = self._assembler.workers, 0.0, -_LAUNCH
        for single in _split(form):
            (implementation,) = single.implementations
            seconds = self._known[single.key].seconds
            tiles = max(phase.tiles for phase in implementation.kernel.phases)
            rounds = math.ceil(tiles / workers)
            waiting = seconds * (1 - tiles / (workers * rounds))
            uneven = seconds - self.operator_seconds[implementation.kernel.key] / workers
            total += seconds
            gain += _LAUNCH + max(waiting, uneven, 0.0)
        return gain >= _WORTH * total

    def _measure_one(self, form: StageForm) -> Measurement:
        best: Measurement | None = None
        for division in self._assembler.divisions(form, self.operator_seconds):
            stage = self._assembler.stage(form, division, self.operator_seconds)
            limit = math.inf if best is None else best.seconds * _HOPELESS
            seconds = self._time(stage, limit)
            if best is None or seconds < best.seconds:
                best = Measurement(seconds, division)
        assert best is not None, "a stage has a division"
        return best

    def _time(self, stage: LoweredStage, limit: float) -> float:
        """Median latency; the first run warms up and says how often to repeat."""
        first = float(self._device.time(stage, 1, 1)[0])
        if first > limit:
            return first
        number = max(1, math.ceil(_MIN_WINDOW / first))
        repeat = min(max(int(_BUDGET / (first * number)), 2), 9)
        return float(np.median(self._device.time(stage, number, repeat)))

    def _time_operators(self) -> dict[Hashable, float]:
        self.operator_seconds: dict[Hashable, float] = {}
        present = [i for i in self._assembler.lowered.implementations if i is not None]
        self._time_new(present)
        return self.operator_seconds

    def _time_new(self, implementations: Sequence[Implementation]) -> None:
        """Time kernels alone on one worker, which is what work is divided by."""
        for implementation in implementations:
            key = implementation.kernel.key
            if key not in self.operator_seconds:
                self._device.run(implementation)
                times = self._device.time_alone(implementation, 1, 3)
                self.operator_seconds[key] = float(np.median(times))


def _split(form: StageForm) -> list[StageForm]:
    """Each implementation of a stage as a stage of its own."""
    return [StageForm((i,), (0,), ((),)) for i in form.implementations]
