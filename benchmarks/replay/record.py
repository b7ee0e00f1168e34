# SPDX-License-Identifier: Apache-2.0
"""Measurements of all stages of a network that a search may consider, on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.database import MeasurementDatabase
from tvm_ios.graph.dag import Candidate
from tvm_ios.measure.cache import MeasurementCache
from tvm_ios.measure.cost import MeasuredCost
from tvm_ios.measure.timing.stages import typical

from .known import all_candidates
from .table import Table

Recordings = Mapping[Candidate, Mapping[str, float]]
"""Seconds of stages by work partitioning."""


def record(scheduler: Scheduler, database: Path | None = None, passes: int = 3) -> Table:
    """Measure a network's stages on this machine, and return their median latencies.

    Stages of equal kernels and shapes differ by 5% if each is timed in one run of the network,
    although the samples of that run agree within 1%. The best schedule of such a table consists of
    lucky stages, which no search can foresee. Each pass therefore times a stage beside others.

    Parameters
    ----------
    scheduler : Scheduler
        The network, with the limits of the search.
    database : Path, optional
        A database of measurements; recording goes on where it was interrupted.
    passes : int
        How often all stages are measured.
    """
    opaque = scheduler.stage_builder.lowered.opaque
    candidates = [c for c in all_candidates(scheduler) if not opaque.intersection(c.ops)]
    taken, alone = [], []
    for number in range(passes):
        cost, cache = _begin(scheduler, database, number)
        order = np.random.default_rng(number).permutation(len(candidates))
        cost([candidates[i] for i in order])
        taken.append(_seconds(scheduler, cache, candidates))
        alone.append(_on_one_worker(scheduler, cost))
    on_one_worker = tuple(np.median(alone, axis=0).tolist())
    return Table(str(scheduler.target), scheduler.graph.edges, on_one_worker, combined(taken))


def combined(passes: Sequence[Recordings]) -> Recordings:
    """Return the median of the passes in which a stage was measured, by work partitioning."""
    samples: dict[Candidate, dict[str, list[float]]] = {}
    for taken in passes:
        for candidate, row in taken.items():
            for name, seconds in row.items():
                samples.setdefault(candidate, {}).setdefault(name, []).append(seconds)
    return {
        candidate: {name: float(np.median(times)) for name, times in row.items()}
        for candidate, row in samples.items()
    }


def _seconds(
    scheduler: Scheduler, cache: MeasurementCache, candidates: Iterable[Candidate]
) -> Recordings:
    """Return the median latencies of one pass; stages that cannot gain anything have none."""
    stage_of = scheduler.stage_builder.stage_of
    samples = {c: cache.samples(stage_of(c.ops, c.strategy).key) for c in candidates}
    return {
        candidate: {name: typical(times) for name, times in taken.items()}
        for candidate, taken in samples.items()
        if taken
    }


def record_operators(scheduler: Scheduler, database: Path | None = None) -> tuple[float, ...]:
    """Measure a network's operators on one worker of this machine, in seconds."""
    cost, _ = _begin(scheduler, database)
    return _on_one_worker(scheduler, cost)


def _begin(
    scheduler: Scheduler, database: Path | None, number: int = 0
) -> tuple[MeasuredCost, MeasurementCache]:
    """Time the operators; what a pass measures is no other's in the database."""
    backend, stage_builder = scheduler.backend, scheduler.stage_builder
    kept = None if database is None else MeasurementDatabase(database)
    conditions = (backend.conditions(stage_builder), number)
    cache = MeasurementCache(kept, backend.identity(), conditions)
    return MeasuredCost.begin(scheduler.pool, stage_builder, cache), cache


def _on_one_worker(scheduler: Scheduler, cost: MeasuredCost) -> tuple[float, ...]:
    return tuple(
        0.0 if i is None else cost.operator_seconds[i.kernel.key]
        for i in scheduler.stage_builder.lowered.implementations
    )
