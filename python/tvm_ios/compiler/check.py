# SPDX-License-Identifier: Apache-2.0
"""Whether a schedule is one of a function and a target."""

from __future__ import annotations

from collections.abc import Sequence

from ..graph.fingerprint import fingerprint, fits
from ..graph.operators import OperatorGraph
from ..lowering.stages import AnyStageBuilder
from ..schedule.devices import machine_name
from ..schedule.schedule import Schedule, ScheduledStage
from ..support.errors import ScheduleError
from .describe import kernels_of, lean_kernels_of


def check_schedule(
    schedule: Schedule, graph: OperatorGraph, target: str | None = None, workers: int = 1
) -> None:
    """Raise ScheduleError unless a schedule is one of a graph, and of a target.

    Parameters
    ----------
    schedule : Schedule
    graph : OperatorGraph
    target : str, optional
        As JSON; by default any will do.
    workers : int
        Of the target.
    """
    if not fits(schedule.model, graph):
        raise ScheduleError(
            "The schedule was made for another model or other input shapes "
            f"({schedule.model[:8]}, this one is {fingerprint(graph)[:8]}); search again."
        )
    if schedule.function != graph.function:
        raise ScheduleError(
            f"The schedule is of the function {schedule.function!r}, and this model's is "
            f"{graph.function!r}; name that in it, or search again."
        )
    if target is not None:
        _check_target(schedule, machine_name(target, workers))
    _check_cover(schedule.stages, graph)
    _check_edges(schedule.stages, graph)


def check_kernels(schedule: Schedule, graph: OperatorGraph, stage_builder: AnyStageBuilder) -> None:
    """Raise ScheduleError unless all operators have the kernels that the schedule names."""
    kernels, lean = kernels_of(schedule), lean_kernels_of(schedule)
    for op in graph.operators:
        for wanted in (kernels[op.name], lean[op.name]):
            if wanted is not None and wanted not in stage_builder.variants(op.index):
                raise ScheduleError(
                    f"Operator {op.name!r} of the schedule is computed by {wanted}, which is not "
                    "among its kernels here; give the precision, and cuDNN, that the schedule was "
                    "made with."
                )


def _check_target(schedule: Schedule, wanted: str) -> None:
    made_for = machine_name(schedule.target, schedule.workers)
    if made_for != wanted:
        raise ScheduleError(
            f"The schedule was made for {made_for}, not for {wanted}; "
            "name that target and number of threads, or search again."
        )


def _check_cover(stages: Sequence[ScheduledStage], graph: OperatorGraph) -> None:
    """Raise ScheduleError unless the stages have every operator of the graph once, and no other."""
    known = {op.name for op in graph.operators}
    seen: set[str] = set()
    for name in (name for stage in stages for name in stage.operators):
        if name not in known:
            raise ScheduleError(f"The schedule has an operator {name!r} that the model lacks.")
        if name in seen:
            raise ScheduleError(f"The schedule repeats operator {name!r}; keep it in one stage.")
        seen.add(name)
    missing = sorted(known - seen)
    if missing:
        raise ScheduleError(f"The schedule omits operator {missing[0]!r}; add it to a stage.")


def _check_edges(stages: Sequence[ScheduledStage], graph: OperatorGraph) -> None:
    """Raise ScheduleError unless every operator runs after its producers."""
    place = {
        name: (s, g, k)
        for s, stage in enumerate(stages)
        for g, group in enumerate(stage.groups)
        for k, name in enumerate(group)
    }
    for u, v in graph.edges:
        producer, consumer = graph.operators[u].name, graph.operators[v].name
        (su, gu, ku), (sv, gv, kv) = place[producer], place[consumer]
        if su > sv or (su == sv and (gu != gv or ku >= kv)):
            raise ScheduleError(
                f"The schedule breaks the edge from {producer!r} to {consumer!r}: "
                "put the first into an earlier stage, or before the other in one group."
            )
