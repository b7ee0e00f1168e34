# SPDX-License-Identifier: Apache-2.0
"""The cost model that measures candidate stages."""

from __future__ import annotations

import logging
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..graph.dag import Candidate
from ..lowering.stages import AnyStage, AnyStageBuilder
from ..search.cost_model import BestThrough, Promising, nothing
from ..support.errors import DeviceError
from ..support.keys import Key
from .cache import MeasurementCache, WorkloadKey, stage_workload
from .measurer import Measurer
from .schedules import AGREES, WholeRuns
from .timing.speed import MachineSpeed
from .timing.stages import fastest, relative_error
from .transport.pool import AnyRunnerPool

_logger = logging.getLogger(__name__)

_WORTH = 0.01  # a stage is measured if it may gain this share of its operators' time


@dataclass(frozen=True)
class Observation:
    """A measured stage.

    Attributes
    ----------
    workload : WorkloadKey
        The workload key of the stage.
    seconds : float
        The median latency of its fastest work partitioning.
    error : float
        The standard error of the logarithm of ``seconds``.
    """

    workload: WorkloadKey
    seconds: float
    error: float

    @classmethod
    def of(
        cls, workload: WorkloadKey, samples: Mapping[str, Sequence[float]], scale_error: float
    ) -> Observation:
        return cls(workload, fastest(samples)[0], relative_error(samples, scale_error))


@dataclass(frozen=True)
class MeasuredBounds:
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

    def known(self) -> np.ndarray:
        return np.ones(len(self.candidates), bool)

    def stated(self) -> np.ndarray:
        return self.bounds()

    def lookup(self, through: BestThrough) -> None:
        """Do nothing: the cost model looks stages up before it measures them."""


