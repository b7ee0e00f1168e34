# SPDX-License-Identifier: Apache-2.0
"""``tvm-ios show``: a saved schedule as a table."""

from __future__ import annotations

import argparse
from typing import Any

from rich.table import Table

from ..schedule import Schedule, ScheduledStage
from . import output
from .options import add_common

_EPILOG = """\
examples:
  tvm-ios show s.json
"""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    parser = commands.add_parser(
        "show",
        help="show a saved schedule",
        description="Show the stages and groups of a schedule, and what they take.",
        epilog=_EPILOG,
    )
    parser.add_argument("schedule", metavar="SCHEDULE", help="a file of --schedule-out")
    add_common(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print the schedule."""
    schedule = Schedule.load(args.schedule)
    if args.json:
        output.print_json(schedule.to_dict())
        return
    console = output.console()
    for line in _head(schedule):
        console.print(line, soft_wrap=True)
    console.print(_table(schedule))


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
