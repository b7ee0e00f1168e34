# SPDX-License-Identifier: Apache-2.0
"""Latencies at the machine's usual speed: what is scaled, taken again, left out and refused."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from tvm_ios.measure.protocol import TimedRuns
from tvm_ios.measure.timing.speed import MachineSpeed

IMPOSSIBLE = [math.nan, math.inf, -math.inf, 0.0, -1e-6]


def timed(speed: float = 1.0, seconds: float = 3.0, runs: int = 4) -> TimedRuns:
    """Runs at one speed, after one that warms up."""
    table = np.full((1 + runs, 1), seconds * speed)
    table[0] *= 5
    preempted = np.zeros(table.shape, bool)
    return TimedRuns(table, preempted, np.full((1 + runs, 2), speed), np.full(2, speed))


def shown(*runs: TimedRuns) -> tuple[Callable[[], TimedRuns], list[TimedRuns]]:
    """A device that shows these runs, the last ones for ever; and those that were asked for."""
    asked: list[TimedRuns] = []
    rest: Iterator[TimedRuns] = iter(runs)

    def take() -> TimedRuns:
        asked.append(next(rest, runs[-1]))
        return asked[-1]

    return take, asked


def used_to(*speeds: float) -> tuple[MachineSpeed, list[float]]:
    """A machine that was seen at these speeds; and how it waits."""
    pauses: list[float] = []
    speed = MachineSpeed(sleep=pauses.append)
    for known in speeds:
        speed.steady(shown(timed(known))[0])
    pauses.clear()
    return speed, pauses


def test_the_run_that_warms_up_does_not_count() -> None:
    speed, _ = used_to()
    assert speed.steady(shown(timed())[0]).tolist() == [[3.0]] * 4


@pytest.mark.parametrize("now", [0.8, 0.95, 1.05])
def test_latencies_are_scaled_to_one_speed(now: float) -> None:
    speed, pauses = used_to(1.0)
    take, asked = shown(timed(now))
    assert speed.steady(take) == pytest.approx(3.0)
    assert (len(asked), pauses) == (1, [])


def test_a_slow_machine_is_waited_for() -> None:
    speed, pauses = used_to(1.0)
    take, asked = shown(timed(2.0, 99.0), timed(1.5, 88.0), timed())
    assert speed.steady(take) == pytest.approx(3.0)
    assert len(asked) == 3
    assert len(pauses) == 2
    assert speed.waited == pytest.approx(sum(pauses))


def test_what_was_usual_was_a_busy_machine() -> None:
    speed, _ = used_to(2.0)
    assert speed.steady(shown(timed(1.0))[0]) == pytest.approx(6.0)  # at the first speed
    take, asked = shown(timed(2.0), timed(1.0))
    speed.steady(take)
    assert len(asked) == 2
    assert speed.base == 2.0


def test_a_machine_that_stays_slow_is_got_used_to() -> None:
    speed, pauses = used_to(1.0)
    assert speed.steady(shown(timed(2.0))[0]) == pytest.approx(3.0)
    waited = len(pauses)
    assert waited > 0
    assert speed.steady(shown(timed(2.0))[0]) == pytest.approx(3.0)
    assert len(pauses) == waited


def test_a_machine_that_goes_back_and_forth_is_waited_for_once() -> None:
    speed, pauses = used_to(1.0)
    speed.steady(shown(timed(1.15))[0])
    waited = len(pauses)
    assert waited > 0
    for now in (1.0, 1.15, 1.0):
        assert speed.steady(shown(timed(now))[0]) == pytest.approx(3.0)
    assert len(pauses) == waited
    speed.steady(shown(timed(1.5), timed(1.0))[0])
    assert len(pauses) > waited  # it is used to no other speed


def test_patience_ends() -> None:
    """Where the speed changes again and again, a search takes a minute longer at most."""
    speed, pauses = used_to(1.0)
    for number in range(200):
        speed.steady(shown(timed(2.0 + number))[0])
        speed.steady(shown(timed(1.0))[0])
    assert 10 < sum(pauses) < 60


def test_waiting_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    speed, _ = used_to(1.0)
    with caplog.at_level(logging.INFO, "tvm_ios"):
        for number in range(200):
            speed.steady(shown(timed(2.0 + number))[0])
            speed.steady(shown(timed(1.0))[0])
    first, *_ = caplog.messages
    assert first.startswith("The machine is busy")
    assert [message.startswith("The machine is busy") for message in caplog.messages].count(
        True
    ) == 1
    assert "stays busy" in caplog.messages[-1]


def test_a_machine_that_is_busy_at_the_beginning() -> None:
    """Latencies are not scaled to the speed that it had then."""
    speed, _ = used_to()
    assert speed.steady(shown(timed(2.0), timed(1.0))[0]) == pytest.approx(3.0)
    assert speed.base == 1.0


def _changed(runs: Sequence[int], *, copies: float = 1.0) -> TimedRuns:
    """Runs during some of which the speed changes; they take twice as long."""
    made = timed()
    for run in runs:
        made.seconds[1 + run] *= 2
        made.arithmetic[1 + run, 1] *= 2
    made.copies[1] *= copies
    return made


def test_runs_during_which_the_speed_changed_are_left_out() -> None:
    speed, pauses = used_to(1.0)
    samples = speed.steady(shown(_changed([1]))[0])
    assert np.isnan(samples[1]).all()
    assert np.nanmax(samples) == pytest.approx(3.0)
    assert pauses == []


@pytest.mark.parametrize("disturbed", [_changed([0, 1, 2]), _changed([], copies=1.5)])
def test_runs_that_were_mostly_disturbed_are_timed_again(disturbed: TimedRuns) -> None:
    speed, _ = used_to(1.0)
    take, asked = shown(disturbed, timed())
    assert speed.steady(take) == pytest.approx(3.0)
    assert len(asked) == 2


def test_preempted_samples_are_left_out() -> None:
    made = timed()
    made.seconds[2] *= 4
    made.preempted[2] = True
    samples = used_to(1.0)[0].steady(shown(made)[0])
    assert np.isnan(samples[1]).all()
    assert np.nanmax(samples) == pytest.approx(3.0)


def test_the_fastest_counts_where_all_were_preempted() -> None:
    made = timed()
    made.seconds[1:, 0] = [9.0, 7.0, 8.0, 9.0]
    made.preempted[1:] = True
    samples = used_to(1.0)[0].steady(shown(made)[0])
    assert samples[~np.isnan(samples)].tolist() == [7.0]


@pytest.mark.parametrize("wrong", IMPOSSIBLE)
@pytest.mark.parametrize("known", ["arithmetic", "copies"])
def test_known_work_that_takes_an_impossible_time(wrong: float, known: str) -> None:
    made = timed()
    getattr(made, known)[-1] = wrong
    speed, pauses = used_to(1.0)
    assert np.isnan(speed.steady(shown(made)[0])).all()
    assert pauses == []  # it does not become possible by waiting


def test_the_error_of_the_scale_is_that_of_the_speeds() -> None:
    same, different = used_to(*[1.0] * 9)[0], used_to(*np.linspace(0.96, 1.04, 9))[0]
    assert same.error == 0.0
    assert 0.01 < different.error < 0.1
