# SPDX-License-Identifier: Apache-2.0
"""A schedule's stages, which name operators, as stages of kernels."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic

from ..graph.operators import Operator, OperatorGraph
from ..schedule.schedule import Schedule, ScheduledStage
from ..support.errors import ScheduleError
from .emitter import Stages
from .kernel import K
from .stages import S, Stage, StageBuilder, estimated_seconds


@dataclass(frozen=True)
class ScheduleLowering(Generic[K, S]):
    """Lowers schedules of one network.

    Attributes
    ----------
    stage_builder : StageBuilder
    """

    stage_builder: StageBuilder[K, S]

    @property
    def _graph(self) -> OperatorGraph:
        return self.stage_builder.lowered.graph

    def lower(self, schedule: Schedule) -> Stages[S]:
        """Lower a schedule; work is divided by the operator times that it holds.

        Raises
        ------
        ScheduleError
            When operators cannot share stages as it says.
        """
        costs = estimated_seconds(self.stage_builder)
        seconds = {o.name: o.seconds for o in schedule.operators}
        for op in self._graph.operators:
            implementation = self.stage_builder.lowered.implementations[op.index]
            known = seconds.get(op.name)
            if implementation is not None and known:
                costs[implementation.kernel.key] = known
        return [self._lower_stage(scheduled, costs) for scheduled in schedule.stages]

    def adapt(self, scheduled: ScheduledStage, costs: Mapping[Hashable, float]) -> ScheduledStage:
        """Return the stage, in the default partitioning if its own is impossible."""
        stage = self.stage_of(scheduled)
        if isinstance(stage, Operator):
            return replace(scheduled, seconds=None, apart=None)
        possible = self.stage_builder.partitionings(stage, costs)
        partitioning = (
            scheduled.partitioning
            if scheduled.partitioning in possible
            else self.stage_builder.default_partitioning
        )
        return replace(scheduled, partitioning=partitioning, seconds=None, apart=None)

    def repartition(self, schedule: Schedule, partitioning: str) -> Schedule:
        """Return the schedule with its stages partitioned as ``partitioning`` says.

        A stage of one operator keeps its own.
        """
        stages = (
            self.repartitioned(stage, partitioning) if len(stage.operators) > 1 else stage
            for stage in schedule.stages
        )
        return replace(schedule, stages=tuple(stages))

    def repartitioned(self, scheduled: ScheduledStage, partitioning: str) -> ScheduledStage:
        """Return the stage partitioned as ``partitioning`` says, or as it is."""
        stage = self.stage_of(scheduled)
        if isinstance(stage, Operator):
            return scheduled
        try:
            self.stage_builder.partition(stage, partitioning, {})
        except ScheduleError:
            return scheduled
        return replace(scheduled, partitioning=partitioning, seconds=None, apart=None)

    def _lower_stage(
        self, scheduled: ScheduledStage, costs: Mapping[Hashable, float]
    ) -> S | Operator:
        stage = self.stage_of(scheduled)
        if isinstance(stage, Operator):
            return stage
        return self.stage_builder.partition(stage, scheduled.partitioning, costs)

    def stage_of(self, scheduled: ScheduledStage) -> Stage[K] | Operator:
        """Return a stage as kernels, or the operator that is left to TVM's lowering."""
        index = {op.name: op.index for op in self._graph.operators}
        groups = [[index[name] for name in group] for group in scheduled.groups]
        ops = [i for group in groups for i in group]
        opaque = [i for i in ops if i in self.stage_builder.lowered.opaque]
        if opaque and len(ops) > 1:
            name = self._graph.operators[opaque[0]].name
            raise ScheduleError(f"Operator {name!r} has no kernel; give it a stage of its own.")
        if opaque:
            return self._graph.operators[opaque[0]]
        if scheduled.strategy == "merge":
            self._check_merge(ops)
        return self.stage_builder.stage(groups, scheduled.strategy)

    def _check_merge(self, ops: Sequence[int]) -> None:
        if len(ops) > 1 and self.stage_builder.replacements.find(ops) is None:
            names = ", ".join(self._graph.names(ops))
            raise ScheduleError(f"The schedule merges operators that cannot be merged: {names}.")
