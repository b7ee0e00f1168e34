# SPDX-License-Identifier: Apache-2.0
"""The stages of a schedule of known sizes, for the same network of open sizes.

That one has the same operators, and sometimes others that compute sizes, by which the numbers in
the names of operators shift.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from difflib import SequenceMatcher

from ..graph.operators import OperatorGraph
from ..lowering.schedule_lowering import ScheduleLowering
from ..lowering.stages import AnyStageBuilder, estimated_seconds
from ..schedule.schedule import Schedule, ScheduledStage
from ..support.errors import ScheduleError
from .unsearched import unmeasured_stage

_NUMBER = re.compile(r"_\d+$")


def followed_stages(
    schedule: Schedule, graph: OperatorGraph, builder: AnyStageBuilder
) -> list[ScheduledStage] | None:
    """Return the stages of a schedule, as far as open sizes can have them; nothing is measured.

    Operators that the schedule does not have run alone, and so do those that cannot share a stage.

    Returns
    -------
    list of ScheduledStage or None
        None if the schedule has operators that the graph does not have. Whether the stages are in
        an order in which they can run is not checked.
    """
    names = _counterparts(schedule, graph)
    if names is None:
        return None
    index = {op.name: op.index for op in graph.operators}
    added = [op.index for op in graph.operators if op.name not in names.values()]
    lowering, costs = ScheduleLowering(builder), estimated_seconds(builder)
    stages: list[ScheduledStage] = []
    waiting = dict.fromkeys(added)

    def alone(op: int) -> ScheduledStage:
        return unmeasured_stage(builder, graph, ((op,),))

    def run_before(op: int) -> None:
        """Add what computes the sizes that an operator reads."""
        for producer in graph.predecessors[op]:
            if producer in waiting:
                del waiting[producer]
                run_before(producer)
                stages.append(alone(producer))

    for stage in schedule.stages:
        groups = tuple(tuple(names[name] for name in group) for group in stage.groups)
        own = replace(stage, groups=groups)
        for name in own.operators:
            run_before(index[name])
        try:
            stages.append(lowering.adapt(own, costs))
        except ScheduleError:
            stages += [alone(index[name]) for name in own.operators]
    return [*stages, *map(alone, waiting)]


def _counterparts(schedule: Schedule, graph: OperatorGraph) -> dict[str, str] | None:
    """Return the names of a graph's operators by those of a schedule's; None if one is missing."""
    theirs = [(_stem(op.name), op.kind) for op in schedule.operators]
    mine = [(_stem(op.name), op.kind) for op in graph.operators]
    matcher = SequenceMatcher(None, theirs, mine, autojunk=False)
    found = dict(_pairs(matcher, schedule, graph))
    return found if len(found) == len(theirs) else None


def _pairs(
    matcher: SequenceMatcher[tuple[str, str]], schedule: Schedule, graph: OperatorGraph
) -> Iterator[tuple[str, str]]:
    for theirs, mine, count in matcher.get_matching_blocks():
        for n in range(count):
            yield schedule.operators[theirs + n].name, graph.operators[mine + n].name


def _stem(name: str) -> str:
    return _NUMBER.sub("", name)
