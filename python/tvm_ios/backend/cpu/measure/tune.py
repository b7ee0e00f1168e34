# SPDX-License-Identifier: Apache-2.0
"""Choice of the fastest kernel of convolutions that Winograd's algorithm can compute.

A model predicts which kernels may be the fastest. The network then runs with each choice in turn,
so that a kernel finds its input where the operators before have left it, and its weights cold.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from ....graph.operators import Operator
from ....lowering.implementation import present
from ....measure.cache import MeasurementCache, WorkloadKey
from ....measure.protocol import StageRunner, TimedRuns
from ....measure.transport.pool import RunnerPool
from ....support.progress import working
from ..kernels.kernel import Kernel
from ..stage.build import CpuStageBuilder
from ..stage.stage import CpuStage

_logger = logging.getLogger(__name__)

_ROUNDS, _REPEAT = 5, 3
_FASTER = 0.97  # of the time of the kernel that was predicted: noise is no reason for another one
_NETWORK = "network"  # how samples are named that were taken in a run of the network


def tuned(
    stage_builder: CpuStageBuilder, pool: RunnerPool[Kernel, CpuStage], cache: MeasurementCache
) -> CpuStageBuilder:
    """Return the stage builder with the fastest kernel of each operator that has a choice.

    All operators with the same kernel get the same one. What was measured before is not measured
    again. If the network cannot be run, the predicted kernels are kept.

    Parameters
    ----------
    stage_builder : CpuStageBuilder
        The stage builder of the network.
    pool : RunnerPool
        The runner pool.
    cache : MeasurementCache
        The measurement cache.
    """
    alike = _alike(stage_builder)
    if not alike:
        return stage_builder
    builders = _alternatives(stage_builder, alike)
    choices = [_Choice.of(ops, builders) for ops in alike]
    workloads = [choice.workload(kernel) for choice in choices for kernel in choice.kernels]
    cache.lookup(workloads)
    if not all(cache.samples(workload.key) for workload in workloads):
        _measure(builders, choices, pool, cache)
    return stage_builder.chosen(
        {name: variant for choice in choices for name, variant in choice.fastest(cache).items()}, {}
    )


@dataclass(frozen=True)
class _Choice:
    """Operators that have one kernel, and those that they may have instead.

    Attributes
    ----------
    operators : sequence of Operator
    kernels : list of Kernel
        One of each builder; the predicted one comes first.
    """

    operators: Sequence[Operator]
    kernels: list[Kernel]

    @classmethod
    def of(cls, operators: Sequence[Operator], builders: Sequence[CpuStageBuilder]) -> _Choice:
        found = (builder.lowered.implementations[operators[0].index] for builder in builders)
        return cls(operators, [i.kernel for i in found if i is not None])

    def fastest(self, cache: MeasurementCache) -> dict[str, str | None]:
        """Return the name of the fastest kernel, by the names of the operators."""
        seconds = {
            kernel.variant: float(np.median(samples[_NETWORK]))
            for kernel in self.kernels
            if (samples := cache.samples(self.workload(kernel).key))
        }
        chosen = self.kernels[0].variant
        if chosen in seconds:
            best = min(seconds, key=seconds.__getitem__)
            times = ", ".join(f"{name} {1e6 * s:.0f} µs" for name, s in seconds.items())
            chosen = best if seconds[best] < _FASTER * seconds[chosen] else chosen
            _logger.info("%s: %s, of %s", self.operators[0].name, chosen, times)
        return {op.name: chosen for op in self.operators}

    def workload(self, kernel: Kernel) -> WorkloadKey:
        """Return the workload key of a kernel, which ran in turn with the others of the choice.

        Its samples are compared with theirs only: others are from another time.
        """
        kernels = (kernel, *self.kernels)
        words = f"{kernel.name} by {kernel.variant}, in a network"
        return WorkloadKey(("choice", *(k.key for k in kernels)), kernels, "choice", words)


def _alike(stage_builder: CpuStageBuilder) -> list[list[Operator]]:
    """Return the operators that have a choice of kernels, those with the same kernel together."""
    lowered = stage_builder.lowered
    alike: dict[Hashable, list[Operator]] = {}
    for op, implementation in zip(lowered.graph.operators, lowered.implementations, strict=True):
        if implementation is not None and stage_builder.promising(op.index)[1:]:
            alike.setdefault(implementation.kernel.key, []).append(op)
    return list(alike.values())


def _alternatives(
    stage_builder: CpuStageBuilder, alike: Sequence[Sequence[Operator]]
) -> list[CpuStageBuilder]:
    """Return builders in which each operator has one after the other of its kernels."""
    promising = [stage_builder.promising(ops[0].index) for ops in alike]
    return [
        stage_builder.chosen(
            {
                op.name: names[position % len(names)]
                for ops, names in zip(alike, promising, strict=True)
                for op in ops
            },
            {},
        )
        for position in range(max(map(len, promising)))
    ]


def _measure(
    builders: Sequence[CpuStageBuilder],
    choices: Sequence[_Choice],
    pool: RunnerPool[Kernel, CpuStage],
    cache: MeasurementCache,
) -> None:
    """Run the network with the kernels of each builder in turn, and keep the samples."""
    runs = [_stages(builder) for builder in builders]
    place = {op: n for n, stage in enumerate(runs[0]) for op in stage.implementations[0].operators}

    def work(
        runner: StageRunner[Kernel, CpuStage], stages: Sequence[list[CpuStage]]
    ) -> list[TimedRuns]:
        return [runner.time(run, _REPEAT) for _ in range(_ROUNDS) for run in stages]

    def done(_: Sequence[list[CpuStage]], timed: list[TimedRuns] | None) -> None:
        if timed is None:
            return
        steady = min(float(each.arithmetic.min()) for each in timed)
        seconds = [_undisturbed(timed[n :: len(runs)], steady) for n in range(len(runs))]
        for choice in choices:
            columns = [place[op.index] for op in choice.operators]
            for kernel, times in zip(choice.kernels, seconds, strict=True):
                samples = times[:, columns].mean(axis=1)
                if kept := samples[~np.isnan(samples)].tolist():
                    cache.add(choice.workload(kernel), {_NETWORK: kept})

    with working("choosing kernels"):
        pool.compile(i.kernel for builder in builders for i in present(builder.lowered))
        pool.each([runs], work, done)


def _stages(builder: CpuStageBuilder) -> list[CpuStage]:
    """Return the network with a stage for each operator that has a kernel."""
    stages = (
        builder.stage_of((op.index,), "concurrent")
        for op in builder.lowered.graph.operators
        if op.index not in builder.lowered.opaque
    )
    return [builder.partition(s, builder.preferred_partitioning(s), {}) for s in stages]


def _undisturbed(timed: Sequence[TimedRuns], steady: float) -> np.ndarray:
    """Return the seconds of all runs at the machine's best speed, NaN where one was preempted.

    A stage that was preempted in all runs gets the time of the fastest, which was disturbed least:
    if its kernel had no time, the next search would measure again and might choose another one.
    """
    seconds = np.concatenate([_scaled(runs, steady) for runs in timed])
    preempted = np.concatenate([runs.preempted for runs in timed])
    kept = np.where(~preempted & (seconds > 0), seconds, np.nan)
    lost = np.isnan(kept).all(axis=0)
    kept[:, lost] = seconds[:, lost].min(axis=0)
    return kept


def _scaled(runs: TimedRuns, steady: float) -> np.ndarray:
    """Return seconds at the machine's best speed."""
    return runs.seconds * (steady / runs.arithmetic.mean(axis=1, keepdims=True))
