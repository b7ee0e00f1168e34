# SPDX-License-Identifier: Apache-2.0
"""Samples that no clock can have shown, or that a neighbour disturbed: taken again, or refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import pytest

from support.database import scheduler
from tvm_ios import DeviceError
from tvm_ios.backend.cpu.measure.runner import CpuStageRunner
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.database import MeasurementDatabase
from tvm_ios.graph.dag import Candidate
from tvm_ios.measure.samples import sensible, take, take_steady
from tvm_ios.measure.timing import StageTimer, fastest

IMPOSSIBLE = [math.nan, math.inf, -math.inf, 0.0, -1e-6]


def clock(*samples: float) -> Callable[[int], list[float]]:
    """One that shows these times, and then no other than the last."""
    shown: Iterator[float] = iter(samples)
    return lambda count: [next(shown, samples[-1]) for _ in range(count)]


class Fake:
    """A device that shows given times; ``asked`` counts the samples."""

    def __init__(self, *samples: float) -> None:
        self._clock, self.asked = clock(*samples), 0

    def time(self, _stage: object, count: int) -> list[float]:
        self.asked += count
        return self._clock(count)


@pytest.fixture(scope="module")
def made() -> Scheduler:
    return scheduler(None, winograd=False)


def _timer(made: Scheduler) -> tuple[StageTimer, object]:
    """A timer, and the stage of one convolution."""
    stage_builder = made.stage_builder
    spec = stage_builder.spec_of((0,), "concurrent")
    return StageTimer(stage_builder, {i.kernel.key: 1e-3 for i in spec.implementations}), spec


@pytest.mark.parametrize("wrong", IMPOSSIBLE)
def test_what_cannot_be_is_taken_again(wrong: float) -> None:
    assert not sensible([1.0, wrong])
    assert take(clock(wrong, 2.0, 3.0, wrong, 4.0), 3) == [2.0, 3.0, 4.0]
    assert take(clock(wrong), 3) == []


def _steady(*shown: float, count: int) -> list[float]:
    """What is kept of the samples of one name that took a second before."""
    times = clock(*shown)
    turns = lambda names, number: {name: times(number) for name in names}  # noqa: E731
    return take_steady(turns, count, {"stage": 1.0})["stage"]


def test_a_disturbed_median_is_taken_again() -> None:
    quiet = [1.0, 1.0, 1.1]
    assert _steady(*quiet, 9.0, count=3) == quiet
    loaded = [2.0, 2.0, 1.0, 1.0, 1.1, 1.0]
    assert _steady(*loaded, 9.0, count=2) == loaded
    assert _steady(2.0, 1.0, 1.0, 9.0, count=1) == [2.0, 1.0, 1.0]


def test_an_outlier_is_left_out() -> None:
    assert _steady(1.0, 50.0, 1.0, 1.1, count=4) == [1.0, 1.0, 1.1]


def test_only_what_was_disturbed_has_another_turn() -> None:
    asked: list[tuple[list[str], int]] = []
    times = {"quiet": clock(1.0), "loaded": clock(2.0, 2.0, 1.0)}

    def turns(names: Collection[str], count: int) -> dict[str, list[float]]:
        asked.append((list(names), count))
        return {name: times[name](count) for name in names}

    taken = take_steady(turns, 2, {"quiet": 1.0, "loaded": 1.0})
    assert taken == {"quiet": [1.0, 1.0], "loaded": [2.0, 2.0, 1.0, 1.0, 1.0, 1.0]}
    assert asked == [(["quiet", "loaded"], 2), (["loaded"], 2), (["loaded"], 2)]


def test_a_stage_is_timed_again(made: Scheduler) -> None:
    timer, spec = _timer(made)
    device = Fake(math.nan, 0.0, 1e-3, 5e-3, 5e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3)
    samples = timer.measure(device, spec)
    assert sensible(samples["tiles"])
    assert fastest(samples)[0] == 1e-3
    assert device.asked > 4


@pytest.mark.parametrize("wrong", IMPOSSIBLE)
def test_a_stage_without_a_sensible_time_has_none(made: Scheduler, wrong: float) -> None:
    timer, spec = _timer(made)
    assert timer.measure(Fake(wrong), spec) == {}
    assert timer.refine(Fake(wrong), spec, {"tiles": [1e-3]}) == {}


def _nonsense(monkeypatch: pytest.MonkeyPatch, wrong: float, where: Sequence[int]) -> None:
    """A device whose clock is wrong for stages of so many operators."""
    time = CpuStageRunner.time

    def wrong_time(self: CpuStageRunner, stage: object, repeat: int) -> list[float]:
        if len(stage.implementations) in where:
            return [wrong] * repeat
        return time(self, stage, repeat)

    monkeypatch.setattr(CpuStageRunner, "time", wrong_time)


def test_a_nonsensical_stage_is_neither_chosen_nor_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _nonsense(monkeypatch, math.nan, where=range(2, 10))
    path = tmp_path / "m.sqlite3"
    search = scheduler(path, winograd=False)
    found = search.search()
    assert all(len(stage.groups) == 1 for stage in found.stages)
    assert search.cost([Candidate((0, 1), "concurrent")])[0] == math.inf
    rows = list(MeasurementDatabase(path).rows())
    assert rows
    assert all(row.samples and all(map(sensible, row.samples.values())) for row in rows)


def test_a_device_that_always_answers_nonsense_ends_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _nonsense(monkeypatch, 0.0, where=range(10))
    with pytest.raises(DeviceError, match="impossible times"):
        scheduler(None, winograd=False).search()
