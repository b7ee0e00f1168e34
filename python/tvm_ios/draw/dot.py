# SPDX-License-Identifier: Apache-2.0
"""Drawings in the language of Graphviz: one cluster per stage, with one per group inside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ..schedule.schedule import Schedule, ScheduledOperator, ScheduledStage
from .layout import check
from .words import heading, how, microseconds, printable, share


def dot(schedule: Schedule) -> str:
    """Draw a schedule in the language of Graphviz, for ``dot -Tpdf``.

    Raises
    ------
    ScheduleError
        If the stages and the list of operators disagree.
    """
    operators = {operator.name: operator for operator in schedule.operators}
    check(schedule, operators)
    total = sum(stage.seconds or 0.0 for stage in schedule.stages)
    lines = [
        "digraph schedule {",
        f"  label={_quoted(*heading(schedule))};",
        '  graph [labelloc=t, fontname="sans-serif", newrank=true];',
        '  node [shape=box, style="rounded,filled", fillcolor=white, fontname="sans-serif"];',
    ]
    for number, stage in enumerate(schedule.stages):
        lines += _cluster(number, stage, operators, total)
    placed = [name for stage in schedule.stages for name in stage.operators]
    for name in placed:
        for producer in operators[name].reads or ():
            if producer in placed:
                lines.append(f"  {_quoted(producer)} -> {_quoted(name)};")
    lines += _order(schedule.stages)
    return "\n".join([*lines, "}", ""])


def _cluster(
    number: int, stage: ScheduledStage, operators: dict[str, ScheduledOperator], total: float
) -> Iterator[str]:
    time = f"{microseconds(stage.seconds)} {share(stage.seconds, total)}".rstrip()
    look = "dashed" if stage.strategy == "merge" else "filled"
    yield f"  subgraph cluster_{number} {{"
    yield f"    label={_quoted(f'stage {number}: {how(stage)}, {time}')};"
    yield f'    style={look}; color="#8796a6"; fillcolor="#f1f4f8";'
    for k, group in enumerate(stage.groups):
        yield f"    subgraph cluster_{number}_{k} {{"
        yield '      label=""; style=filled; color="#dde4ec"; fillcolor="#dde4ec";'
        for name in group:
            operator = operators[name]
            about = f"{operator.kind} · {microseconds(operator.seconds)}"
            label = _quoted(operator.title, about, *operator.outputs)
            yield f"      {_quoted(name)} [label={label}];"
        yield "    }"
    yield "  }"


def _order(stages: Sequence[ScheduledStage]) -> Iterator[str]:
    """Yield invisible edges that place stages below each other even without data flow."""
    for before, after in pairwise(stages):
        last, first = before.groups[0][-1], after.groups[0][0]
        yield f"  {_quoted(last)} -> {_quoted(first)} [style=invis];"


def _quoted(*lines: str) -> str:
    """Return lines as a quoted string of Graphviz, with its special characters escaped."""
    texts = map(printable, lines)
    escaped = [text.replace("\\", "\\\\").replace('"', '\\"') for text in texts]
    return '"' + "\\n".join(line.replace("\n", " ") for line in escaped) + '"'
