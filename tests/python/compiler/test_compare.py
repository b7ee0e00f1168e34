# SPDX-License-Identifier: Apache-2.0
"""Whole models against each other: what is returned, kept in the schedule, and said."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from tvm import relax

from support.networks import conv, relax_module
from support.numpy_backend import KIND, MakeTimer, NumpyKind
from tvm_ios.backend import registry
from tvm_ios.compiler.compare import Comparison, compare
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.options import Options
from tvm_ios.schedule import Schedule
from tvm_ios.transform import InterOperatorSchedule

Clock = Callable[[Mapping[str, float]], None]


def branches(emit: Any, x: relax.Expr) -> relax.Expr:
    parts = [emit(relax.op.nn.relu(emit(conv(x, 8, seed=i)))) for i in range(3)]
    return emit(relax.op.concat(parts, 1))


def chain(emit: Any, x: relax.Expr) -> relax.Expr:
    return emit(conv(emit(conv(x, 8)), 8))


MOD = relax_module(branches, (1, 4, 5, 5))


@pytest.fixture
def clock() -> Iterator[Callable[[MakeTimer], None]]:
    """Sets the clock of whole models."""
    yield lambda timer: registry.register(NumpyKind(timer))
    registry.register(NumpyKind())


@pytest.fixture
def shows(clock: Callable[[MakeTimer], None]) -> Clock:
    """Lets the clock show these seconds, by the names of the models."""
    return lambda seconds: clock(lambda name, _: lambda: seconds[name])


def compared() -> tuple[Comparison, Scheduler]:
    """The outcome where the search has found two branches beside each other, and not all three."""
    made = Scheduler.prepare(MOD, KIND)
    return compare(made, two_beside(made)), made


def two_beside(made: Scheduler) -> Schedule:
    found = made.search()
    first, *rest = found.stages
    beside = replace(first, groups=first.groups[:2])
    alone = replace(first, groups=first.groups[2:])
    return replace(found, stages=(beside, alone, *rest))


@pytest.mark.parametrize("fastest", ["greedy", "scheduled"])
def test_the_fastest_is_returned(fastest: str, shows: Clock) -> None:
    seconds = {"sequential": 2.0, "greedy": 3.0, "scheduled": 3.0, fastest: 1.0}
    shows(seconds)
    outcome, made = compared()
    assert outcome.name == fastest
    schedule = outcome.schedule
    assert schedule.stages == compared()[0].schedule.stages
    assert schedule.measured["scheduled"] == pytest.approx(1.0)
    assert ("found" in schedule.measured) == (fastest == "greedy")
    assert (schedule.stages == made.greedy().stages) == (fastest == "greedy")
    assert schedule.verdict == "2.000x, 95% interval 2.000-2.000"
    assert schedule.verdict in repr(schedule)
    assert Schedule.from_dict(json.loads(schedule.to_json())) == schedule


@pytest.mark.parametrize(
    ("others", "verdict"), [(1.0, "no difference found: sequential"), (1.25, "no gain found: seq")]
)
def test_without_proof_the_sequential_one_is_returned(
    others: float, verdict: str, shows: Clock
) -> None:
    shows({"sequential": 1.0, "greedy": others, "scheduled": others})
    outcome, made = compared()
    assert outcome.name == "sequential"
    assert outcome.schedule.stages == made.sequential().stages
    assert outcome.schedule.verdict.startswith(verdict)
    assert outcome.schedule.measured == pytest.approx(
        {"sequential": 1.0, "greedy": others, "found": others, "scheduled": 1.0}
    )


@pytest.mark.parametrize(("barriers", "kept"), [(1.0, "barrier"), (1.6, "point-to-point")])
def test_how_workers_wait_is_measured(barriers: float, kept: str, shows: Clock) -> None:
    shows({"sequential": 2.0, "greedy": 3.0, "scheduled": 1.5, "barriers": barriers})
    made = Scheduler.prepare(MOD, KIND)
    found = replace(two_beside(made), synchronization="point-to-point")
    outcome = compare(made, found)
    schedule = outcome.schedule
    assert (schedule.synchronization, schedule.stages) == (kept, found.stages)
    assert schedule.measured["scheduled"] == pytest.approx(min(barriers, 1.5))
    assert schedule.measured["barriers"] == pytest.approx(barriers)
    assert schedule.estimates["scheduled"] == pytest.approx(found.estimates["scheduled"])
    assert Schedule.from_dict(json.loads(schedule.to_json())) == schedule


def test_the_same_code_is_as_fast(shows: Clock) -> None:
    """The search finds the greedy schedule here, which is not timed again."""
    shows({"sequential": 2.0, "scheduled": 1.0})
    outcome = compare(Scheduler.prepare(MOD, KIND))
    assert outcome.name == "scheduled"
    measured = outcome.schedule.measured
    assert measured["greedy"] == measured["scheduled"] == pytest.approx(1.0)


def test_a_chain_has_nothing_to_compare(shows: Clock) -> None:
    shows({"sequential": 2.0, "greedy": 1.0, "scheduled": 1.0})
    mod, options = relax_module(chain, (1, 4, 5, 5)), Options(max_group_size=1)
    made = Scheduler.prepare(mod, KIND, options=options)
    outcome = compare(made)
    assert outcome.name == "scheduled"
    assert outcome.schedule.stages == made.sequential().stages
    assert set(outcome.schedule.measured.values()) == {2.0}
    assert outcome.schedule.verdict == "no difference found: sequential"


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_a_clock_that_lies(value: float, shows: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """The pass applies the sequential schedule, and one sentence says why."""
    shows({"sequential": value, "greedy": value, "scheduled": value})
    applied = InterOperatorSchedule(KIND)
    applied(MOD)
    assert applied.schedule is not None
    assert [len(stage.operators) for stage in applied.schedule.stages] == [1] * 4
    assert (applied.schedule.measured, applied.schedule.verdict) == ({}, "")
    (record,) = caplog.records
    assert "gave no times of the sequential model; no gain is claimed." in record.getMessage()


def test_a_busy_machine(
    clock: Callable[[MakeTimer], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Each sample takes a quarter longer than the one before, whatever runs."""
    samples = iter(range(1000))
    clock(lambda _name, seconds: lambda: seconds * 1.25 ** (next(samples) % 97))
    outcome, _ = compared()
    assert (outcome.name, outcome.schedule.speedup) == ("sequential", None)
    assert set(outcome.schedule.measured) == {"sequential", "greedy", "scheduled", "found"}
    (record,) = caplog.records
    assert record.getMessage().startswith("The machine was too busy to tell whether a schedule")
