# SPDX-License-Identifier: Apache-2.0
"""Measuring: kernels are compiled, stages timed on the runners, and samples recorded."""

from __future__ import annotations

import logging
import math
from collections.abc import Hashable, Iterable, Sequence

from ..lowering.implementation import Implementation
from ..lowering.kernel import Kernel
from ..lowering.stages import AnyStage, AnyStageBuilder
from ..support.progress import progress
from .cache import MeasurementCache, WorkloadKey, operator_workload, stage_workload
from .protocol import AnyStageRunner
from .timing.in_network_trial import InNetworkTrial, in_network_trials
from .timing.speed import MachineSpeed
from .timing.stages import Samples, StageTimer
from .transport.pool import AnyRunnerPool

_logger = logging.getLogger(__name__)

_WRONG = "when it was measured, it crashed, took too long or gave impossible times"
_ALONE = "alone"  # the samples of a kernel on one worker
_SPEED = WorkloadKey("speed", (), "speed", "the machine's speed")

Taken = dict[Hashable, Samples]
"""Samples by stage key."""


class Measurer:
    """Times operators and stages of one network, and records their samples.

    Parameters
    ----------
    pool : RunnerPool
        The runner pool that measures.
    stage_builder : StageBuilder
        The stage builder.
    cache : MeasurementCache
        The measurement cache, which keeps the samples.
    speed : MachineSpeed
        The machine's speed.

    Attributes
    ----------
    operator_seconds : dict of kernel key to float
        Seconds of each operator on one worker; infinity if it failed.
    failed : set
        The keys of stages that crashed, hung, computed something wrong or gave impossible times.
        What failed is recorded; impossible times are not.
    timed : set
        The keys of all stages that were timed.
    """

    def __init__(
        self,
        pool: AnyRunnerPool,
        stage_builder: AnyStageBuilder,
        cache: MeasurementCache,
        speed: MachineSpeed,
    ) -> None:
        self._pool, self._stage_builder, self._cache = pool, stage_builder, cache
        self.operator_seconds: dict[Hashable, float] = {}
        self.failed: set[Hashable] = set()
        self.timed: set[Hashable] = set()
        self._timer = StageTimer(stage_builder, self.operator_seconds, speed, cache.failed)

    @property
    def speed(self) -> MachineSpeed:
        """The machine's speed."""
        return self._timer.speed

    def recall_speed(self) -> None:
        """Take the speed that recorded latencies were scaled to, if there is a record."""
        self._cache.lookup([_SPEED])
        known = self._cache.samples(_SPEED.key).get("arithmetic")
        if known:
            self.speed.base = self.speed.usual = known[0]

    def time_operators(self, implementations: Iterable[Implementation[Kernel]]) -> None:
        """Time kernels on one worker, by which work is partitioned, unless that is known."""
        new = {i.kernel.key: i for i in implementations}
        new = {key: i for key, i in new.items() if key not in self.operator_seconds}
        workloads = {
            key: operator_workload(i.kernel) for key, i in new.items() if not i.kernel.is_noop
        }
        self._cache.lookup(workloads.values())
        for key, workload in workloads.items():
            if _ALONE in self._cache.failed(workload.key):
                self._note_failure(new[key])
        known = [key for key, workload in workloads.items() if self._cache.samples(workload.key)]
        known += self.operator_seconds
        missing = [new[key] for key in workloads if key not in known]
        if missing:
            self._time_alone([missing])
        for key, implementation in new.items():
            if not implementation.kernel.is_noop and key not in self.operator_seconds:
                # The minimum is the time without interference.
                samples = self._cache.samples(workloads[key].key)
                self.operator_seconds[key] = min(samples[_ALONE])
            self.operator_seconds.setdefault(key, 0.0)

    def time_stages(
        self, description: str, stages: Iterable[AnyStage], *, refined: bool = False
    ) -> None:
        """Time stages in as few runs of the network as possible, and record their samples.

        Parameters
        ----------
        description : str
            What the progress bar says.
        stages : iterable of Stage
            The stages.
        refined : bool
            Whether they are measured stages that are timed more often.
        """
        distinct: dict[Hashable, AnyStage] = {stage.key: stage for stage in stages}
        for stage in [s for s in distinct.values() if not self._timer.possible(s)]:
            self._note(distinct.pop(stage.key), None, refined)  # an earlier search saw it fail
        if not distinct:
            return
        trials = in_network_trials(self._stage_builder, distinct.values(), self._unable)
        self._pool.compile(
            kernel
            for trial in trials
            for stage in trial.stages
            for kernel in self._stage_builder.kernels(stage, self.operator_seconds)
        )
        crashed: list[AnyStage] = []
        with progress(description, len(distinct)) as advance:

            def note(trial: InNetworkTrial, taken: Taken | None) -> None:
                if taken is None and len(trial.stages) > 1:
                    crashed.extend(distinct[key] for key in trial.wanted)
                    return
                for key in trial.wanted:
                    if taken is None and self._fails_partly(distinct[key]):
                        crashed.append(distinct[key])
                        continue
                    samples = None if taken is None else taken.get(key, {})
                    self._note(distinct[key], samples, refined)
                    advance(1)

            work = self._refine if refined else self._measure
            self._pool.each(trials, work, note)
            while crashed:  # which of the stages crashed shows when each runs alone
                alone = [InNetworkTrial((stage,), frozenset([stage.key])) for stage in crashed]
                crashed.clear()
                self._pool.each(alone, work, note)

    def _fails_partly(self, stage: AnyStage) -> bool:
        """Record the partitioning with which a stage failed; return whether it has others."""
        self._cache.fail(stage_workload(stage), self._timer.trying[stage.key])
        return bool(self._timer.possible(stage))

    def time_schedule(self, stages: Sequence[AnyStage]) -> Taken:
        """Time all stages of a schedule in its order, and return their samples.

        Parameters
        ----------
        stages : sequence of Stage
            The stages, in order.
        """
        taken: Taken = {}
        trial = InNetworkTrial(tuple(stages), frozenset(stage.key for stage in stages))
        self._pool.each([trial], self._refine, lambda _, found: taken.update(found or {}))
        return taken

    def record(self, stages: Iterable[AnyStage], taken: Taken) -> None:
        """Record samples of measured stages."""
        distinct: dict[Hashable, AnyStage] = {stage.key: stage for stage in stages}
        for key, samples in taken.items():
            self._note(distinct[key], samples, refined=True)

    def _measure(self, runner: AnyStageRunner, trial: InNetworkTrial) -> Taken:
        return self._timer.measure(runner, trial, self._known(trial))

    def _refine(self, runner: AnyStageRunner, trial: InNetworkTrial) -> Taken:
        return self._timer.refine(runner, trial, self._known(trial))

    def _known(self, trial: InNetworkTrial) -> Taken:
        return {
            stage.key: {name: list(times) for name, times in self._cache.samples(stage.key).items()}
            for stage in trial.stages
        }

    def _note(self, stage: AnyStage, samples: Samples | None, refined: bool) -> None:
        workload = stage_workload(stage)
        self.timed.add(stage.key)
        if samples or (samples is not None and self._cache.samples(stage.key)):
            self._note_speed()
            self._cache.add(workload, samples, refined=refined)
        else:
            self.failed.add(stage.key)
            _logger.warning("%s is not used: %s.", workload.words, _WRONG)

    def _note_speed(self) -> None:
        """Record the speed that all recorded latencies are scaled to."""
        if self.speed.base is not None and not self._cache.samples(_SPEED.key):
            self._cache.add(_SPEED, {"arithmetic": [self.speed.base]})

    @property
    def _unable(self) -> frozenset[int]:
        """The operators that cannot run: those that TVM lowers, and those that failed alone."""
        implementations = self._stage_builder.lowered.implementations
        return frozenset(
            op
            for op, i in enumerate(implementations)
            if i is None or math.isinf(self.operator_seconds[i.kernel.key])
        )

    def _time_alone(self, batches: Sequence[Sequence[Implementation[Kernel]]]) -> None:
        """Time the operators of each batch, one after another on one worker."""
        self._pool.compile(i.kernel for batch in batches for i in batch)
        crashed: list[Sequence[Implementation[Kernel]]] = []

        def note(
            batch: Sequence[Implementation[Kernel]], samples: list[list[float]] | None
        ) -> None:
            if samples is None and len(batch) > 1:
                crashed.extend([i] for i in batch)
                return
            if samples is None:
                self._cache.fail(operator_workload(batch[0].kernel), _ALONE)
            for implementation, times in zip(batch, samples or [[]], strict=True):
                self._note_operator(implementation, times)

        self._pool.each(batches, self._timer.time_operators, note)
        if crashed:  # which of them crashed shows when each runs alone
            self._time_alone(crashed)

    def _note_operator(self, implementation: Implementation[Kernel], times: list[float]) -> None:
        workload = operator_workload(implementation.kernel)
        if times:
            self._note_speed()
            self._cache.add(workload, {_ALONE: times})
        else:
            self._note_failure(implementation)

    def _note_failure(self, implementation: Implementation[Kernel]) -> None:
        self.operator_seconds[implementation.kernel.key] = math.inf
        _logger.warning("%s: %s.", operator_workload(implementation.kernel).words, _WRONG)
