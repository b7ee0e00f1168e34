# SPDX-License-Identifier: Apache-2.0
"""Runs of whole schedules, in which each stage is timed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ..backend.shared.stages import AnyStageSpec
from .measurer import Measurer, Taken
from .timing import fastest

AGREES = 0.03
"""The relative difference of a schedule's price and its time that is not looked at further."""
_TRIES = 3  # runs of a schedule that takes longer than its price


class WholeRuns:
    """Runs schedules as a whole, each once.

    Parameters
    ----------
    measurer : Measurer
        Times stages.
    """

    def __init__(self, measurer: Measurer) -> None:
        self._measurer = measurer
        self._taken: dict[tuple[Hashable, ...], Taken] = {}

    def known(self, specs: Sequence[AnyStageSpec]) -> bool:
        """Return whether the schedule was run before."""
        return _schedule(specs) in self._taken

    def samples(self, specs: Sequence[AnyStageSpec], prices: Sequence[float]) -> Taken:
        """Return samples of each stage of a schedule; none if all were found in the database.

        A schedule that takes longer than its price is run again, and the fastest run counts:
        another program may make a run longer, and none shorter.

        Parameters
        ----------
        specs : sequence of StageSpec
            The stages, in order.
        prices : sequence of float
            Their prices, in seconds.
        """
        schedule = _schedule(specs)
        if schedule not in self._taken:
            new = any(key in self._measurer.timed for key in schedule)
            self._taken[schedule] = self._fastest(specs, prices) if new else {}
        return self._taken[schedule]

    def _fastest(self, specs: Sequence[AnyStageSpec], prices: Sequence[float]) -> Taken:
        runs: list[tuple[float, Taken]] = []
        while len(runs) < _TRIES:
            taken = self._measurer.rehearse(specs)
            seconds = [
                fastest(taken[spec.key])[0] if spec.key in taken else price
                for spec, price in zip(specs, prices, strict=True)
            ]
            runs.append((sum(seconds), taken))
            if sum(seconds) <= (1 + AGREES) * sum(prices):
                break
        return min(runs, key=lambda run: run[0])[1]


def _schedule(specs: Sequence[AnyStageSpec]) -> tuple[Hashable, ...]:
    return tuple(spec.key for spec in specs)
