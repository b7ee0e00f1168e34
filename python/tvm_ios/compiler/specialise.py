# SPDX-License-Identifier: Apache-2.0
"""One schedule for each batch size, and what each of them takes at the others.

What pays at one batch size need not at another: with one image an operator leaves cores idle that
others could use, with many it does not. IOS (section 6.3) shows it by a table of schedules made for
one batch size and run at another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..schedule.schedule import Schedule
from .compare import Comparison, compare
from .scheduler import Scheduler


def specialise(schedulers: Mapping[int, Scheduler]) -> dict[int, Schedule]:
    """Search at every batch size, and run every schedule at every other one.

    Parameters
    ----------
    schedulers : mapping of int to Scheduler
        Of one network, by batch size. Measurements are shared where they have one database.

    Returns
    -------
    dict of int to Schedule
        By batch size; :attr:`Schedule.at_batch` says what the schedule takes at each.

    Raises
    ------
    ScheduleError
        When the networks are not the same but for their sizes.
    """
    found = {batch: scheduler.search() for batch, scheduler in schedulers.items()}
    outcomes = {
        batch: compare(scheduler, found[batch], others=_adapted(scheduler, batch, found))
        for batch, scheduler in schedulers.items()
    }
    return {
        batch: replace(
            outcome.schedule,
            batch=batch,
            at_batch=_everywhere(outcomes, batch),
        )
        for batch, outcome in outcomes.items()
    }


def _adapted(
    scheduler: Scheduler, batch: int, found: Mapping[int, Schedule]
) -> dict[str, Schedule]:
    """Return the schedules of the other batch sizes, adapted to this one."""
    return {_name(b): scheduler.adapt(other) for b, other in found.items() if b != batch}


def _everywhere(outcomes: Mapping[int, Comparison], made_for: int) -> dict[str, float]:
    """Return the seconds of the schedule found for one batch size at all, where they are known."""
    seconds = {b: _seconds(outcome, made_for, at=b) for b, outcome in outcomes.items()}
    return {str(b): known for b, known in seconds.items() if known is not None}


def _seconds(outcome: Comparison, made_for: int, *, at: int) -> float | None:
    """Return the seconds that the schedule found for one batch size takes at another."""
    measured = outcome.schedule.measured
    if made_for == at:
        return measured.get("found", measured.get("scheduled"))
    return measured.get(_name(made_for))


def _name(batch: int) -> str:
    return f"batch {batch}"
