# SPDX-License-Identifier: Apache-2.0
"""The timeline of a run, in the trace events of Perfetto and chrome://tracing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from ..graph.operators import OperatorGraph
from ..schedule.schedule import Schedule, ScheduledOperator
from ..schedule.timeline import Span
from ..target import is_cuda
from .words import details, heading, how, microseconds

# Numbers of the process, and of the track of stages; workers, or streams, follow. Perfetto takes
# track 0, and the one that has the number of its process, for the process' main thread, and draws
# them as one.
_PROCESS, _STAGES = 1, 2

_DERIVED = "a stage lasts from the beginning of its first kernel to the end of its last"
_ON_A_CPU = {
    "measured": "when each worker entered and left each kernel, in one launch of all stages, the "
    "fastest of several runs",
    "unlike the compiled library": "the kernels are called one by one and not by the driver of a "
    "compiled library, every value has a tensor of its own, inputs are random",
}
_ON_A_GPU = {
    "measured": "when each stream came to the events before and behind each kernel, in one CUDA "
    "graph of all stages, the fastest of several runs; CUDA tells it to half a microsecond",
    "unlike the compiled library": "the events are nodes of the graph: between kernels lies time "
    "that the library does not spend, and what is drawn of a kernel begins when it could start; "
    "every value has a tensor of its own, inputs are random, and nothing is copied in or out",
}


def perfetto(schedule: Schedule, graph: OperatorGraph, spans: Sequence[Span]) -> str:
    """Write down what :meth:`tvm_ios.compiler.scheduler.Scheduler.trace` saw, as JSON.

    Times are in microseconds, as the format has them. What is measured and what is derived from it
    is written into the file's ``otherData``.
    """
    operators = {operator.name: operator for operator in schedule.operators}
    events = [
        *_titles(schedule, spans),
        *_stages(schedule, spans),
        *(_call(span, [operators[name] for name in graph.names(span.operators)]) for span in spans),
    ]
    ran = {span.stage for span in spans}
    about = {
        "what": heading(schedule)[0],
        **(_ON_A_GPU if is_cuda(schedule.target) else _ON_A_CPU),
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
    yield _title("thread_name", _STAGES, "stages")
    who = "stream" if is_cuda(schedule.target) else "worker"
    for worker in range(max(schedule.workers, 1 + max(span.worker for span in spans))):
        yield _title("thread_name", _track_of(worker), f"{who} {worker}")


def _track_of(worker: int) -> int:
    return _STAGES + 1 + worker


def _title(what: str, track: int, text: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": _PROCESS, "tid": track, "args": {"name": text}}


def _stages(schedule: Schedule, spans: Sequence[Span]) -> Iterator[dict[str, Any]]:
    for number, stage in enumerate(schedule.stages):
        own = [span for span in spans if span.stage == number]
        if own:
            begin, end = min(span.begin for span in own), max(span.end for span in own)
            about = {"how": how(stage), "groups": stage.groups}
            if stage.seconds is not None:
                about["expected"] = microseconds(stage.seconds)
            yield _event(f"stage {number}", "stage", _STAGES, begin, end, about)


def _call(span: Span, operators: Sequence[ScheduledOperator]) -> dict[str, Any]:
    about = {operator.name: details(operator) for operator in operators}
    return _event(
        " + ".join(operator.name for operator in operators),
        operators[0].kind,
        _track_of(span.worker),
        span.begin,
        span.end,
        {"stage": span.stage, "kernel": span.kernel, "phase": span.phase, **about},
    )


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
