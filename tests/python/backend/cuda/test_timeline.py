# SPDX-License-Identifier: Apache-2.0
"""Timelines of CUDA devices, on the fake driver: a launch takes a millisecond, an event nothing."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tvm import relax

import tvm_ios
from support.cuda.cli import command
from support.cuda.fake_driver import TARGET, Emulated
from support.cuda.model import Driver
from support.cuda.whole import repartitioned, settings
from support.networks import conv, few_stages, many_stages, merging, relax_module
from tvm_ios.backend.cuda.stage.stage import CudaStage
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.errors import ScheduleError
from tvm_ios.schedule import Schedule
from tvm_ios.schedule.synchronization import Synchronization
from tvm_ios.schedule.timeline import Span

op = relax.op
NOT_COMPUTING = {"TVM_IOS_FAKE_DRIVER_COMPUTE": "0"}
MILLISECOND = 1e-3


def branches(emit, x):
    """A branch of two operators beside two of one, what joins them, and what TVM lowers."""
    a = emit(op.nn.max_pool2d(emit(conv(x, 8)), (3, 3), padding=(1, 1)))
    b = emit(conv(x, 4, 1, seed=1))
    c = emit(conv(x, 4, 3, seed=2))
    joined = emit(op.concat([a, b, c], axis=1))
    return emit(op.cumsum(emit(op.nn.softmax(joined, axis=1)), axis=1))


NETWORK = relax_module(branches, (1, 8, 6, 6))

Traced = tuple[Schedule, list[Span], list[list[tuple[int, ...]]], list[str]]


def scheduled(variant: str) -> tuple[Scheduler, Schedule]:
    """The network with as few stages as there may be, divided so, or merged, or sequential.

    Stages follow each other, but if the variant is "waits": then each operator is one.
    """
    cost_model = {"merge": merging, "waits": many_stages}.get(variant, few_stages)
    scheduler = Scheduler.prepare(NETWORK, TARGET, cost_model=cost_model)
    if variant == "sequential":
        return scheduler, scheduler.unsearched()
    found = scheduler.search()
    if variant == "waits":
        return scheduler, found
    found = replace(found, synchronization="barrier")
    return scheduler, found if variant == "merge" else repartitioned(scheduler, found, variant)


def trace(variant: str) -> Traced:
    """A schedule, what its trace says, what its stages launch, and what the driver was asked.

    Of the launches there is the stream, and behind it the operators.
    """
    scheduler, schedule = scheduled(variant)
    with settings(NOT_COMPUTING), Driver().journal() as journal:
        spans = scheduler.trace(schedule, repeat=2).spans
    stages = [stage for stage in scheduler.lower(schedule) if isinstance(stage, CudaStage)]
    launches = [[(la.stream, *stage.computed_by(la)) for la in stage.launches] for stage in stages]
    return schedule, spans, launches, journal


@pytest.fixture(scope="module")
def traced(emulated: Emulated) -> Callable[[str], Traced]:
    known: dict[str, Traced] = {}

    def one(variant: str) -> Traced:
        if variant not in known:
            known[variant] = emulated.call(trace, variant)
        return known[variant]

    return one


def by(spans: list[Span], key: Callable[[Span], Any]) -> dict[Any, list[Span]]:
    """The spans by what a function says of them."""
    parts = defaultdict(list)
    for span in spans:
        parts[key(span)].append(span)
    return parts


WAYS = ["streams", "streams-2", "fused", "merge", "sequential"]


@pytest.mark.parametrize("variant", WAYS)
def test_every_operator_runs_once(traced: Callable[[str], Traced], variant: str) -> None:
    schedule, spans, launches, journal = traced(variant)
    assert not any("misuse" in line for line in journal)
    assert [(s.worker, *s.operators) for s in spans] == [one for own in launches for one in own]
    names = [operator.name for operator in schedule.operators]
    ran = by(spans, lambda span: span.stage)
    assert len(ran) == len(schedule.stages) - 1  # all but what TVM lowers
    for number, own in ran.items():
        computed = Counter(names[i] for span in own for i in span.operators)
        assert computed == Counter(schedule.stages[number].operators)


@pytest.mark.parametrize("variant", WAYS)
def test_tracks_and_stages_follow_each_other(traced: Callable[[str], Traced], variant: str) -> None:
    _, spans, launches, _ = traced(variant)
    for track in by(spans, lambda span: span.worker).values():
        assert all(one.end <= other.begin for one, other in pairwise(track))
    stages = by(spans, lambda span: span.stage)
    lasts = []
    for (before, own), launched in zip(pairwise([[], *stages.values()]), launches, strict=True):
        begin, end = min(span.begin for span in own), max(span.end for span in own)
        assert begin == pytest.approx(max((span.end for span in before), default=0.0))
        assert len(by(own, lambda span: span.worker)) == 1 + max(one[0] for one in launched)
        lasts.append(end - begin)
    assert sum(lasts) == pytest.approx(max(span.end for span in spans))
    assert all(span.end - span.begin == pytest.approx(MILLISECOND) for span in spans)


def test_groups_run_side_by_side(traced: Callable[[str], Traced]) -> None:
    """Three branches on as many streams, on two, in one launch for each of their levels, or not."""
    ends = {variant: max(span.end for span in traced(variant)[1]) for variant in WAYS}
    rest = 2  # what joins the branches, and the softmax
    branches = {variant: round(end / MILLISECOND) - rest for variant, end in ends.items()}
    assert branches.pop("streams-2") in (2, 3)  # by which branches share a stream
    assert branches == {"streams": 2, "fused": 2, "merge": 3, "sequential": 4}
    streams = {variant: len({span.worker for span in traced(variant)[1]}) for variant in WAYS}
    assert streams == {"streams": 3, "streams-2": 2, "fused": 1, "merge": 1, "sequential": 1}
    together = {
        variant: max(len(span.operators) for span in traced(variant)[1]) for variant in WAYS
    }
    assert together == {"streams": 1, "streams-2": 1, "fused": 3, "merge": 2, "sequential": 1}


def test_kernels_wait_for_what_they_read(traced: Callable[[str], Traced]) -> None:
    """Each operator is a stage; the network takes as long as its longest path."""
    schedule, spans, _, journal = traced("waits")
    assert schedule.synchronization == "point-to-point"
    assert not any("misuse" in line for line in journal)
    names = [operator.name for operator in schedule.operators]
    ended = {names[span.operators[0]]: span.end for span in spans}
    assert [names[span.operators[0]] for span in spans] == [
        stage.operators[0] for stage in schedule.stages if stage.operators[0] in ended
    ]
    assert [span.stage for span in spans] == sorted({span.stage for span in spans})
    reads = {operator.name: operator.reads or () for operator in schedule.operators}
    for span in spans:
        before = [ended[name] for name in reads[names[span.operators[0]]]]
        assert span.begin == pytest.approx(max(before, default=0.0))
    assert max(ended.values()) == pytest.approx(4 * MILLISECOND)
    assert len({span.worker for span in spans}) == 3


def test_the_trace_is_of_one_graph(traced: Callable[[str], Traced]) -> None:
    _, spans, _, journal = traced("streams")
    assert sum(": begin" in line for line in journal) == 1
    assert sum(": replay" in line for line in journal) == 1 + 2
    launched = [line for line in journal if ": launch" in line and ": launch copy" not in line]
    assert len(launched) == 2 * len(spans)  # once to warm up
    assert sum(": node" in line for line in journal) == 1 + 2 * len(spans)


def traced_in_vain() -> str:
    mod = relax_module(lambda emit, x: emit(op.cumsum(x, axis=1)), (4, 4))
    scheduler = Scheduler.prepare(mod, TARGET, cost_model=few_stages)
    with pytest.raises(ScheduleError) as error:
        scheduler.trace(scheduler.unsearched())
    return str(error.value)


def test_nothing_to_run(emulated: Emulated) -> None:
    assert "TVM lowers it all" in emulated.call(traced_in_vain)


def test_kernels_that_cannot_be_had(caplog: pytest.LogCaptureFixture) -> None:
    """Not a run of other kernels is drawn, but none."""
    scheduler, schedule = scheduled("sequential")
    first, *others = schedule.operators
    foreign = replace(schedule, operators=(replace(first, kernel="cudnn1"), *others))
    with pytest.raises(ScheduleError, match="computed by cudnn1, which is not among its kernels"):
        scheduler.trace(foreign)
    assert caplog.text == ""


def saved(directory: Path, network: str, synchronization: Synchronization) -> Schedule:
    """A schedule of few stages on streams, as a file."""
    scheduler = Scheduler.prepare(tvm_ios.zoo.load(network), TARGET, cost_model=few_stages)
    found = replace(scheduler.search(), synchronization=synchronization)
    schedule = repartitioned(scheduler, found, "streams")
    schedule.save(directory / "s.json")
    return schedule


def test_a_timeline_as_a_file(emulated: Emulated, tmp_path: Path) -> None:
    schedule = emulated.call(saved, tmp_path, "nasrnn_small", "barrier")
    line = "show s.json --format perfetto --model zoo:nasrnn_small --device-id 1 -o t.json"
    status, out, error, _ = emulated.call(command, tmp_path, line.split(), NOT_COMPUTING)
    assert (status, out, error) == (0, "", "")
    whole = json.loads((tmp_path / "t.json").read_text())
    titles = {
        e["tid"]: e["args"]["name"] for e in whole["traceEvents"] if e["name"] == "thread_name"
    }
    streams = max(len(stage.groups) for stage in schedule.stages)
    assert titles == {2: "stages", **{3 + i: f"stream {i}" for i in range(streams)}}
    events = [e for e in whole["traceEvents"] if e["ph"] == "X"]
    operators = {operator.name: operator for operator in schedule.operators}
    for event in (e for e in events if titles[e["tid"]] != "stages"):
        for name in event["name"].split(" + "):
            assert event["args"][name][:2] == [operators[name].kind, *operators[name].outputs]
            assert event["args"]["kernel"] == operators[name].kernel
    assert "CUDA graph" in whole["otherData"]["measured"]
    how = [e["args"]["how"] for e in events if titles[e["tid"]] == "stages"]
    assert f"concurrent, {streams} streams" in how


def test_a_timeline_of_stages_side_by_side(emulated: Emulated, tmp_path: Path) -> None:
    """Nothing overlaps on a track."""
    emulated.call(saved, tmp_path, "nasrnn_small", "point-to-point")
    line = "show s.json --format perfetto --model zoo:nasrnn_small -o t.json"
    assert emulated.call(command, tmp_path, line.split(), NOT_COMPUTING)[0] == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    titles = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    tracks = by([e for e in events if e["ph"] == "X"], lambda event: event["tid"])
    assert set(tracks) == set(titles)
    assert sum(title == "stages" for title in titles.values()) > 1
    for track, own in tracks.items():
        assert {titles[track] == "stages"} == {event["cat"] == "stage" for event in own}
        own.sort(key=lambda event: event["ts"])
        assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-3 for a, b in pairwise(own))
