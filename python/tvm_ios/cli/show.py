# SPDX-License-Identifier: Apache-2.0
"""``tvm-ios show``: a saved schedule, or those of a library, as a table or a picture."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from rich.table import Table

from .. import draw
from ..compiler import artifact
from ..draw import words
from ..measure.profile import NetworkProfile
from ..schedule.devices import device_terms
from ..schedule.schedule import Schedule
from ..schedule.speedup import Speedup
from ..support.errors import OptionError
from ..support.files import replacing
from . import output, profiles
from .options import add_common
from .timeline import add_timeline, check_timeline, profile, timeline

_FORMATS = ("text", "svg", "html", "dot", "perfetto")

_EPILOG = """\
formats:
  text      a table of the stages, or of several schedules; with --model, what the workers do
  svg       a picture
  html      a picture in one file that loads nothing from the network: zoom with the wheel, hover
            over an operator for its shapes, operations and time, search for operators by name
  dot       a graph for Graphviz
  perfetto  a timeline of one run, for ui.perfetto.dev or chrome://tracing

In a notebook, a tvm_ios.Schedule draws itself.

--format perfetto needs the model (--model) and runs it on random inputs. It compiles the model so
that it records when each worker enters and leaves each kernel, and shows the fastest of several
runs. A stage lasts from the start of its first kernel to the end of its last one; stages of workers
that do not meet between them overlap. Where a worker waits for others, the timeline says for which
kernel.

A table says how many microseconds a stage takes, and how many it saves: its operators took as many
more one after another, when the search measured both.

A table, or --json, with --model is the sum of such a run. For each stage it has the time of its
kernels (work) as a share of the workers' time, the time in which workers wait for it, its slow-down
(the time of its kernels over that of the same kernels alone on one worker, with cold weights), and
the bytes that its kernels read and write. --json adds busy_over_alone and waiting_share, the same
for the whole network.

The run differs from one of the compiled library. It uses the same kernels, the same work
partitioning and an equal workspace, but calls the kernels one by one. It omits operators that are
left to TVM's default lowering. The file names them.

On a GPU, each track is a stream, and all stages are one CUDA graph. The graph has an event before
and after each kernel. The events take time between kernels that the library does not spend. A
kernel is drawn from the time at which it could start.

