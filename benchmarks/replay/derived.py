# SPDX-License-Identifier: Apache-2.0
"""Latencies of stages derived from those of single operators, where a machine is not idle.

Stages cannot be measured well while other programs take their share of the cores: a barrier then
takes as long as they please. The operators alone can, on one worker. The latencies that follow from
them are those of no real machine, but of one with the same difficulties:

- operators use several workers with different efficiency, and wait for their last tile;
- a level of a stage ends with a barrier;
- whole groups on one worker are efficient, but the most loaded worker decides;
- row strips save memory traffic between operators, and compute their halos twice;
- operators that run at the same time disturb each other, each pair of kernels by an amount of its
  own, and each stage and work partitioning a little by one that follows from nothing else.

All that looks random is a function of the kernels' digests.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations

import numpy as np

from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.lowering.stages import AnyStage, AnyStageBuilder
from tvm_ios.measure.cache import MeasurementCache, operator_workload, stage_workload

from .known import all_candidates
from .table import Table

_BARRIER = 2e-6  # seconds
_EFFICIENCY = (0.8, 1.0)  # of an operator on all workers
_STRIPS = (0.92, 1.08)  # of an operator's time, where it runs in row strips
_PAIR, _REST = 0.03, 0.015  # standard deviations of the logarithms


def derive(scheduler: Scheduler, on_one_worker: Sequence[float]) -> Table:
    """Return the derived latencies of all stages that a search may consider.

    Parameters
    ----------
    scheduler : Scheduler
        The network.
    on_one_worker : sequence of float
        Seconds of each operator on one worker.
    """
    lowered = scheduler.stage_builder.lowered
    candidates = [c for c in all_candidates(scheduler) if not lowered.opaque.intersection(c.ops)]
    model = _Model(scheduler.stage_builder, on_one_worker)
    stages = {c: scheduler.stage_builder.stage_of(c.ops, c.strategy) for c in candidates}
    return Table(
        str(scheduler.target),
        scheduler.graph.edges,
        tuple(on_one_worker),
        {candidate: model.latencies(stage) for candidate, stage in stages.items()},
    )


class _Model:
    def __init__(self, stage_builder: AnyStageBuilder, on_one_worker: Sequence[float]) -> None:
        self._stage_builder, self._alone = stage_builder, on_one_worker
        self._cache = MeasurementCache()
        implementations = stage_builder.lowered.implementations
        self._costs: dict[Hashable, float] = {
            i.kernel.key: seconds
            for i, seconds in zip(implementations, on_one_worker, strict=True)
            if i is not None
        }

    def latencies(self, stage: AnyStage) -> Mapping[str, float]:
        """Return the seconds of a stage by work partitioning."""
        names = self._stage_builder.partitionings(stage, self._costs)
        digest = self._cache.digest(stage_workload(stage))
        disturbed = self._disturbance(stage)
        return {
            name: getattr(self, f"_by_{name}")(stage)
            * math.exp(disturbed + _REST * _normal(digest, name))
            for name in names
        }

    def _by_tiles(self, stage: AnyStage) -> float:
        levels: defaultdict[int, list[int]] = defaultdict(list)
        depth: list[int] = []
        for number, before in enumerate(stage.after):
            depth.append(max((depth[b] + 1 for b in before), default=0))
            levels[depth[number]].append(number)
        return sum(_BARRIER + self._level(stage, level) for level in levels.values())

    def _level(self, stage: AnyStage, numbers: Sequence[int]) -> float:
        """Return the seconds of operators whose tiles are divided among all workers together."""
        workers = self._stage_builder.workers
        work, largest = 0.0, 0.0
        for number in numbers:
            kernel = stage.implementations[number].kernel
            seconds = self._seconds(stage, number)
            low, high = _EFFICIENCY
            efficiency = low + (high - low) * _uniform(self._digest(stage, number), "efficiency")
            work += seconds / efficiency
            largest = max(largest, seconds / max(kernel.num_tiles, 1))
        return work / workers + largest * (1 - 1 / workers)

    def _by_groups(self, stage: AnyStage) -> float:
        """Return the seconds of whole groups on one worker each, the longest first."""
        groups: defaultdict[int, float] = defaultdict(float)
        for number, group in enumerate(stage.groups):
            groups[group] += self._seconds(stage, number)
        loads = np.zeros(self._stage_builder.workers)
        for seconds in sorted(groups.values(), reverse=True):
            loads[loads.argmin()] += seconds
        return _BARRIER + float(loads.max())

    def _by_strips(self, stage: AnyStage) -> float:
        low, high = _STRIPS
        total = 0.0
        for number in range(len(stage.implementations)):
            share = low + (high - low) * _uniform(self._digest(stage, number), "strips")
            total += self._seconds(stage, number) * share
        return _BARRIER + total / self._stage_builder.workers

    def _disturbance(self, stage: AnyStage) -> float:
        """Return by how much operators of different groups disturb each other, as a logarithm."""
        pairs = [
            _PAIR * _normal(*sorted((self._digest(stage, a), self._digest(stage, b))))
            for a, b in combinations(range(len(stage.groups)), 2)
            if stage.groups[a] != stage.groups[b]
        ]
        return sum(pairs) / max(len(stage.groups) - 1, 1)

    def _seconds(self, stage: AnyStage, number: int) -> float:
        """Return an operator's seconds on one worker; a merged one computes what it replaces."""
        return sum(self._alone[op] for op in stage.implementations[number].operators)

    def _digest(self, stage: AnyStage, number: int) -> str:
        return self._cache.digest(operator_workload(stage.implementations[number].kernel))


def _uniform(*words: str) -> float:
    """Return a number between 0 and 1 that follows from the words."""
    return np.random.default_rng([*"|".join(words).encode()]).random()


def _normal(*words: str) -> float:
    """Return a number of the standard normal distribution that follows from the words."""
    return np.random.default_rng([*"|".join(words).encode()]).standard_normal()
