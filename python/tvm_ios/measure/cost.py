# SPDX-License-Identifier: Apache-2.0
"""The cost model that measures candidate stages."""

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

_WRONG = "when it was measured, it crashed, took too long or gave impossible times"

_WORTH = 0.01  # a stage is measured if it may gain this share of its operators' time


@dataclass(frozen=True)
class Observation:
    """A measured stage.

    Attributes
    ----------
    subject : Subject
        The workload key of the stage.
    seconds : float
        The median latency of its fastest work partitioning.
    error : float
        The standard error of the logarithm of ``seconds``.
    """

    subject: Subject
    seconds: float
    error: float

    @classmethod
    def of(cls, subject: Subject, samples: Mapping[str, Sequence[float]]) -> Observation:
        return cls(subject, fastest(samples)[0], relative_error(samples))


@dataclass(frozen=True)
class FullPrices:
    """The exact latencies of candidates, each of which is measured on request.

    Attributes
    ----------
    cost : MeasuredCost
        The cost model that measures.
    candidates : sequence of Candidate
        The candidates.
    """

    cost: MeasuredCost
    candidates: Sequence[Candidate]

    def bounds(self) -> np.ndarray:
        return self.cost(self.candidates)

    def recall(self, through: Through) -> None:
        """Do nothing: the cost model looks stages up before it measures them."""