class MeasuredCost:
    """A cost model that times stages by the mechanism that will run them.

    A stage is timed inside of a run of the whole network, see :mod:`.timing.in_network_trial`, and
    at the machine's usual speed, see :mod:`.timing.speed`. Structurally equal stages are measured
    once, and not at all if ``cache`` finds them in a database.

    Some stages are not measured:

    - A stage that can gain next to nothing over its operators in serial order gets a latency
      slightly above theirs and is never chosen; see :meth:`can_gain`.
    - A stage that cannot run has infinite latency. This is a stage that combines an opaque operator
      (one left to TVM's default lowering) with others. An opaque operator in a stage of its own
      costs nothing, because every schedule contains it.
    - A stage that crashes, hangs, computes something wrong or gives impossible times has infinite
      latency, too. It is recorded what failed with which work partitioning, so that no later
      search tries it.

    All latencies follow from the recorded samples. A search that finds them in a database ends with
    the same schedule as the search that took them.

    Parameters
    ----------
    pool : RunnerPool
        The runner pool that measures.
    stage_builder : StageBuilder
        The stage builder.
    cache : MeasurementCache, optional
        The measurement cache.
    speed : MachineSpeed, optional
        The machine's speed, if it is known or simulated.
    """

    equal_blocks_cost_the_same = True

    def __init__(
        self,
        pool: AnyRunnerPool,
        stage_builder: AnyStageBuilder,
        cache: MeasurementCache | None = None,
        speed: MachineSpeed | None = None,
    ) -> None:
        self._stage_builder, self._cache = stage_builder, cache or MeasurementCache()
        self._measurer = Measurer(pool, stage_builder, self._cache, speed or MachineSpeed())
        self._stages: dict[Candidate, AnyStage] = {}
        self._seconds: dict[Hashable, float] = {}
        self._hopeless: dict[Hashable, float] = {}  # bounds from their operators
        self._observed: dict[Hashable, Observation] = {}
        self._whole = WholeRuns(self._measurer, self._cache)

    @classmethod
    def begin(
        cls,
        pool: AnyRunnerPool,
        stage_builder: AnyStageBuilder,
        cache: MeasurementCache | None = None,
        speed: MachineSpeed | None = None,
    ) -> MeasuredCost:
        """Time every operator alone, which work is divided by."""
        cost = cls(pool, stage_builder, cache, speed)
        cost._measurer.recall_speed()
        implementations = stage_builder.lowered.implementations
        cost._measurer.time_operators(i for i in implementations if i is not None)
        return cost

    @property
    def speed(self) -> MachineSpeed:
        """The speed of the machine that all latencies are scaled to."""
        return self._measurer.speed

    @property
    def operator_seconds(self) -> Mapping[Hashable, float]:
        """Seconds of each operator on one worker, by kernel key."""
        return self._measurer.operator_seconds

    @property
    def measurements(self) -> int:
        """The number of stages that were measured, without those found in the database."""
        return len(self._measurer.timed)

    def __call__(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """Return the latency of each candidate in seconds, float64 [n]."""
        self._price(self._stage(c) for c in candidates if not self._opaque(c))
        return np.array([self._latency(c) for c in candidates], "float64")

    def partitioning(self, candidate: Candidate) -> str:
        """Return the fastest work partitioning of a candidate that was measured."""
        if self._opaque(candidate):
            return self._stage_builder.default_partitioning
        stage = self._stage(candidate)
        samples = self._cache.samples(stage.key)
        return fastest(samples)[1] if samples else self._stage_builder.preferred_partitioning(stage)

    def latency_bounds(self, candidates: Sequence[Candidate]) -> MeasuredBounds:
        """Return prices that measure each stage that can gain something when they are requested."""
        return MeasuredBounds(self, candidates)

    def resolve(self, candidates: Sequence[Candidate], promising: Promising = nothing) -> int:
        """Measure the stages of a schedule more often; return how many were not refined before.

        A minimum over thousands of noisy latencies selects the lucky ones. The chosen stages, and
        their operators as the alternative, are therefore measured again until the noise averages
        out.
        """
        stages = [self._stage(c) for c in candidates if not self._opaque(c)]
        fresh = self._refine(
            [*stages, *(s for stage in stages for s in self._stage_builder.per_operator(stage))]
        )
        if fresh:
            self._hopeless.clear()
        return fresh

    def _refine(self, stages: Iterable[AnyStage]) -> int:
        """Measure stages more often if that was not done yet; return how many."""
        fresh = {
            stage.key: stage
            for stage in stages
            if self._cache.samples(stage.key)
            and not self._cache.refined(stage.key)
            and self._seconds.get(stage.key) != math.inf  # it crashed
        }
        self._time("measuring again", fresh.values(), refined=True)
        return len(fresh)

    def agrees(self, candidates: Sequence[Candidate]) -> bool:
        """Run a whole schedule; return whether it takes as long as its stages are priced.

        If it does not, the prices of its stages are corrected. Nothing is run if all stages were
        found in the database, or if the schedule was run before.
        """
        stages = [self._stage(c) for c in candidates if self._runs(c)]
        if self._whole.known(stages):
            return True
        believed, found = float(self(candidates).sum()), float(self.in_network(candidates).sum())
        taken = self._whole.taken(stages)
        if taken:
            _logger.info(
                "the schedule takes %.3f ms; its price was %.3f", 1e3 * found, 1e3 * believed
            )
        if not taken or abs(found - believed) <= AGREES * found:
            return True
        self._measurer.record(stages, taken)
        for key in taken:
            self._seconds[key], _ = fastest(self._cache.samples(key))
            self._observed.pop(key, None)
        self._hopeless.clear()
        return False

    def in_network(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """Return what the stages of a schedule take while it runs whole, float64 [n].

        Their prices are the lowest of many, and so too low by chance; these are not selected. The
        schedule is not run if all of its stages were found in the database.
        """
        seconds = self(candidates)
        if np.isfinite(seconds).all():  # it can run
            run = [number for number, c in enumerate(candidates) if self._runs(c)]
            stages = [self._stage(candidates[number]) for number in run]
            seconds[run] = self._whole.seconds(stages, seconds[run].tolist())
        return seconds

    def _runs(self, candidate: Candidate) -> bool:
        """Return whether a stage has kernels that do something."""
        return not self._opaque(candidate) and not self._stage(candidate).is_noop

    def looked_up(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Return the candidates that need no measuring; their operators must be measured."""
        stages = {c: self._stage(c) for c in candidates if not self._opaque(c)}
        self._lookup(stages.values())
        return [c for c in candidates if c not in stages or self._priceable(stages[c])]

    def observation(self, candidate: Candidate) -> Observation | None:
        """Return the measurement of a priced candidate; None if it was not worth measuring."""
        if self._opaque(candidate):
            return None
        stage = self._stage(candidate)
        samples = self._cache.samples(stage.key)
        if samples and stage.key not in self._observed:
            workload, error = stage_workload(stage), self._measurer.speed.error
            self._observed[stage.key] = Observation.of(workload, samples, error)
        return self._observed.get(stage.key)

    def runnable(self, candidate: Candidate) -> bool:
        """Return whether the operators of the candidate can share a stage."""
        return len(candidate.ops) == 1 or not self._opaque(candidate)

    def _stage(self, candidate: Candidate) -> AnyStage:
        if candidate not in self._stages:
            stage = self._stage_builder.stage_of(candidate.ops, candidate.strategy)
            self._stages[candidate] = stage
        return self._stages[candidate]

    def _opaque(self, candidate: Candidate) -> bool:
        return any(op in self._stage_builder.lowered.opaque for op in candidate.ops)

    def _latency(self, candidate: Candidate) -> float:
        if self._opaque(candidate):
            return 0.0 if len(candidate.ops) == 1 else math.inf
        key = self._stage(candidate).key
        return self._seconds[key] if key in self._seconds else self._hopeless[key]

    def _price(self, stages: Iterable[AnyStage]) -> None:
        """Determine the latency of new stages: first of single operators, then of the rest."""
        priced = self._seconds.keys() | self._hopeless.keys()
        new = {stage.key: stage for stage in stages if stage.key not in priced}
        self._measurer.time_operators(i for stage in new.values() for i in stage.implementations)
        per_operator = {
            s.key: s for stage in new.values() for s in self._stage_builder.per_operator(stage)
        }
        self._measure_operators("measuring operators", per_operator)
        self._refine(per_operator.values())  # all other stages are compared with them
        self._check_possible(per_operator.values())
        replaced = {f.key: f for f in new.values() if self._replaced(f)}
        self._measure_operators("measuring replacements", replaced)
        self._lookup(new.values())
        worth = [f for f in new.values() if f.key not in self._seconds and self.can_gain(f)]
        self._measure("measuring stages", worth)
        for key, stage in new.items():
            if key not in self._seconds:
                self._hopeless[key] = self._serial(stage) * (1 + 1e-6)

    def _measure_operators(self, description: str, stages: Mapping[Key, AnyStage]) -> None:
        """Time stages of one kernel, except those that cannot run."""
        broken = [key for key, stage in stages.items() if self._broken(stage)]
        self._seconds.update(dict.fromkeys(broken, math.inf))
        self._measure(description, stages.values())

    def _check_possible(self, per_operator: Iterable[AnyStage]) -> None:
        """Raise DeviceError if an operator failed, because every schedule needs it."""
        for stage in per_operator:
            if math.isinf(self._seconds[stage.key]):
                (name,) = self._stage_builder.lowered.graph.names(
                    stage.implementations[0].operators
                )
                raise DeviceError(
                    f"Operator {name!r} could not be measured: it crashed, took too long or gave "
                    "impossible times; 'compile --no-search' works without measuring."
                )

    def _measure(self, description: str, stages: Iterable[AnyStage]) -> None:
        """Time the stages whose latency is unknown; one that does nothing takes no time."""
        unique = {stage.key: stage for stage in stages}
        self._seconds.update((key, 0.0) for key, stage in unique.items() if stage.is_noop)
        self._lookup(unique.values())
        self._time(
            description, [stage for key, stage in unique.items() if key not in self._seconds]
        )

    def _time(self, description: str, stages: Iterable[AnyStage], *, refined: bool = False) -> None:
        """Time stages, and update their latencies."""
        stages = list(stages)
        self._measurer.time_stages(description, stages, refined=refined)
        for stage in stages:
            self._observed.pop(stage.key, None)
            failed = stage.key in self._measurer.failed
            samples = self._cache.samples(stage.key)
            self._seconds[stage.key] = math.inf if failed else fastest(samples)[0]

    def _lookup(self, stages: Iterable[AnyStage]) -> None:
        """Take latencies from the measurement cache."""
        missing = [stage for stage in stages if stage.key not in self._seconds]
        self._cache.lookup(map(stage_workload, missing))
        for stage in missing:
            samples = self._cache.samples(stage.key)
            if samples:
                self._seconds[stage.key], _ = fastest(samples)

    def _serial(self, stage: AnyStage) -> float:
        """Return the seconds of a stage's operators in serial order."""
        return sum(self._seconds[single.key] for single in self._stage_builder.per_operator(stage))

    def _replaced(self, stage: AnyStage) -> bool:
        """Return whether the stage replaces operators by others."""
        originals = self._stage_builder.originals(stage)
        return list(map(id, stage.implementations)) != list(map(id, originals))

    def _broken(self, stage: AnyStage) -> bool:
        """Return whether an operator of the stage failed when it ran alone."""
        return any(math.isinf(self.operator_seconds[i.kernel.key]) for i in stage.implementations)

    def _priceable(self, stage: AnyStage) -> bool:
        if stage.key in self._seconds or self._replaced(stage):
            return stage.key in self._seconds
        known = all(
            single.key in self._seconds for single in self._stage_builder.per_operator(stage)
        )
        return known and not self.can_gain(stage)

    def can_gain(self, stage: AnyStage) -> bool:
        """Return whether running the operators of a stage together may pay.

        A stage that could save less than 1% of its operators' time is not worth measuring.
        """
        total = self._serial(stage)
        if math.isinf(total):
            return False
        return self._stage_builder.max_saving(stage, self._seconds, self.operator_seconds) >= (
            _WORTH * total
        )

    def floors(self, ops: Sequence[int]) -> np.ndarray:
        """Return each operator's time on one worker, divided evenly; 0 where it is unknown."""
        implementations = [self._stage_builder.lowered.implementations[op] for op in ops]
        seconds = np.array(
            [
                0.0 if i is None else self.operator_seconds.get(i.kernel.key, 0.0)
                for i in implementations
            ]
        )
        return np.where(np.isfinite(seconds), seconds, 0.0) / self._stage_builder.workers
