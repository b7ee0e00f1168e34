# SPDX-License-Identifier: Apache-2.0
"""Schedules as objects and as files: what is written is read, what is wrong is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import tvm
from tvm import relax

from support.branches import network
from support.networks import NATIVE, check_scheduled, conv, few_stages, many_stages, relax_module
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.errors import ScheduleError
from tvm_ios.schedule import Schedule, ScheduledStage, Speedup
from tvm_ios.transform import InterOperatorSchedule

op = relax.op


@pytest.fixture(scope="module")
def scheduler() -> Scheduler:
    return Scheduler.prepare(network(), NATIVE, cost_model=few_stages)


@pytest.fixture(scope="module")
def schedule(scheduler: Scheduler) -> Schedule:
    speedup = Speedup(1.07, 1.05, 1.09)
    return replace(scheduler.sequential(), measured={"sequential": 1.5e-3}, speedup=speedup)


def test_a_schedule_is_read_as_it_was_written(schedule: Schedule, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    schedule.save(path)
    loaded = Schedule.load(path)
    assert loaded == schedule
    assert loaded.stages == schedule.stages
    assert [p.name for p in tmp_path.iterdir()] == ["s.json"]
    assert json.loads(path.read_text())["version"] == 2


def test_how_workers_wait_is_written(schedule: Schedule) -> None:
    written = json.loads(schedule.to_json())
    assert written["synchronization"] == schedule.synchronization
    with pytest.raises(ScheduleError, match="'synchronization' is none of barrier, point-to-point"):
        Schedule.from_dict({**written, "synchronization": "hope"})
    del written["synchronization"]  # as in earlier releases
    assert Schedule.from_dict(written).synchronization == "barrier"


def test_a_schedule_replaces_a_file(schedule: Schedule, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text("old")
    schedule.save(path)
    assert Schedule.load(path) == schedule


def test_nothing_is_left_of_a_file_that_cannot_be_written(
    schedule: Schedule, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", tmp_path / "missing" / "s.json"):
        with pytest.raises(ScheduleError, match="Cannot write the schedule"):
            schedule.save(path)
    assert [p.name for p in tmp_path.rglob("*")] == ["folder"]


def _without(key: str) -> Callable[[dict], dict]:
    return lambda data: {k: v for k, v in data.items() if k != key}


DAMAGE = {
    "another format": (lambda d: {**d, "format": "x"}, "is not a schedule of tvm-ios"),
    "a list": (lambda d: [d], "is not a schedule of tvm-ios"),
    "a later version": (lambda d: {**d, "version": 99}, "has version 99"),
    "no version": (_without("version"), "has version None"),
    "no stages": (_without("stages"), "'stages' is missing"),
    "no model": (_without("model"), "'model' is missing"),
    "stages of no kind": (lambda d: {**d, "stages": 3}, "is damaged"),
    "stages of text": (lambda d: {**d, "stages": ["ab"]}, "is damaged"),
    "groups of text": (lambda d: {**d, "stages": [{"groups": ["ab"]}]}, "lists of operators"),
    "an empty group": (lambda d: {**d, "stages": [{"groups": [[]]}]}, "lists of operators"),
    "an empty stage": (lambda d: {**d, "stages": [*d["stages"], {"groups": []}]}, "is damaged"),
    "a strategy": (
        lambda d: {**d, "stages": [{"groups": [["a"]], "strategy": "fast"}]},
        "'fast' is not a strategy",
    ),
    "a division": (
        lambda d: {**d, "stages": [{"groups": [["a"]], "partitioning": "in half"}]},
        "'in half' is not a work partitioning",
    ),
    "operations beyond measure": (
        lambda d: {**d, "operators": [{**d["operators"][0], "flops": 10**400}]},
        "'flops' is not a number of operations",
    ),
    "NaN": (
        lambda d: {**d, "stages": [{"groups": [["a"]], "seconds": float("nan")}]},
        "nan is not a latency",
    ),
    "a negative latency": (
        lambda d: {**d, "operators": [{"name": "a", "kind": "b", "seconds": -1.0}]},
        "-1.0 is not a latency",
    ),
    "no workers": (lambda d: {**d, "workers": 0}, "'workers' is not a number"),
    "workers of truth": (lambda d: {**d, "workers": True}, "'workers' is not a number"),
    "estimates of no kind": (lambda d: {**d, "estimates": 3}, "is damaged"),
    "a number beyond all floats": (
        lambda d: {**d, "estimates": {"scheduled": 10**400}},
        "is damaged",
    ),
    "an infinite count": (lambda d: {**d, "measurements": 1e999}, "is damaged"),
    "more threads than anybody has": (lambda d: {**d, "workers": 10**400}, "not a number of"),
    "a target without a kind": (lambda d: {**d, "target": '{"mcpu": "x"}'}, "not a target"),
    "a target that is a list": (lambda d: {**d, "target": "[1]"}, "not a target"),
    "a target that is nested": (lambda d: {**d, "target": '{"a":' * 100_000}, "is damaged"),
    "a target that is a number": (lambda d: {**d, "target": 3}, "is damaged"),
    "a speed-up that is a number": (lambda d: {**d, "speedup": 1.1}, "'speedup' is not an object"),
    "a speed-up without an end": (lambda d: {**d, "speedup": {"ratio": 1, "low": 1}}, "is missing"),
    "a speed-up outside its interval": (
        lambda d: {**d, "speedup": {"ratio": 1.2, "low": 1.0, "high": 1.1}},
        "not a ratio within an interval",
    ),
    "a speed-up of zero": (
        lambda d: {**d, "speedup": {"ratio": 1.0, "low": 0, "high": 1.1}},
        "not a ratio within an interval",
    ),
    "a speed-up without bound": (
        lambda d: {**d, "speedup": {"ratio": 1.0, "low": 0.9, "high": 1e999}},
        "not a ratio within an interval",
    ),
    "a speed-up that is no number": (
        lambda d: {**d, "speedup": {"ratio": float("nan"), "low": 0.9, "high": 1.1}},
        "not a ratio within an interval",
    ),
    "operators of no kind": (lambda d: {**d, "operators": {}}, "not lists"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file(damage, message: str, schedule: Schedule, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps(damage(schedule.to_dict())))
    with pytest.raises(ScheduleError, match=message) as caught:
        Schedule.load(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe\x00", b"not json", b"[" * 200_000, b'{"format":' * 200_000],
    ids=["empty", "cut off", "binary", "text", "nested lists", "nested objects"],
)
def test_a_file_that_is_no_json(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_bytes(content)
    with pytest.raises(ScheduleError, match="it is not JSON"):
        Schedule.load(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match="Cannot read the schedule"):
        Schedule.load(tmp_path / "none.json")
    with pytest.raises(ScheduleError, match="Cannot read the schedule"):
        InterOperatorSchedule(NATIVE, schedule=tmp_path / "none.json")


def stages(*groups: str, **attrs: str) -> tuple[ScheduledStage, ...]:
    """One stage per argument: groups divided by ``|``, operators by blanks."""
    return tuple(
        ScheduledStage(tuple(tuple(g.split()) for g in stage.split("|")), **attrs)
        for stage in groups
    )


WRONG = {
    "an unknown operator": (
        stages("max_pool2d_0", "conv2d_1 | conv2d_9"),
        "'conv2d_9' that the model lacks",
    ),
    "a repeated operator": (
        stages("max_pool2d_0", "conv2d_1 | conv2d_2", "avg_pool2d_3 | conv2d_1", "concat_4"),
        "repeats operator 'conv2d_1'",
    ),
    "an omitted operator": (
        stages("max_pool2d_0", "conv2d_1 | conv2d_2", "concat_4"),
        "omits operator 'avg_pool2d_3'",
    ),
    "stages in the wrong order": (
        stages("conv2d_1", "max_pool2d_0", "conv2d_2 | avg_pool2d_3", "concat_4"),
        "breaks the edge from 'max_pool2d_0' to 'conv2d_1'",
    ),
    "a consumer beside its producer": (
        stages("max_pool2d_0 | conv2d_1", "conv2d_2 | avg_pool2d_3", "concat_4"),
        "breaks the edge from 'max_pool2d_0' to 'conv2d_1'",
    ),
    "a group in the wrong order": (
        stages("conv2d_1 max_pool2d_0", "conv2d_2 | avg_pool2d_3", "concat_4"),
        "breaks the edge from 'max_pool2d_0' to 'conv2d_1'",
    ),
    "a merged edge": (
        (
            *stages("max_pool2d_0 conv2d_1", strategy="merge"),
            *stages("conv2d_2 | avg_pool2d_3", "concat_4"),
        ),
        "merges operators that cannot be merged: max_pool2d_0, conv2d_1",
    ),
    "merging a pooling": (
        (
            *stages("max_pool2d_0"),
            *stages("conv2d_1 | avg_pool2d_3", strategy="merge"),
            *stages("conv2d_2", "concat_4"),
        ),
        "merges operators that cannot be merged: conv2d_1, avg_pool2d_3",
    ),
}


@pytest.mark.parametrize(("wrong", "message"), WRONG.values(), ids=WRONG)
def test_a_schedule_that_does_not_fit(wrong, message: str, scheduler, schedule) -> None:
    with pytest.raises(ScheduleError, match=message):
        scheduler.emit(replace(schedule, stages=wrong))


@pytest.mark.parametrize("other", [network(size=9), network(width=25)], ids=["shape", "model"])
def test_a_schedule_of_another_model(other: tvm.IRModule, schedule: Schedule) -> None:
    with pytest.raises(ScheduleError, match="made for another model or other input shapes"):
        InterOperatorSchedule(NATIVE, schedule=schedule)(other)


EDITED = {
    "one stage": stages("max_pool2d_0 conv2d_1 conv2d_2 avg_pool2d_3 concat_4"),
    "groups of chains": stages("max_pool2d_0", "conv2d_2 | conv2d_1 | avg_pool2d_3", "concat_4"),
    "unconnected operators in a group": (
        *stages("max_pool2d_0"),
        *stages("conv2d_2 avg_pool2d_3 | conv2d_1", partitioning="groups"),
        *stages("concat_4"),
    ),
    "merged": (
        *stages("max_pool2d_0"),
        *stages("conv2d_2 | conv2d_1", strategy="merge"),
        *stages("avg_pool2d_3 concat_4"),
    ),
}


@pytest.mark.parametrize("edited", EDITED.values(), ids=EDITED)
def test_an_edited_schedule_is_applied(edited, schedule: Schedule, tmp_path: Path) -> None:
    changed = replace(schedule, stages=edited)
    changed.save(tmp_path / "s.json")
    check_scheduled(network(), schedule=tmp_path / "s.json")
    applied = InterOperatorSchedule(NATIVE, schedule=changed)
    mod = applied(network())
    assert applied.schedule == changed
    assert mod["main"].script().count("R.call_dps_packed(") == 1


def test_a_schedule_fits_other_weights(schedule: Schedule) -> None:
    def body(emit, x):
        x = emit(op.nn.max_pool2d(x, (3, 3), padding=1))
        branches = [emit(conv(x, 24, 1, seed=8)), emit(conv(x, 8, 3, seed=9))]
        branches.append(emit(op.nn.avg_pool2d(x, (3, 3), padding=1)))
        return emit(op.concat(branches, axis=1))

    check_scheduled(relax_module(body, (1, 20, 8, 8)), schedule=schedule)


def test_the_baselines(scheduler: Scheduler) -> None:
    assert [s.operators for s in scheduler.sequential().stages] == [
        ("max_pool2d_0",),
        ("conv2d_1",),
        ("conv2d_2",),
        ("avg_pool2d_3",),
        ("concat_4",),
    ]
    assert [len(s.groups) for s in scheduler.greedy().stages] == [1, 3, 1]


def test_what_a_schedule_says_of_itself(scheduler: Scheduler, schedule: Schedule) -> None:
    lines = repr(schedule).splitlines()
    assert lines[0].startswith("Schedule of 5 operators in 5 stages for 2 workers")
    assert "sequential 1.500 ms; 1.07x, 95% interval 1.05-1.09" in lines[0]
    assert lines[2].split()[-2:] == ["tiles", "conv2d_1"]
    merged = replace(schedule, stages=EDITED["merged"])
    assert "merge" in repr(merged)
    assert "conv2d_2 | conv2d_1" in repr(merged)
    found = Scheduler.prepare(network(), NATIVE, cost_model=many_stages).search()
    assert repr(found).count("\n") == 5


OTHERS = {
    "threads": {**dict(NATIVE.export()), "num-cores": 5},
    "CPU": {"kind": "llvm", "mcpu": "x86-64-v2", "num-cores": 2},
}


@pytest.mark.parametrize("config", OTHERS.values(), ids=OTHERS)
def test_a_schedule_of_another_target(config: dict, schedule: Schedule) -> None:
    with pytest.raises(ScheduleError, match=r"made for llvm .* with 2 threads, not for llvm"):
        InterOperatorSchedule(tvm.target.Target(config), schedule=schedule)(network())
