# SPDX-License-Identifier: Apache-2.0
"""The stages of a network of which nothing was measured."""

from __future__ import annotations

from ..graph.operators import OperatorGraph
from ..lowering.stages import AnyStageBuilder
from ..schedule.schedule import ScheduledStage

Groups = tuple[tuple[int, ...], ...]


def unmeasured_stages(builder: AnyStageBuilder, graph: OperatorGraph) -> list[ScheduledStage]:
    """Return one operator a stage, but for those that the back end knows to be faster together.

    Parameters
    ----------
    builder : StageBuilder
    graph : OperatorGraph
        The operators that the builder's stages consist of.
    """
    known: list[Groups] = [(chain,) for chain in builder.depth_first()]
    known += [tuple((op,) for op in ops) for ops in builder.at_once()]
    groups = {stage[-1][-1]: stage for stage in known}  # all but the last operator run later
    later = {op for stage in known for group in stage for op in group} - groups.keys()
    return [
        unmeasured_stage(builder, graph, groups.get(op, ((op,),)))
        for op in range(len(graph.operators))
        if op not in later
    ]


def unmeasured_stage(
    builder: AnyStageBuilder, graph: OperatorGraph, groups: Groups
) -> ScheduledStage:
    """Return the stage of some groups of operators."""
    partitioning = builder.default_partitioning
    if all(builder.lowered.opaque.isdisjoint(group) for group in groups):
        partitioning = builder.preferred_partitioning(builder.stage(groups, "concurrent"))
    return ScheduledStage(
        tuple(tuple(graph.names(group)) for group in groups), partitioning=partitioning
    )
