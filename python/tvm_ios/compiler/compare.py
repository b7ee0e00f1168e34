# SPDX-License-Identifier: Apache-2.0
"""Schedules of one network timed against each other as whole compiled models."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ..measure.timing.decision import Decision, decide
from ..measure.timing.models import Timers, Variants
from ..schedule.schedule import Schedule
from ..schedule.speedup import Speedup
from ..support.progress import working
from .scheduler import Scheduler

_logger = logging.getLogger(__name__)

T = TypeVar("T")

SEQUENTIAL, GREEDY, SCHEDULED = "sequential", "greedy", "scheduled"
BARRIERS = "barriers"  # what the search found, with barriers
_SAME = Speedup(1.0, 1.0, 1.0)
_BUSY = (
    "The machine was too busy to tell whether a schedule is faster than the sequential one; no "
    "gain is claimed."
)
_NO_TIMES = "The device gave no times of the sequential model; no gain is claimed."


@dataclass(frozen=True)
class Comparison:
    """The outcome of a comparison.

    Attributes
    ----------
    schedule : Schedule
        The one to apply, with all latencies.
    name : str
        Which one it is: ``sequential``, ``greedy`` or ``scheduled``.
    variants : Variants
        The models that were timed.
    """

    schedule: Schedule
    name: str
    variants: Variants


def compare(
    scheduler: Scheduler,
    found: Schedule | None = None,
    *,
    others: Mapping[str, Schedule] | None = None,
) -> Comparison:
    """Search, time the result against the sequential and the greedy schedule; return the fastest.

    Another schedule than the sequential one is returned only where samples prove that it is faster.

    This is the only place that accounts for how the workers of a CPU wait for each other. A stage
    is timed with barriers: all workers wait after each of its levels
    (``src/runtime/cpu_stage.cc``). In the network each waits for what it reads
    (``backend/cpu/code/waits.py``), which mostly takes less, by an amount that depends on the
    stages around. No price is corrected for that: the search compares stages with barriers. What it
    found is timed here with both ways of waiting, and may be returned with either; the latency with
    barriers is called ``barriers``.

    In the schedule's latencies ``scheduled`` is what is returned. Where that is not what the search
    found, ``found`` is what the search's own result took.

    Parameters
    ----------
    scheduler : Scheduler
    found : Schedule, optional
        What it found, where it has searched already.
    others : mapping of str to Schedule, optional
        Schedules of the same function to time and to choose from, too, by names of their own.
    """
    found = found or scheduler.search()
    greedy, baseline = scheduler.greedy(), scheduler.sequential()
    others = {**_with_barriers(found), **(others or {})}
    schedules = {SEQUENTIAL: baseline, GREEDY: greedy, SCHEDULED: found, **others}
    variants = scheduler.compile(schedules)
    decision = time_schedules(variants, schedules, [SCHEDULED, GREEDY, *others])
    name = decision.name
    if name == SEQUENTIAL and found.lowers_like(baseline):
        name = SCHEDULED
    estimates = {**baseline.estimates, **greedy.estimates, **found.estimates}
    if BARRIERS in others and SCHEDULED in estimates:  # prices are those with barriers
        estimates[BARRIERS] = estimates[SCHEDULED]
    schedule = replace(
        schedules[name],
        estimates=as_returned(estimates, name),
        measured=as_returned(decision.seconds, name),
        speedup=decision.speedup,
        measurements=found.measurements,
        search_seconds=found.search_seconds,
        cut_cost=found.cut_cost,
        partition_gap=found.partition_gap,
        search_gap=found.search_gap,
    )
    return Comparison(schedule, name, variants)


def _with_barriers(schedule: Schedule) -> dict[str, Schedule]:
    """Return the schedule with barriers, by its name, if it has none."""
    if schedule.synchronization == "barrier":
        return {}
    return {BARRIERS: replace(schedule, synchronization="barrier")}


def time_schedules(
    variants: Variants, schedules: Mapping[str, Schedule], candidates: Sequence[str]
) -> Decision:
    """Time schedules, and decide between the candidates and the sequential one.

    Schedules of the same code are as fast as each other, and are timed once.

    Parameters
    ----------
    variants : Variants
        The compiled models.
    schedules : mapping of str to Schedule
        What they were compiled from; ``sequential`` is among them.
    candidates : sequence of str
        Which of them may replace the sequential one. If several are the same, the first counts.
    """
    twins = _twins(schedules, [SEQUENTIAL, *candidates])
    distinct = [name for name in candidates if twins[name] == name]
    with working("timing models"):
        decision = variants.time(lambda timers: decide(_timed(timers, twins), SEQUENTIAL, distinct))
    known = decision.seconds
    seconds = {n: known[twins.get(n, n)] for n in [*twins, *known] if twins.get(n, n) in known}
    if distinct and decision.speedup is None:
        _logger.warning("%s", _BUSY if SEQUENTIAL in seconds else _NO_TIMES)
    return replace(decision, speedup=decision.speedup if distinct else _SAME, seconds=seconds)


def _twins(schedules: Mapping[str, Schedule], order: Sequence[str]) -> dict[str, str]:
    """Return for each schedule the first one, in this order, that is lowered to the same code."""
    first = {
        name: next(n for n in order if schedules[n].lowers_like(schedules[name])) for name in order
    }
    return {name: first.get(name, name) for name in schedules}


def _timed(timers: Timers, twins: Mapping[str, str]) -> Timers:
    return {name: timer for name, timer in timers.items() if twins.get(name, name) == name}


def as_returned(latencies: Mapping[str, T], name: str) -> dict[str, T]:
    """Latencies by name, ``scheduled`` being that of the schedule ``name`` where it is known."""
    result = dict(latencies)
    if name != SCHEDULED:
        if SCHEDULED in result:
            result["found"] = result.pop(SCHEDULED)
        if name in latencies:
            result[SCHEDULED] = latencies[name]
    return result
