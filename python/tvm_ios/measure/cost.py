# SPDX-License-Identifier: Apache-2.0
"""The measured cost of candidate stages."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..backend.shared.implementation import Implementation
from ..backend.shared.kernel import Kernel
from ..backend.shared.stages import AnyAssembler, AnyForm
from ..graph.dag import Candidate
from ..search.cost_model import Through
from ..support.errors import DeviceError
from ..support.keys import Key
from ..support.progress import progress
from .device import AnyDevice
from .devices import AnyDevices
from .records import Records, Subject, operator_subject, stage_subject
from .timing import Samples, StageTimer, fastest, relative_error

_logger = logging.getLogger(__name__)

_WRONG = "where it was measured it crashed, took too long, or gave no time that can be"

_WORTH = 0.01  # share of its operators' time that a stage must be able to gain to be measured


@dataclass(frozen=True)
class Observation:
    """A measured stage.

    Attributes
    ----------
    subject : Subject
    seconds : float
    error : float
        The standard error of the logarithm of the seconds.
    """

    subject: Subject
    seconds: float
    error: float

    @classmethod
    def of(cls, subject: Subject, samples: Mapping[str, Sequence[float]]) -> Observation:
        return cls(subject, fastest(samples)[0], relative_error(samples))


@dataclass(frozen=True)
class FullPrices:
    """Prices of candidates each of which is measured.

    Attributes
    ----------
    cost : MeasuredCost
    candidates : sequence of Candidate
    """

    cost: MeasuredCost
    candidates: Sequence[Candidate]

    def bounds(self) -> np.ndarray:
        return self.cost(self.candidates)

    def recall(self, through: Through) -> None:
        """What is known is looked up before anything is measured."""


class MeasuredCost:
    """Times stages by the mechanism that will run them.

    A stage is timed against its operators one after another, so that its price and theirs are of
    one machine, see :mod:`.timing`. Structurally equal stages are measured once, and not at all
    where ``records`` has them from a database. A stage that can gain next to nothing over its
    operators run one after another is not measured but priced a hair above them, so it is never
    chosen: see :meth:`can_gain`. A stage that cannot run, one that mixes an operator that stays as
    TVM wrote it with others, costs infinity. Such an operator alone costs nothing, as every
    schedule has it. A stage that crashes or hangs where it is measured, or whose times cannot be,
    costs infinity, too, and is not kept.

    All prices follow from the samples: a search that finds them in a database ends where the search
    ended that took them.

    Parameters
    ----------
    devices : Devices
        Who measures.
    assembler : Assembler
    records : Records, optional
        What is known already, and where what is measured goes.
    """

    equal_blocks_cost_the_same = True

    def __init__(
        self, devices: AnyDevices, assembler: AnyAssembler, records: Records | None = None
    ) -> None:
        self._devices, self._assembler = devices, assembler
        self._records = records or Records()
        self.operator_seconds: dict[Hashable, float] = {}
        self._timer = StageTimer(assembler, self.operator_seconds)
        self._forms: dict[Candidate, AnyForm] = {}
        self._seconds: dict[Hashable, float] = {}
        self._hopeless: dict[Hashable, float] = {}  # by what is known of their operators now
        self._timed: set[Hashable] = set()
        self._observed: dict[Hashable, Observation] = {}
        self._time_operators(i for i in assembler.lowered.implementations if i is not None)

    @property
    def measurements(self) -> int:
        """Stages that were measured, those not counted that were known."""
        return len(self._timed)

    def __call__(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """Latency in seconds per candidate; operators are indices in the graph."""
        self._price(self._form(c) for c in candidates if not self._alone(c))
        return np.array([self._latency(c) for c in candidates], "float64")

    def division(self, candidate: Candidate) -> str:
        """The faster division of a candidate that was priced."""
        if self._alone(candidate):
            return self._assembler.usual
        samples = self._records.samples(self._form(candidate).key)
        return fastest(samples)[1] if samples else self._assembler.usual

    def prices(self, candidates: Sequence[Candidate]) -> FullPrices:
        """Every stage that can gain something is measured when its price is asked for."""
        return FullPrices(self, candidates)

    def settle(self, candidates: Sequence[Candidate]) -> int:
        """Measure again, more often, what a schedule rests on; returns how much was new.

        Of thousands of noisy latencies a minimum picks the lucky ones. The chosen stages and the
        operators in them, the alternative, are therefore measured until luck is averaged out.
        """
        forms = [self._form(c) for c in candidates if not self._alone(c)]
        fresh = self._refine(
            [*(s for form in forms for s in self._assembler.singles(form)), *forms]
        )
        if fresh:
            self._hopeless.clear()
        return fresh

    def _refine(self, forms: Iterable[AnyForm]) -> int:
        """Measure more often, in this order, what was not yet; returns how many that are."""
        fresh = {
            form.key: form
            for form in forms
            if self._records.samples(form.key) and not self._records.refined(form.key)
        }
        self._run(
            "measuring again",
            fresh.values(),
            lambda device, form: self._timer.refine(
                device, form, self._records.samples(form.key), self._alternative(form)
            ),
            refined=True,
        )
        return len(fresh)

    def recalled(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Those that can be priced without measuring, their operators having been measured."""
        forms = {c: self._form(c) for c in candidates if not self._alone(c)}
        self._recall(forms.values())
        return [c for c in candidates if c not in forms or self._priceable(forms[c])]

    def observation(self, candidate: Candidate) -> Observation | None:
        """What was measured of a candidate that was priced; None where that was not worth it."""
        if self._alone(candidate):
            return None
        form = self._form(candidate)
        samples = self._records.samples(form.key)
        if samples and form.key not in self._observed:
            self._observed[form.key] = Observation.of(stage_subject(form), samples)
        return self._observed.get(form.key)

    def runnable(self, candidate: Candidate) -> bool:
        """Whether the operators of the candidate can share a stage."""
        return len(candidate.ops) == 1 or not self._alone(candidate)

    def _form(self, candidate: Candidate) -> AnyForm:
        if candidate not in self._forms:
            form = self._assembler.form_of(candidate.ops, candidate.strategy)
            self._forms[candidate] = form
        return self._forms[candidate]

    def _alone(self, candidate: Candidate) -> bool:
        return any(op in self._assembler.lowered.alone for op in candidate.ops)

    def _latency(self, candidate: Candidate) -> float:
        if self._alone(candidate):
            return 0.0 if len(candidate.ops) == 1 else math.inf
        key = self._form(candidate).key
        return self._seconds[key] if key in self._seconds else self._hopeless[key]

    def _price(self, forms: Iterable[AnyForm]) -> None:
        """Find latencies for stages that have none: first operators alone, then the rest."""
        priced = self._seconds.keys() | self._hopeless.keys()
        new = {form.key: form for form in forms if form.key not in priced}
        self._time_operators(i for form in new.values() for i in form.implementations)
        singles = {s.key: s for form in new.values() for s in self._assembler.singles(form)}
        self._measure_singles("measuring operators", singles)
        self._refine(singles.values())  # what all else is compared with
        self._check_possible(singles.values())
        replaced = {f.key: f for f in new.values() if self._replaced(f)}
        self._measure_singles("measuring replacements", replaced)
        self._recall(new.values())
        worth = [f for f in new.values() if f.key not in self._seconds and self.can_gain(f)]
        self._measure("measuring stages", worth)
        for key, form in new.items():
            if key not in self._seconds:
                self._hopeless[key] = self._apart(form) * (1 + 1e-6)

    def _measure_singles(self, description: str, forms: Mapping[Key, AnyForm]) -> None:
        """Time stages of one kernel, but those that have nothing to do or cannot run."""
        self._seconds.update((key, 0.0) for key, form in forms.items() if form.free)
        broken = [key for key, form in forms.items() if self._broken(form)]
        self._seconds.update(dict.fromkeys(broken, math.inf))
        self._measure(description, forms.values())

    def _check_possible(self, singles: Iterable[AnyForm]) -> None:
        """Raise DeviceError where an operator failed, as every schedule needs it."""
        for form in singles:
            if math.isinf(self._seconds[form.key]):
                (name,) = self._assembler.lowered.graph.names(form.implementations[0].operators)
                raise DeviceError(
                    f"Operator {name!r} could not be measured: it crashed, took too long or gave "
                    "impossible times; 'compile --no-search' does without measuring."
                )

    def _measure(self, description: str, forms: Iterable[AnyForm]) -> None:
        """Time those stages that are not known."""
        forms = list(forms)
        self._recall(forms)
        pending = [form for form in forms if form.key not in self._seconds]
        self._run(
            description,
            pending,
            lambda device, form: self._timer.measure(device, form, self._alternative(form)),
        )

    def _recall(self, forms: Iterable[AnyForm]) -> None:
        """Take from the records what they have."""
        missing = [form for form in forms if form.key not in self._seconds]
        self._records.recall(map(stage_subject, missing))
        for form in missing:
            samples = self._records.samples(form.key)
            if samples:
                self._seconds[form.key], _ = fastest(samples)

    def _apart(self, form: AnyForm) -> float:
        """What a stage's operators take one after another."""
        return sum(self._seconds[single.key] for single in self._assembler.singles(form))

    def _alternative(self, form: AnyForm) -> float:
        """What a stage is to undercut; nothing does for an operator as it is."""
        itself = len(form.implementations) == 1 and not self._replaced(form)
        return math.inf if itself else self._apart(form)

    def _replaced(self, form: AnyForm) -> bool:
        """Whether something replaces operators of the stage."""
        originals = self._assembler.originals(form)
        return list(map(id, form.implementations)) != list(map(id, originals))

    def _run(
        self,
        description: str,
        forms: Iterable[AnyForm],
        work: Callable[[AnyDevice, AnyForm], Samples],
        *,
        refined: bool = False,
    ) -> None:
        """Take samples of every stage by ``work``, record them and note the latency."""
        stages = list(forms)
        if not stages:
            return
        self._devices.compile(
            kernel
            for form in stages
            for kernel in self._assembler.kernels(form, self.operator_seconds)
        )
        with progress(description, len(stages)) as advance:

            def done(form: AnyForm, samples: Samples | None) -> None:
                self._note(form, samples, refined)
                advance(1)

            self._devices.each(stages, work, done)

    def _note(self, form: AnyForm, samples: Samples | None, refined: bool) -> None:
        subject = stage_subject(form)
        self._observed.pop(form.key, None)
        if samples or (refined and samples is not None):
            self._records.add(subject, samples, refined=refined)
            self._seconds[form.key], _ = fastest(self._records.samples(form.key))
        else:
            self._seconds[form.key] = math.inf
            _logger.warning("%s is not used: %s.", subject.words, _WRONG)
        self._timed.add(form.key)

    def _broken(self, form: AnyForm) -> bool:
        """Whether an operator of it did not run alone."""
        return any(math.isinf(self.operator_seconds[i.kernel.key]) for i in form.implementations)

    def _priceable(self, form: AnyForm) -> bool:
        if form.key in self._seconds or self._replaced(form):
            return form.key in self._seconds
        known = all(single.key in self._seconds for single in self._assembler.singles(form))
        return known and not self.can_gain(form)

    def can_gain(self, form: AnyForm) -> bool:
        """Whether running the stage's operators together may pay.

        Where they could save less than 1% of the operators' time, no composition of them is worth
        a look.
        """
        total = self._apart(form)
        if math.isinf(total):
            return False
        return self._assembler.most_saved(form, self._seconds, self.operator_seconds) >= (
            _WORTH * total
        )

    def _time_operators(self, implementations: Iterable[Implementation[Kernel]]) -> None:
        """Time kernels alone on one worker, which is what work is divided by."""
        new = {i.kernel.key: i for i in implementations}
        new = {key: i for key, i in new.items() if key not in self.operator_seconds}
        subjects = {key: operator_subject(i.kernel) for key, i in new.items() if not i.kernel.free}
        self._records.recall(subjects.values())
        missing = [new[key] for key, s in subjects.items() if not self._records.samples(s.key)]
        if missing:
            self._devices.compile(i.kernel for i in missing)
            self._devices.each(missing, self._timer.alone, self._note_alone)
        for key, implementation in new.items():
            if not implementation.kernel.free and key not in self.operator_seconds:
                # The least: what the work takes when nothing disturbs it.
                samples = self._records.samples(subjects[key].key)
                self.operator_seconds[key] = min(samples["alone"])
            self.operator_seconds.setdefault(key, 0.0)

    def _note_alone(self, implementation: Implementation[Kernel], samples: Samples | None) -> None:
        subject = operator_subject(implementation.kernel)
        if samples:
            self._records.add(subject, samples)
        else:
            self.operator_seconds[implementation.kernel.key] = math.inf
            _logger.warning("%s: %s.", subject.words, _WRONG)
