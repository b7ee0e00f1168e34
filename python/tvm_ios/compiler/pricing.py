# SPDX-License-Identifier: Apache-2.0
"""The cost model of a search, and the kernels that it was made for."""

from __future__ import annotations

import zlib
from typing import Any

from ..backend.base import Backend
from ..database import MeasurementDatabase
from ..graph.fingerprint import fingerprint
from ..lowering.stages import AnyStageBuilder
from ..measure.cache import MeasurementCache
from ..measure.cost import MeasuredCost
from ..measure.timing.speed import MachineSpeed
from ..measure.transport.pool import AnyRunnerPool
from ..schedule.options import Options
from ..search.cost_model import CostModel


def measure_prices(
    backend: Backend[Any, Any, Any],
    stage_builder: AnyStageBuilder,
    pool: AnyRunnerPool,
    options: Options,
    database: MeasurementDatabase | None,
    speed: MachineSpeed | None = None,
) -> tuple[CostModel, AnyStageBuilder]:
    """Choose the fastest kernels and time every operator alone.

    Parameters
    ----------
    backend : Backend
    stage_builder : StageBuilder
    pool : RunnerPool
        What measures.
    options : Options
    database : MeasurementDatabase or None
        Keeps what is measured.
    speed : MachineSpeed, optional
        The machine's speed, if it is known or simulated.

    Returns
    -------
    cost : CostModel
        Prices stages: it measures every one of them, or those that its model cannot rule out.
    stage_builder : StageBuilder
        With the kernels that were chosen.
    """
    # xgboost takes a second to import, and prices that are given do not need it.
    from ..measure.learned import Examples, LatencyModel, LearnedCost

    cache = MeasurementCache(database, backend.identity(), backend.conditions(stage_builder))
    stage_builder = backend.tune(stage_builder, pool, cache)
    measured = MeasuredCost.begin(pool, stage_builder, cache, speed)
    if options.measure_all:
        return measured, stage_builder
    graph = stage_builder.lowered.graph
    examples = Examples(cache, _number(fingerprint(graph)))
    model = LatencyModel(options.seed)
    learned = LearnedCost.begin(
        measured, stage_builder, examples, model, options.seed, options.coverage
    )
    return learned, stage_builder


def _number(text: str) -> int:
    """Return a number that identifies a text; a float64 has every such number."""
    return zlib.crc32(text.encode())