class MeasuredCost:
    """A cost model that times stages by the mechanism that will run them.

    A stage is timed in turn with its operators in serial order, so that both latencies refer to the
    same machine state; see :mod:`.timing`. Structurally equal stages are measured once, and not at
    all if ``records`` finds them in a database.

    Some stages are not measured:

    - A stage that can gain next to nothing over its operators in serial order gets a latency
      slightly above theirs and is never chosen; see :meth:`_can_gain`.
    - A stage that cannot run has infinite latency. This is a stage that combines an opaque operator
      (one left to TVM's default lowering) with others. An opaque operator in a stage of its own
      costs nothing, because every schedule contains it.
    - A stage that crashes, hangs or gives impossible times has infinite latency, too. It is not
      recorded.

    All latencies follow from the recorded samples. A search that finds them in a database ends with
    the same schedule as the search that took them.

    Parameters
    ----------
    devices : Devices
        The runner pool that measures.
    assembler : Assembler
        The stage builder.
    records : Records, optional
        The measurement cache.
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
        self._hopeless: dict[Hashable, float] = {}  # bounds from their operators
        self._timed: set[Hashable] = set()
        self._observed: dict[Hashable, Observation] = {}

    @classmethod
    def begin(
        cls, devices: AnyDevices, assembler: AnyAssembler, records: Records | None = None
    ) -> MeasuredCost:
        """Time every operator alone, which work is divided by."""
        cost = cls(devices, assembler, records)
        cost._time_operators(i for i in assembler.lowered.implementations if i is not None)
        return cost

    @property
    def measurements(self) -> int:
        """The number of stages that were measured, without those found in the database."""
        return len(self._timed)

    def __call__(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """Return the latency of each candidate in seconds, float64 [n]."""
        self._price(self._form(c) for c in candidates if not self._alone(c))
        return np.array([self._latency(c) for c in candidates], "float64")

    def division(self, candidate: Candidate) -> str:
        """Return the fastest work partitioning of a candidate that was measured."""
        if self._alone(candidate):
            return self._assembler.usual
        samples = self._records.samples(self._form(candidate).key)
        return fastest(samples)[1] if samples else self._assembler.usual

    def prices(self, candidates: Sequence[Candidate]) -> FullPrices:
        """Return prices that measure each stage that can gain something when they are requested."""
        return FullPrices(self, candidates)

    def settle(self, candidates: Sequence[Candidate]) -> int:
        """Measure the stages of a schedule more often; return how many were not refined before.

        A minimum over thousands of noisy latencies selects the lucky ones. The chosen stages, and
        their operators as the alternative, are therefore measured again until the noise averages
        out.
        """
        forms = [self._form(c) for c in candidates if not self._alone(c)]
        fresh = self._refine(
            [*(s for form in forms for s in self._assembler.singles(form)), *forms]
        )
        if fresh:
            self._hopeless.clear()
        return fresh

    def _refine(self, forms: Iterable[AnyForm]) -> int:
        """Measure stages more often, in this order, if that was not done yet; return how many."""
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
        """Return the candidates that need no measuring; their operators must be measured."""
        forms = {c: self._form(c) for c in candidates if not self._alone(c)}
        self._recall(forms.values())
        return [c for c in candidates if c not in forms or self._priceable(forms[c])]

    def observation(self, candidate: Candidate) -> Observation | None:
        """Return the measurement of a priced candidate; None if it was not worth measuring."""
        if self._alone(candidate):
            return None
        form = self._form(candidate)
        samples = self._records.samples(form.key)
        if samples and form.key not in self._observed:
            self._observed[form.key] = Observation.of(stage_subject(form), samples)
        return self._observed.get(form.key)

    def runnable(self, candidate: Candidate) -> bool:
        """Return whether the operators of the candidate can share a stage."""
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
        """Determine the latency of new stages: first of single operators, then of the rest."""
        priced = self._seconds.keys() | self._hopeless.keys()
        new = {form.key: form for form in forms if form.key not in priced}
        self._time_operators(i for form in new.values() for i in form.implementations)
        singles = {s.key: s for form in new.values() for s in self._assembler.singles(form)}
        self._measure_singles("measuring operators", singles)
        self._refine(singles.values())  # all other stages are compared with them
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
        """Time stages of one kernel, except those that do nothing or cannot run."""
        self._seconds.update((key, 0.0) for key, form in forms.items() if form.free)
        broken = [key for key, form in forms.items() if self._broken(form)]
        self._seconds.update(dict.fromkeys(broken, math.inf))
        self._measure(description, forms.values())

    def _check_possible(self, singles: Iterable[AnyForm]) -> None:
        """Raise DeviceError if an operator failed, because every schedule needs it."""
        for form in singles:
            if math.isinf(self._seconds[form.key]):
                (name,) = self._assembler.lowered.graph.names(form.implementations[0].operators)
                raise DeviceError(
                    f"Operator {name!r} could not be measured: it crashed, took too long or gave "
                    "impossible times; 'compile --no-search' works without measuring."
                )

    def _measure(self, description: str, forms: Iterable[AnyForm]) -> None:
        """Time the stages whose latency is unknown."""
        forms = list(forms)
        self._recall(forms)
        pending = [form for form in forms if form.key not in self._seconds]
        self._run(
            description,
            pending,
            lambda device, form: self._timer.measure(device, form, self._alternative(form)),
        )

    def _recall(self, forms: Iterable[AnyForm]) -> None:
        """Take latencies from the measurement cache."""
        missing = [form for form in forms if form.key not in self._seconds]
        self._records.recall(map(stage_subject, missing))
        for form in missing:
            samples = self._records.samples(form.key)
            if samples:
                self._seconds[form.key], _ = fastest(samples)

    def _apart(self, form: AnyForm) -> float:
        """Return the seconds of a stage's operators in serial order."""
        return sum(self._seconds[single.key] for single in self._assembler.singles(form))

    def _alternative(self, form: AnyForm) -> float:
        """Return the latency that a stage has to beat; infinity for a single operator."""
        itself = len(form.implementations) == 1 and not self._replaced(form)
        return math.inf if itself else self._apart(form)

    def _replaced(self, form: AnyForm) -> bool:
        """Return whether the stage replaces operators by others."""
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
        """Sample every stage with ``work``, record the samples and update the latency."""
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
        """Return whether an operator of the stage failed when it ran alone."""
        return any(math.isinf(self.operator_seconds[i.kernel.key]) for i in form.implementations)

    def _priceable(self, form: AnyForm) -> bool:
        if form.key in self._seconds or self._replaced(form):
            return form.key in self._seconds
        known = all(single.key in self._seconds for single in self._assembler.singles(form))
        return known and not self.can_gain(form)

    def can_gain(self, form: AnyForm) -> bool:
        """Return whether running the operators of a stage together may pay.

        A stage that could save less than 1% of its operators' time is not worth measuring.
        """
        total = self._apart(form)
        if math.isinf(total):
            return False
        return self._assembler.most_saved(form, self._seconds, self.operator_seconds) >= (
            _WORTH * total
        )

    def _time_operators(self, implementations: Iterable[Implementation[Kernel]]) -> None:
        """Time kernels alone on one worker, which work partitioning is based on."""
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
                # The minimum is the time without interference.
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
