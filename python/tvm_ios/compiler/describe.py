# SPDX-License-Identifier: Apache-2.0
"""Operators as a schedule names them."""

from __future__ import annotations

from ..graph.dag import Candidate, components
from ..graph.operators import Operator, OperatorGraph
from ..lowering.stages import AnyStageBuilder
from ..schedule.schedule import Schedule, ScheduledOperator


def describe(
    op: Operator,
    graph: OperatorGraph,
    stage_builder: AnyStageBuilder,
    seconds: float | None = None,
) -> ScheduledOperator:
    """Describe an operator, with the kernel that it has and its time if that is known.

    Parameters
    ----------
    op : Operator
    graph : OperatorGraph
        The graph that it is from.
    stage_builder : StageBuilder
    seconds : float, optional
    """
    return ScheduledOperator(
        op.name,
        op.kind,
        seconds,
        reads=tuple(graph.names(graph.predecessors[op.index])),
        outputs=op.output_types,
        flops=op.flops,
        kernel=stage_builder.variant(op.index),
        lean=stage_builder.lean_variant(op.index),
        module=op.module,
    )


def groups_of(candidate: Candidate, graph: OperatorGraph) -> tuple[tuple[str, ...], ...]:
    """Return the operators of each group by name; merged ones are one group."""
    if candidate.strategy == "merge":
        return (tuple(graph.names(candidate.ops)),)
    return tuple(tuple(graph.names(group)) for group in components(graph.dag, candidate.ops))


def kernels_of(schedule: Schedule) -> dict[str, str | None]:
    """Return the kernels that a schedule names, by operator; None where it names none."""
    return {op.name: op.kernel for op in schedule.operators}


def lean_kernels_of(schedule: Schedule) -> dict[str, str | None]:
    """Return the kernels that take less of a device, as :func:`kernels_of` does."""
    return {op.name: op.lean for op in schedule.operators}
