# SPDX-License-Identifier: Apache-2.0
"""Runs of whole schedules, in which each stage is timed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from ..lowering.stages import AnyStage
from .cache import MeasurementCache, WorkloadKey
from .measurer import Measurer, Taken
from .timing.stages import fastest

AGREES = 0.03
"""The relative difference of a schedule's price and its time that is not looked at further."""
_WHOLE = "whole"  # names the seconds of the stages, in their order
_TRIES = 3  # runs of a schedule that takes longer than its price


class WholeRuns:
    """Runs schedules as a whole, each once, and records what their stages take.

    Parameters
    ----------
    measurer : Measurer
        Times stages.
    cache : MeasurementCache
        Has what was recorded.
    """

    def __init__(self, measurer: Measurer, cache: MeasurementCache) -> None:
        self._measurer, self._cache = measurer, cache
        self._taken: dict[Hashable, Taken] = {}

    def known(self, stages: Sequence[AnyStage]) -> bool:
        """Return whether the schedule was asked for before."""
        return _workload(stages).key in self._taken

    def taken(self, stages: Sequence[AnyStage]) -> Taken:
        """Return the samples of each stage of a schedule that was run here; else none."""
        return self._taken.get(_workload(stages).key, {})

    def seconds(self, stages: Sequence[AnyStage], prices: Sequence[float]) -> np.ndarray:
        """Return what each stage of a schedule takes while all of it runs, float64 [n].

        A schedule of which nothing was measured here is not run. Where the database does not have
        it, these are the prices.

        Parameters
        ----------
        stages : sequence of Stage
            The stages that do something, in order.
        prices : sequence of float
            Their prices, in seconds.
        """
        workload = _workload(stages)
        if workload.key not in self._taken:
            self._cache.lookup([workload])
            known = bool(self._cache.samples(workload.key))
            measured = any(stage.key in self._measurer.timed for stage in stages)
            taken = self._fastest(stages, prices) if measured and not known else {}
            self._taken[workload.key] = taken
            if taken:
                self._cache.add(workload, {_WHOLE: _seconds(stages, prices, taken)})
        found = self._cache.samples(workload.key).get(_WHOLE, prices)
        return np.array(found, "float64")

    def _fastest(self, stages: Sequence[AnyStage], prices: Sequence[float]) -> Taken:
        """Run a schedule, and again if it takes longer than its price; return the fastest run.

        Another program may make a run longer, and none shorter.
        """
        runs: list[tuple[float, Taken]] = []
        while len(runs) < _TRIES:
            taken = self._measurer.time_schedule(stages)
            runs.append((sum(_seconds(stages, prices, taken)), taken))
            if runs[-1][0] <= (1 + AGREES) * sum(prices):
                break
        return min(runs, key=lambda run: run[0])[1]


def _seconds(stages: Sequence[AnyStage], prices: Sequence[float], taken: Taken) -> list[float]:
    """Return what each stage took; its price where that is not known."""
    return [
        fastest(taken[stage.key])[0] if stage.key in taken else price
        for stage, price in zip(stages, prices, strict=True)
    ]


def _workload(stages: Sequence[AnyStage]) -> WorkloadKey:
    """Return the workload key of a schedule."""
    kernels = tuple(i.kernel for stage in stages for i in stage.implementations)
    return WorkloadKey(
        ("whole", *(stage.key for stage in stages)),
        kernels,
        ("whole", *(stage.key[1:] for stage in stages)),
        f"a schedule of {len(stages)} stages",
    )