examples:
  tvm-ios show s.json
  tvm-ios show s.json --format html -o s.html
  tvm-ios show s.json --format dot | dot -Tpdf -o s.pdf
  tvm-ios show model.so
  tvm-ios show s.b1.json s.b32.json
  tvm-ios show sequential.json s.json --format html -o both.html
  tvm-ios show s.json --model model.onnx
  tvm-ios show s.json --format perfetto --model model.onnx -o s.trace.json
  tvm-ios show gpu.json --format perfetto --model model.onnx --device-id 1 -o gpu.trace.json
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "show",
        help="show a saved schedule or those of a library, draw them, or compare several",
        description="Print the stages and groups of a schedule and their latencies, draw them, or "
        "compare several schedules. A library has one for each shape that it was compiled for, and "
        "one for all others if dimensions are open. A picture shows stages as rows, groups as "
        "lanes, and the tensors that operators exchange.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "schedules",
        metavar="SCHEDULE",
        nargs="+",
        help="file that --schedule-out wrote, or library, NAME.so; give several to compare them",
    )
    parser.add_argument(
        "--format",
        choices=_FORMATS,
        default="text",
        help="output format (default: text); text, svg and html can show several schedules side by "
        "side",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="file to write (default: standard output)"
    )
    add_timeline(parser)
    add_common(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print the schedule, or what tells several apart, or write it to a file."""
    if args.json and args.format != "text":
        raise OptionError(f"--json and --format {args.format} exclude each other; give one.")
    check_timeline(args)
    named = _read(args.schedules)
    if args.format in ("dot", "perfetto") and len(named) > 1:
        raise OptionError(f"--format {args.format} draws one schedule; give one, or use html.")
    if args.output is None:
        _write(args, named, sys.stdout)
        return
    with replacing(args.output) as (draft,), draft.open("w", encoding="utf-8") as file:
        _write(args, named, file)


_Named = Sequence[tuple[str, Schedule]]
"""Schedules with their titles."""


def _read(paths: Sequence[str]) -> _Named:
    """Return the schedules in files, and those of libraries' functions by the shapes they take."""
    named: list[tuple[str, Schedule]] = []
    for path in paths:
        if Path(path).suffix != ".so":
            named.append((path, Schedule.load(path)))
            continue
        model = artifact.load(path)
        shapes = (", ".join(map(str, signature.inputs)) for signature in model.signatures)
        titles = [f"{path}: {shape}" if len(paths) > 1 else shape for shape in shapes]
        named += zip(titles, artifact.schedules_of(model, path), strict=True)
    return named


def _write(args: argparse.Namespace, named: _Named, file: TextIO) -> None:
    schedules = [schedule for _, schedule in named]
    titles = [title for title, _ in named] if len(named) > 1 else ()
    ran = profile(args, schedules[0]) if args.model and args.format == "text" else None
    if args.json:
        output.print_json(_as_json(named, ran), file)
    elif args.format == "svg":
        file.write(draw.svg(schedules, titles))
    elif args.format == "html":
        file.write(draw.html(schedules, titles))
    elif args.format == "dot":
        file.write(draw.dot(schedules[0]))
    elif args.format == "perfetto":
        file.write(timeline(args, schedules[0]))
    else:
        _write_text(titles, schedules, ran, file)


def _as_json(named: _Named, ran: NetworkProfile | None) -> dict[str, Any]:
    whole = [schedule.to_dict() for _, schedule in named]
    if len(whole) > 1:
        return {"titles": [title for title, _ in named], "schedules": whole}
    return whole[0] if ran is None else {**whole[0], **profiles.as_json(ran)}


def _write_text(
    titles: Sequence[str],
    schedules: Sequence[Schedule],
    ran: NetworkProfile | None,
    file: TextIO,
) -> None:
    console = output.console(file)
    if len(schedules) > 1:
        for line in _comparison(titles, schedules):
            console.print(line)
        return
    for line in _head(schedules[0]):
        console.print(line, soft_wrap=True)
    if ran is not None:
        console.print(profiles.summary(ran), soft_wrap=True)
    console.print(_table(schedules[0], ran))
    for name, part in schedules[0].parts.items():
        console.print(f"{name}, which is decided on while the network runs:")
        console.print(_table(part, None))


def _comparison(titles: Sequence[str], schedules: Sequence[Schedule]) -> Iterator[str | Table]:
    """Yield a table with a row per schedule, and one of their latencies at other batch sizes."""
    table = output.table(
        "schedule", "batch", "threads", "stages", "groups", "merged", "as in the first", "ms",
        "speed-up", left=("schedule",),
    )  # fmt: skip
    first = {frozenset(stage.operators) for stage in schedules[0].stages}
    for title, schedule in zip(titles, schedules, strict=True):
        known = schedule.measured or schedule.estimates
        same = sum(frozenset(stage.operators) in first for stage in schedule.stages)
        table.add_row(
            title,
            "-" if schedule.batch is None else str(schedule.batch),
            str(schedule.workers) if device_terms(schedule.target).counted else "-",
            str(len(schedule.stages)),
            str(sum(len(stage.groups) for stage in schedule.stages)),
            str(sum(stage.strategy == "merge" for stage in schedule.stages)),
            str(same),
            f"{1e3 * known['scheduled']:.3f}" if "scheduled" in known else "-",
            _speedup(schedule.speedup),
        )
    yield table
    specialised = [schedule for schedule in schedules if schedule.at_batch]
    if specialised:
        yield "Latency of each schedule at each batch size; * marks the fastest."
        yield output.specialisation(specialised)


def _speedup(speedup: Speedup | None) -> str:
    """Return what whole models proved, in a word; a dash if nothing is known."""
    if speedup is None:
        return "-"
    return f"{speedup.ratio:.2f}x" if speedup.faster else "none"


_WAITING = {
    "barrier": "all workers meet between two operators that depend on each other",
    "point-to-point": "a worker waits for those that compute what it reads",
}


def _head(schedule: Schedule) -> list[str]:
    lines = [
        f"model {schedule.model[:8]}, function {schedule.function}, "
        f"target {words.target(schedule)}",
        f"{len(schedule.operators)} operators in {len(schedule.stages)} stages; "
        f"{schedule.measurements} stages measured in {schedule.search_seconds:.1f} s",
    ]
    if schedule.cut_cost and schedule.partition_gap is None:
        lines.append(
            f"searched in blocks; the cuts remove {schedule.cut_cost} branches or merges, and what "
            "these would save is unknown"
        )
    if schedule.partition_gap:
        lines.append(
            f"a search without blocks could save at most {1e3 * schedule.partition_gap:.3f} ms, "
            "by the latencies known so far"
        )
    if schedule.search_seconds:
        lines.append(_search_gap(schedule))
    if schedule.workers > 1 and device_terms(schedule.target).counted:
        lines.append(_WAITING[schedule.synchronization])
    if words.precision(schedule):
        lines.append(f"precision: {words.precision(schedule)}")
    if not schedule.winograd:
        lines.append("no convolution uses Winograd's algorithm")
    told = schedule.speedup is not None
    latencies = (("estimated", schedule.estimates, True), ("measured", schedule.measured, told))
    for title, seconds, factors in latencies:
        if seconds:
            lines.append(f"{title + ':':10} {output.comparison(seconds, factors=factors)}")
        if "found" in seconds:
            lines.append(
                f"{'':10} the schedule found took {1e3 * seconds['found']:.3f} ms; "
                "another one was kept"
            )
    if schedule.verdict:
        lines.append(f"speed-up:  {schedule.verdict}")
    return lines


def _search_gap(schedule: Schedule) -> str:
    """Say how far from the optimum the search ended."""
    scheduled = schedule.estimates.get("found", schedule.estimates.get("scheduled"))
    subject = "the schedule found is" if "found" in schedule.estimates else "the schedule is"
    if schedule.search_gap is None or scheduled is None:
        return f"{subject} the best that the search found; its distance from the optimum is unknown"
    cuts = "" if schedule.partition_gap == 0.0 else ", among schedules with the same cuts"
    if schedule.search_gap == 0.0:
        return f"{subject} optimal by its prices{cuts}"
    optimum = max(scheduled - schedule.search_gap, 0.0)
    share = f"{schedule.search_gap / optimum:.1%}" if optimum else "an unknown share"
    return f"{subject} at most {share} above the optimum by its prices{cuts}"


def _table(schedule: Schedule, ran: NetworkProfile | None) -> Table:
    kernels = {op.name: op.kernel for op in schedule.operators if op.kernel is not None}
    titles = {op.name: op.title for op in schedule.operators}
    shown = ("groups", "kernels") if kernels else ("groups",)
    columns = profiles.COLUMNS if ran is not None else ()
    header = ("stage", "how", *shown, "us", "saves", "share", *columns)
    table = output.table(*header, left=("how", *shown))
    total = sum(stage.seconds or 0.0 for stage in schedule.stages)
    for i, stage in enumerate(schedule.stages):
        latency = share = "-"
        saved = ""
        if stage.seconds is not None:
            latency = f"{1e6 * stage.seconds:.1f}"
            share = f"{stage.seconds / total:.1%}" if total else "-"
            saved = "" if stage.apart is None else f"{1e6 * (stage.apart - stage.seconds):.1f}"
        cells = [_lines([[titles[name] for name in group] for group in stage.groups])]
        if kernels:
            cells.append(_lines([[kernels.get(name, "-") for name in g] for g in stage.groups]))
        did = profiles.cells(ran, i) if ran is not None else ()
        table.add_row(str(i), words.how(stage), *cells, latency, saved, share, *did)
    return table


def _lines(groups: Sequence[Sequence[str]]) -> str:
    """Join the texts of operators, one line per group."""
    return "\n".join(" → ".join(group) for group in groups)
