# SPDX-License-Identifier: Apache-2.0
"""Schedules of one network timed against each other as whole compiled models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from ..measure.model import Variants
from ..schedule.schedule import Schedule
from .scheduler import Scheduler

T = TypeVar("T")


@dataclass(frozen=True)
class Comparison:
    """The outcome of a comparison.

    Attributes
    ----------
    schedule : Schedule
        The fastest, with all latencies.
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

    In the schedule's latencies ``scheduled`` is what is returned; where that is not what the
    search found, ``found`` is what the search's own result took.

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
    schedules = {"sequential": baseline, "greedy": greedy, "scheduled": found, **(others or {})}
    variants = scheduler.compile(schedules)
    measured = variants.seconds()
    name = min(schedules, key=lambda n: (measured[n], n != "scheduled"))
    estimates = {**baseline.estimates, **greedy.estimates, **found.estimates}
    schedule = replace(
        schedules[name],
        estimates=as_returned(estimates, name),
        measured=as_returned(measured, name),
        measurements=found.measurements,
        search_seconds=found.search_seconds,
        cut_cost=found.cut_cost,
        partition_gap=found.partition_gap,
        search_gap=found.search_gap,
    )
    return Comparison(schedule, name, variants)


def as_returned(latencies: Mapping[str, T], name: str) -> dict[str, T]:
    """Latencies by name, ``scheduled`` being that of the schedule ``name`` where it is known."""
    result = dict(latencies)
    if name != "scheduled":
        result["found"] = result.pop("scheduled")
        if name in latencies:
            result["scheduled"] = latencies[name]
    return result
