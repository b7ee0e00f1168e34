# SPDX-License-Identifier: Apache-2.0
"""The profile of a schedule's run."""

from __future__ import annotations

from ..graph.operators import Operator
from ..lowering.implementation import moved_bytes
from ..measure.profile import NetworkProfile, profile, time_alone
from ..schedule.schedule import Schedule
from .scheduler import Scheduler


def profile_run(scheduler: Scheduler, schedule: Schedule, repeat: int = 20) -> NetworkProfile:
    """Run a schedule, and return what the workers do in each stage.

    Parameters
    ----------
    scheduler : Scheduler
        The function that the schedule is for.
    schedule : Schedule
    repeat : int
        Runs, of which the fastest counts; and runs of each kernel alone.

    Raises
    ------
    ScheduleError
        For the reasons of :meth:`Scheduler.trace`.
    """
    timeline = scheduler.trace(schedule, repeat)
    stages = [s for s in scheduler.lower(schedule) if not isinstance(s, Operator)]
    ran = [i for stage in stages for i in stage.implementations if not i.kernel.is_noop]
    alone = time_alone(scheduler.pool, ran, repeat)
    slots = scheduler.stage_builder.lowered.slots
    moved = {i.operators: sum(map(sum, moved_bytes(i, slots))) for i in ran}
    return profile(timeline, alone, moved, scheduler.workers)
