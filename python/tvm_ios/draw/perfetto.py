# SPDX-License-Identifier: Apache-2.0
"""The timeline of a run as trace events of Perfetto and chrome://tracing."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

from ..graph.operators import OperatorGraph
from ..schedule.devices import device_terms
from ..schedule.schedule import Schedule
from ..schedule.timeline import Span, Timeline, Wait
from .words import details, heading, how, microseconds

# Numbers of the process and of the track of stages; tracks of workers or streams follow, then those
# of stages that run beside others. Perfetto draws track 0, and the one with the number of its
# process, as one: the process's main thread.
_PROCESS, _STAGES = 1, 2

_DERIVED = "a stage lasts from the beginning of its first kernel to the end of its last"


def perfetto(schedule: Schedule, graph: OperatorGraph, timeline: Timeline) -> str:
    """Format the result of :meth:`tvm_ios.compiler.scheduler.Scheduler.trace` as JSON.

    Times are in microseconds, as the format requires. The file's ``otherData`` tells which times
    were measured and which were derived.

    Parameters
    ----------
    schedule : Schedule
        The schedule that ran.
    graph : OperatorGraph
        Its operators.
    timeline : Timeline
    """
    spans = timeline.spans
    events = [
        *_titles(schedule, spans),
        *_stages(schedule, spans),
        *(_call(span, _about(schedule, graph.names(span.operators))) for span in spans),
        *(_wait(wait, graph) for wait in timeline.waits),
    ]
    ran = {span.stage for span in spans}
    about = {
        "what": heading(schedule)[0],
        **device_terms(schedule.target).timeline,
        "derived": _DERIVED,
        "lowered by TVM and not run, or done in place by others": [
            {"stage": number, "operators": stage.operators}
            for number, stage in enumerate(schedule.stages)
            if number not in ran
        ],
    }
    whole = {"traceEvents": events, "displayTimeUnit": "ns", "otherData": about}
    return json.dumps(whole) + "\n"


def _titles(schedule: Schedule, spans: Sequence[Span]) -> Iterator[dict[str, Any]]:
    yield _title("process_name", _STAGES, heading(schedule)[0])
    for track in sorted({track for _, _, _, track in _extents(schedule, spans)}):
        yield _title("thread_name", track, "stages")
    lane = device_terms(schedule.target).lane
    for worker in range(_num_workers(schedule, spans)):
        yield _title("thread_name", _track_of(worker), f"{lane} {worker}")


def _num_workers(schedule: Schedule, spans: Sequence[Span]) -> int:
    return max(schedule.workers, 1 + max(span.worker for span in spans))


def _extents(schedule: Schedule, spans: Sequence[Span]) -> Iterator[tuple[int, float, float, int]]:
    """Yield each stage's number, begin and end, and a track where no other stage is then."""
    ends: list[float] = []
    tracks = itertools.chain([_STAGES], itertools.count(_track_of(_num_workers(schedule, spans))))
    known: list[int] = []
    for number in sorted({span.stage for span in spans}):
        own = [span for span in spans if span.stage == number]
        begin, end = min(span.begin for span in own), max(span.end for span in own)
        free = next((i for i, other in enumerate(ends) if other <= begin), len(ends))
        if free == len(ends):
            known.append(next(tracks))
        ends[free : free + 1] = [end]
        yield number, begin, end, known[free]


def _track_of(worker: int) -> int:
    return _STAGES + 1 + worker


def _title(what: str, track: int, text: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": _PROCESS, "tid": track, "args": {"name": text}}


def _stages(schedule: Schedule, spans: Sequence[Span]) -> Iterator[dict[str, Any]]:
    for number, begin, end, track in _extents(schedule, spans):
        stage = schedule.stages[number]
        about = {"how": how(stage), "groups": stage.groups}
        if stage.seconds is not None:
            about["expected"] = microseconds(stage.seconds)
        yield _event(f"stage {number}", "stage", track, begin, end, about)


def _about(schedule: Schedule, names: Sequence[str]) -> dict[str, list[str]]:
    """Return all that is known of some operators, by what they are called."""
    operators = {operator.name: operator for operator in schedule.operators}
    found = (operators[name] for name in names)
    return {operator.title: details(operator, schedule.target) for operator in found}


def _call(span: Span, about: dict[str, list[str]]) -> dict[str, Any]:
    return _event(
        " + ".join(about),
        next(iter(about.values()))[0],
        _track_of(span.worker),
        span.begin,
        span.end,
        {
            "stage": span.stage,
            "kernel": span.kernel,
            "phase": span.phase,
            "units": span.units,
            "stolen": span.stolen,
            **about,
        },
    )


def _wait(wait: Wait, graph: OperatorGraph) -> dict[str, Any]:
    cause = {"worker": wait.cause.worker, "kernel": wait.cause.kernel}
    title = f"wait for {' + '.join(graph.names(wait.cause.operators))}"
    return _event(title, "wait", _track_of(wait.worker), wait.begin, wait.end, {"cause": cause})


def _event(
    name: str, kind: str, track: int, begin: float, end: float, about: dict[str, Any]
) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "cat": kind,
        "pid": _PROCESS,
        "tid": track,
        "ts": 1e6 * begin,
        "dur": 1e6 * (end - begin),
        "args": about,
    }
