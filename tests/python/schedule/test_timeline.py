# SPDX-License-Identifier: Apache-2.0
"""Timelines of real runs: whole, in order, and what they say of themselves; and waiting in them."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
import tvm
from tvm import relax

from support.branches import network
from support.cli import Compiled, assert_one_sentence
from support.networks import NATIVE, WORKERS, few_stages, merging, relax_module
from tvm_ios.cli.main import main
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.errors import ScheduleError
from tvm_ios.schedule import Schedule
from tvm_ios.schedule.timeline import Span, Wait, waits

TOLERANCE = 1e-6  # microseconds, of sums of numbers that were rounded


def by_worker(spans: list[Span]) -> dict[int, list[Span]]:
    tracks = defaultdict(list)
    for span in spans:
        tracks[span.worker].append(span)
    return tracks


@pytest.mark.parametrize("cost_model", [few_stages, merging])
def test_a_trace_is_a_run_of_the_schedule(cost_model) -> None:
    scheduler = Scheduler.prepare(network(), NATIVE, cost_model=cost_model)
    schedule = scheduler.search()
    spans = scheduler.trace(schedule, repeat=2)
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
    spans = scheduler.trace(scheduler.sequential())
    ends, begins = defaultdict(float), defaultdict(lambda: float("inf"))
    for span in spans:
        ends[span.stage] = max(ends[span.stage], span.end)
        begins[span.stage] = min(begins[span.stage], span.begin)
    ran = sorted(ends)
    assert len(ran) > 2
    assert all(ends[one] <= begins[other] for one, other in pairwise(ran))
    assert len(by_worker(spans)) == WORKERS


def span(worker: int, level: int, begin: float, end: float) -> Span:
    return Span(worker, level, level, (level,), "kernel", 0, begin, end)


def test_workers_wait_for_the_last_kernel() -> None:
    slow, late = span(0, 0, 0.0, 5.0), span(1, 1, 6.0, 9.0)
    spans = [slow, span(1, 0, 0.0, 3.0), span(0, 1, 5.5, 7.0), late]
    assert list(waits(spans, 2)) == [
        Wait(0, slow, 5.0, 5.5),
        Wait(1, slow, 3.0, 6.0),
        Wait(0, late, 7.0, 9.0),
    ]


def test_a_worker_without_kernels_waits_through() -> None:
    """It has nothing to do in the second level, and nothing at all if it is the third one."""
    second, last = span(0, 1, 2.0, 4.0), span(1, 2, 4.0, 6.0)
    spans = [span(0, 0, 0.0, 2.0), span(1, 0, 0.0, 1.0), second, span(0, 2, 4.0, 5.0), last]
    found = list(waits(spans, 3))
    assert Wait(1, second, 1.0, 4.0) in found
    assert Wait(2, last, 0.0, 6.0) in found
    busy = sum(span.end - span.begin for span in spans)
    assert busy + sum(wait.end - wait.begin for wait in found) == 3 * 6.0


def test_a_real_run_is_work_and_waiting() -> None:
    """What is neither is the start, and what lies between kernels of one level."""
    scheduler = Scheduler.prepare(network(32, 64), NATIVE, cost_model=few_stages)
    spans = scheduler.trace(scheduler.sequential())
    found = list(waits(spans, WORKERS))
    assert {wait.worker for wait in found} == set(range(WORKERS))
    for worker, track in by_worker(spans).items():
        own = [(s.begin, s.end) for s in track]
        own += [(w.begin, w.end) for w in found if w.worker == worker]
        assert all(one[1] <= other[0] for one, other in pairwise(sorted(own)))


def test_nothing_to_run() -> None:
    mod = relax_module(lambda emit, x: emit(relax.op.sort(x)), (4, 4))
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
    assert titles == {2: "stages", 3: "worker 0", 4: "worker 1"}
    kinds = {operator.name: operator.kind for operator in schedule.operators}
    events = [e for e in whole["traceEvents"] if e["ph"] == "X"]
    for event in events:
        assert {"name", "cat", "pid", "tid", "ts", "dur", "args"} <= set(event)
        assert event["ts"] >= 0
        assert event["dur"] > 0
    stages = [e for e in events if titles[e["tid"]] == "stages"]
    for one, other in pairwise(stages):
        assert one["ts"] + one["dur"] <= other["ts"] + TOLERANCE
    missing = whole["otherData"]["lowered by TVM and not run, or done in place by others"]
    assert len(stages) + len(missing) == len(schedule.stages)
    waiting = [e for e in events if e["cat"] == "wait"]
    assert all(e["name"].startswith("wait for ") for e in waiting)
    assert {titles[e["tid"]] for e in waiting} == {"worker 0", "worker 1"}
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
