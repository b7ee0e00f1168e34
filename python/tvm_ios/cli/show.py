# SPDX-License-Identifier: Apache-2.0
"""``tvm-ios show``: a saved schedule as a table."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table

from ..schedule import Schedule, ScheduledStage
from . import output
from .options import add_common

_EPILOG = """\
examples:
  tvm-ios show s.json
  tvm-ios show s.b1.json s.b32.json
"""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    parser = commands.add_parser(
        "show",
        help="show a saved schedule, or compare several",
        description="Show the stages and groups of a schedule, and what they take; of several "
        "schedules, what tells them apart.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "schedules",
        metavar="SCHEDULE",
        nargs="+",
        help="a file of --schedule-out; several: beside each other",
    )
    add_common(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print the schedule, or what tells several apart."""
    schedules = [Schedule.load(path) for path in args.schedules]
    if args.json:
        whole = [schedule.to_dict() for schedule in schedules]
        output.print_json(whole[0] if len(whole) == 1 else {"schedules": whole})
        return
    console = output.console()
    if len(schedules) > 1:
        for line in _comparison(args.schedules, schedules):
            console.print(line)
        return
    for line in _head(schedules[0]):
        console.print(line, soft_wrap=True)
    console.print(_table(schedules[0]))


def _comparison(paths: Sequence[str], schedules: Sequence[Schedule]) -> Iterator[str | Table]:
    """Each schedule in a row, and what each takes at the others' batch sizes."""
    table = output.table(
        "schedule", "batch", "threads", "stages", "groups", "merged", "as in the first", "ms",
        left=("schedule",),
    )  # fmt: skip
    first = {frozenset(stage.operators) for stage in schedules[0].stages}
    for path, schedule in zip(paths, schedules, strict=True):
        known = schedule.measured or schedule.estimates
        same = sum(frozenset(stage.operators) in first for stage in schedule.stages)
        table.add_row(
            path,
            "-" if schedule.batch is None else str(schedule.batch),
            str(schedule.workers),
            str(len(schedule.stages)),
            str(sum(len(stage.groups) for stage in schedule.stages)),
            str(sum(stage.strategy == "merge" for stage in schedule.stages)),
            str(same),
            f"{1e3 * known['scheduled']:.3f}" if "scheduled" in known else "-",
        )
    yield table
    specialised = [schedule for schedule in schedules if schedule.at_batch]
    if specialised:
        yield "What the schedule for one batch size takes at another; * is the fastest."
        yield output.specialisation(specialised)


def _head(schedule: Schedule) -> list[str]:
    lines = [
        f"model {schedule.model[:8]}, function {schedule.function}, "
        f"target {output.short_target(schedule.target)}, {schedule.workers} threads",
        f"{len(schedule.operators)} operators in {len(schedule.stages)} stages; "
        f"{schedule.measurements} stages measured in {schedule.search_seconds:.1f} s",
    ]
    if schedule.branches_cut:
        lines.append(
            f"searched in blocks, whose cuts take away {schedule.branches_cut} branches or merges"
        )
    if schedule.given_up:
        lines.append(
            f"searched as a whole it might take {1e3 * schedule.given_up:.3f} ms less at most, by "
            "what is known of its stages"
        )
    for title, seconds in (("estimated", schedule.estimates), ("measured", schedule.measured)):
        if seconds:
            lines.append(f"{title + ':':10} {output.comparison(seconds)}")
        if "found" in seconds:
            lines.append(
                f"{'':10} the schedule found took {1e3 * seconds['found']:.3f} ms, "
                "so the sequential one was kept"
            )
    return lines


def _table(schedule: Schedule) -> Table:
    table = output.table("stage", "how", "groups", "us", "share", left=("how", "groups"))
    total = sum(stage.seconds or 0.0 for stage in schedule.stages)
    for i, stage in enumerate(schedule.stages):
        latency = share = "-"
        if stage.seconds is not None:
            latency = f"{1e6 * stage.seconds:.1f}"
            share = f"{stage.seconds / total:.1%}" if total else "-"
        groups = "\n".join(" → ".join(group) for group in stage.groups)
        table.add_row(str(i), _how(stage), groups, latency, share)
    return table


def _how(stage: ScheduledStage) -> str:
    if len(stage.operators) == 1:
        return "single"
    return f"{stage.strategy}, {stage.division}"
