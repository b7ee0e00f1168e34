# SPDX-License-Identifier: Apache-2.0
"""Measurements of all stages of a network that a search may consider, on this machine."""

from __future__ import annotations

from pathlib import Path

from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.database import MeasurementDatabase
from tvm_ios.measure.cache import MeasurementCache
from tvm_ios.measure.cost import MeasuredCost
from tvm_ios.measure.timing import typical

from .known import all_candidates
from .table import Table


def record(scheduler: Scheduler, database: Path | None = None) -> Table:
    """Measure a network's stages on this machine, and return their median latencies.

    Parameters
    ----------
    scheduler : Scheduler
        The network, with the limits of the search.
    database : Path, optional
        A database of measurements; recording goes on where it was interrupted.
    """
    stage_builder = scheduler.stage_builder
    cost, cache = _begin(scheduler, database)
    opaque = stage_builder.lowered.opaque
    candidates = [c for c in all_candidates(scheduler) if not opaque.intersection(c.ops)]
    cost(candidates)
    samples = {c: cache.samples(stage_builder.spec_of(c.ops, c.strategy).key) for c in candidates}
    seconds = {
        candidate: {name: typical(times) for name, times in taken.items()}
        for candidate, taken in samples.items()
        if taken
    }
    return Table(
        str(scheduler.target), scheduler.graph.edges, _on_one_worker(scheduler, cost), seconds
    )


def record_operators(scheduler: Scheduler, database: Path | None = None) -> tuple[float, ...]:
    """Measure a network's operators on one worker of this machine, in seconds."""
    cost, _ = _begin(scheduler, database)
    return _on_one_worker(scheduler, cost)


def _begin(scheduler: Scheduler, database: Path | None) -> tuple[MeasuredCost, MeasurementCache]:
    backend, stage_builder = scheduler.backend, scheduler.stage_builder
    kept = None if database is None else MeasurementDatabase(database)
    cache = MeasurementCache(kept, backend.identity(), backend.conditions(stage_builder))
    return MeasuredCost.begin(scheduler.pool, stage_builder, cache), cache


def _on_one_worker(scheduler: Scheduler, cost: MeasuredCost) -> tuple[float, ...]:
    return tuple(
        0.0 if i is None else cost.operator_seconds[i.kernel.key]
        for i in scheduler.stage_builder.lowered.implementations
    )
