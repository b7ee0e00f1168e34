# SPDX-License-Identifier: Apache-2.0
"""Timelines of real runs: whole, in order, and what they say of themselves; and waiting in them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import tvm
from tvm import relax

from support.branches import network
from support.cli import Compiled, assert_one_sentence
from support.networks import NATIVE, WORKERS, conv, few_stages, merging, relax_module
from tvm_ios.cli.main import main
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.errors import ScheduleError
from tvm_ios.options import Options
from tvm_ios.schedule import Schedule, ScheduledStage
from tvm_ios.schedule.timeline import Span, Timeline
from tvm_ios.target import resolve

TOLERANCE = 1e-6  # microseconds, of sums of numbers that were rounded


def by_worker(spans: Sequence[Span]) -> dict[int, list[Span]]:
    tracks = defaultdict(list)
    for span in spans:
        tracks[span.worker].append(span)
    return tracks


@pytest.mark.parametrize("cost_model", [few_stages, merging])
def test_a_trace_is_a_run_of_the_schedule(cost_model) -> None:
    scheduler = Scheduler.prepare(network(), NATIVE, cost_model=cost_model)
    schedule = scheduler.search()
    spans = scheduler.trace(schedule, repeat=2).spans
    assert min(span.begin for span in spans) == 0.0
    for track in by_worker(spans).values():
        assert all(one.end <= other.begin for one, other in pairwise(track))
    assert set(by_worker(spans)) <= set(range(WORKERS))
    seen = defaultdict(set)
    for span in spans:
        seen[span.stage] |= set(scheduler.graph.names(span.operators))
        assert span.begin < span.end
    assert [seen[n] for n in sorted(seen)] == [set(stage.operators) for stage in schedule.stages]
    merged = {number for number, stage in enumerate(schedule.stages) if stage.strategy == "merge"}
    assert merged == {span.stage for span in spans if len(span.operators) > 1}
    assert bool(merged) == (cost_model is merging)


def test_stages_meet_at_barriers() -> None:
    scheduler = Scheduler.prepare(network(32, 64), NATIVE, cost_model=few_stages)
    schedule = replace(scheduler.sequential(), synchronization="barrier")
    spans = scheduler.trace(schedule).spans
    ends, begins = defaultdict(float), defaultdict(lambda: float("inf"))
    for span in spans:
        ends[span.stage] = max(ends[span.stage], span.end)
        begins[span.stage] = min(begins[span.stage], span.begin)
    ran = sorted(ends)
    assert len(ran) > 2
    assert all(ends[one] <= begins[other] for one, other in pairwise(ran))
    assert set(by_worker(spans)) <= set(range(WORKERS))


def track(timeline: Timeline, worker: int) -> list[tuple[float, float]]:
    """When a worker computes or waits, in order."""
    own = [(s.begin, s.end) for s in timeline.spans if s.worker == worker]
    return sorted([*own, *((w.begin, w.end) for w in timeline.waits if w.worker == worker)])


@pytest.mark.parametrize("synchronization", ["barrier", "point-to-point"])
def test_a_real_run_is_work_and_waiting(synchronization: str) -> None:
    """What is neither is the start, and the reading of the clock."""
    scheduler = Scheduler.prepare(network(32, 64), NATIVE, cost_model=few_stages)
    schedule = replace(scheduler.sequential(), synchronization=synchronization)
    timeline = scheduler.trace(schedule)
    assert timeline.waits
    for worker in range(WORKERS):
        whole = track(timeline, worker)
        assert all(one[1] <= other[0] for one, other in pairwise(whole))
    assert all(wait.cause in timeline.spans for wait in timeline.waits)
    assert all(wait.begin < wait.cause.end <= wait.end for wait in timeline.waits)
    ends = {wait.end for wait in timeline.waits}
    assert ends <= {s.begin for s in timeline.spans} | {max(s.end for s in timeline.spans)}


def test_one_worker_waits_for_nobody() -> None:
    scheduler = Scheduler.prepare(network(), resolve("llvm", threads=1), cost_model=few_stages)
    timeline = scheduler.trace(scheduler.sequential(), repeat=2)
    assert {span.worker for span in timeline.spans} == {0}
    assert {span.stage for span in timeline.spans} == set(range(len(scheduler.sequential().stages)))
    assert timeline.waits == ()


def test_what_is_left_to_tvm_is_a_gap() -> None:
    """The workers do not wait for each other across it."""

    def body(emit, x):
        return emit(conv(emit(relax.op.cumsum(emit(conv(x, 16)), 3)), 16, seed=1))

    scheduler = Scheduler.prepare(relax_module(body, (1, 8, 20, 20)), NATIVE, cost_model=few_stages)
    schedule = scheduler.sequential()
    timeline = scheduler.trace(schedule, repeat=2)
    first, _, last = range(len(schedule.stages))
    assert {span.stage for span in timeline.spans} == {first, last}
    end = max(span.end for span in timeline.spans if span.stage == first)
    assert end < min(span.begin for span in timeline.spans if span.stage == last)
    for wait in timeline.waits:
        assert (wait.end <= end) == (wait.begin < end) == (wait.cause.stage == first)


def test_row_strips_are_in_it_one_by_one() -> None:
    def body(emit, x):
        x = emit(relax.op.nn.max_pool2d(x, (2, 2), (2, 2)))
        x = emit(conv(emit(conv(x, 64, padding=1)), 64, 1, seed=1))
        return emit(relax.op.nn.max_pool2d(x, (2, 2), (2, 2)))

    mod = relax_module(body, (1, 32, 120, 120))
    options = Options(winograd=False)
    scheduler = Scheduler.prepare(mod, NATIVE, options=options, cost_model=few_stages)
    given = scheduler.sequential()
    both = tuple(operator.name for operator in scheduler.graph.operators)[1:3]
    strips = ScheduledStage((both,), partitioning="strips")
    stages = (given.stages[0], strips, *given.stages[3:])
    timeline = scheduler.trace(replace(given, stages=stages), 2)
    for worker in {s.worker for s in timeline.spans if s.stage == 1}:
        kernels = [s.operators for s in timeline.spans if (s.worker, s.stage) == (worker, 1)]
        assert len(kernels) > len(set(kernels)) == 2
        assert all(one[1] <= other[0] for one, other in pairwise(track(timeline, worker)))


def test_waits_may_be_checked_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_IOS_CHECK_WAITS", "1")
    scheduler = Scheduler.prepare(network(), NATIVE, cost_model=few_stages)
    assert scheduler.trace(scheduler.sequential(), repeat=2).spans


def test_nothing_to_run() -> None:
    mod = relax_module(lambda emit, x: emit(relax.op.cumsum(x, 1)), (4, 4))
    scheduler = Scheduler.prepare(mod, NATIVE, cost_model=few_stages)
    with pytest.raises(ScheduleError, match="TVM lowers it all"):
        scheduler.trace(scheduler.sequential())


def test_a_timeline_as_a_file(compiled: Compiled, tmp_path: Path, capsys) -> None:
    model, path, out = (compiled / "model.onnx", compiled / "s.json", tmp_path / "trace.json")
    command = ["show", str(path), "--format", "perfetto", "--model", str(model), "-o", str(out)]
    assert main(command) == 0
    assert capsys.readouterr().out == ""
    whole, schedule = json.loads(out.read_text()), Schedule.load(path)
    titles = {
        e["tid"]: e["args"]["name"] for e in whole["traceEvents"] if e["name"] == "thread_name"
    }
    assert list(titles.values())[-2:] == ["worker 0", "worker 1"]
    assert set(titles.values()) == {"stages", "worker 0", "worker 1"}
    kinds = {operator.name: operator.kind for operator in schedule.operators}
    events = [e for e in whole["traceEvents"] if e["ph"] == "X"]
    for event in events:
        assert {"name", "cat", "pid", "tid", "ts", "dur", "args"} <= set(event)
        assert event["ts"] >= 0
        assert event["dur"] > 0
    stages = [e for e in events if titles[e["tid"]] == "stages"]
    for one, other in pairwise(sorted(stages, key=lambda event: (event["tid"], event["ts"]))):
        assert one["tid"] < other["tid"] or one["ts"] + one["dur"] <= other["ts"] + TOLERANCE
    missing = whole["otherData"]["lowered by TVM and not run, or done in place by others"]
    assert len(stages) + len(missing) == len(schedule.stages)
    waiting = [e for e in events if e["cat"] == "wait"]
    assert all(e["name"].startswith("wait for ") for e in waiting)
    assert {titles[e["tid"]] for e in waiting} <= {"worker 0", "worker 1"}
    for event in (e for e in events if titles[e["tid"]] != "stages" and e not in waiting):
        (stage,) = (s for s in stages if s["name"] == f"stage {event['args']['stage']}")
        assert stage["ts"] <= event["ts"] + TOLERANCE
        assert event["ts"] + event["dur"] <= stage["ts"] + stage["dur"] + TOLERANCE
        assert isinstance(event["args"]["kernel"], str)
        for name in event["name"].split(" + "):
            assert event["args"][name][0] == kinds[name]
    assert "entered and left each kernel" in whole["otherData"]["measured"]


def test_arguments_of_a_timeline(compiled: Compiled, capsys, tmp_path: Path) -> None:
    path, out = str(compiled / "s.json"), tmp_path / "t.json"
    cases = {
        "give it with --model": ["--format", "perfetto"],
        "--model is for": ["--format", "svg", "--model", str(compiled / "model.onnx")],
        "--model runs one schedule": [path, "--model", str(compiled / "model.onnx")],
        "another model": ["--format", "perfetto", "--model", "zoo:inception_v3_small"],
        "There is no model none.onnx": ["--format", "perfetto", "--model", "none.onnx"],
    }
    for message, arguments in cases.items():
        assert main(["show", path, *arguments, "-o", str(out)]) == 4
        assert_one_sentence(capsys.readouterr(), message)
    assert list(tmp_path.iterdir()) == []


def test_a_schedule_of_another_machine(compiled: Compiled, capsys, tmp_path: Path) -> None:
    data = json.loads((compiled / "s.json").read_text())
    data["target"] = str(tvm.target.Target({"kind": "llvm", "mtriple": "riscv64-linux-gnu"}))
    path = tmp_path / "s.json"
    path.write_text(json.dumps(data))
    model = str(compiled / "model.onnx")
    assert main(["show", str(path), "--format", "perfetto", "--model", model]) == 4
    assert_one_sentence(capsys.readouterr(), "cannot run code for")
