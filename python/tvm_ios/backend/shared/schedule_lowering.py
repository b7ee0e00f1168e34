# SPDX-License-Identifier: Apache-2.0
"""A schedule's stages, which name operators, as stages of kernels."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic

from ...graph.operators import Operator, OperatorGraph
from ...schedule.schedule import Schedule, ScheduledStage
from ...support.errors import ScheduleError
from .emitter import Stages
from .kernel import K
from .stages import Assembler, S, StageForm, estimated_seconds


@dataclass(frozen=True)
class ScheduleLowering(Generic[K, S]):
    """Lowers schedules of one network.

    Attributes
    ----------
    assembler : Assembler
    """

    assembler: Assembler[K, S]

    @property
    def _graph(self) -> OperatorGraph:
        return self.assembler.lowered.graph

    def lower(self, schedule: Schedule) -> Stages[S]:
        """Lower a schedule; work is divided by the operator times that it holds.

        Raises
        ------
        ScheduleError
            When operators cannot share stages as it says.
        """
        costs = estimated_seconds(self.assembler)
        seconds = {o.name: o.seconds for o in schedule.operators}
        for op in self._graph.operators:
            implementation = self.assembler.lowered.implementations[op.index]
            known = seconds.get(op.name)
            if implementation is not None and known:
                costs[implementation.kernel.key] = known
        return [self._lower_stage(stage, costs) for stage in schedule.stages]

    def adapt(self, stage: ScheduledStage, costs: Mapping[Hashable, float]) -> ScheduledStage:
        """Return the stage, in the default partitioning if its own is impossible."""
        form = self.form_of(stage)
        if isinstance(form, Operator):
            return replace(stage, seconds=None)
        possible = self.assembler.divisions(form, costs)
        division = stage.division if stage.division in possible else self.assembler.usual
        return replace(stage, division=division, seconds=None)

    def divided(self, stage: ScheduledStage, division: str) -> ScheduledStage:
        """Return the stage partitioned as ``division`` says, or as it is."""
        form, asked = self.form_of(stage), replace(stage, division=division, seconds=None)
        if isinstance(form, Operator):
            return stage
        try:
            self.assembler.stage(form, division, {})
        except ScheduleError:
            return stage
        return asked

    def _lower_stage(self, stage: ScheduledStage, costs: Mapping[Hashable, float]) -> S | Operator:
        form = self.form_of(stage)
        if isinstance(form, Operator):
            return form
        return self.assembler.stage(form, stage.division, costs)

    def form_of(self, stage: ScheduledStage) -> StageForm[K] | Operator:
        """Return the kernels of a stage, or the operator that is left to TVM's default lowering."""
        index = {op.name: op.index for op in self._graph.operators}
        groups = [[index[name] for name in group] for group in stage.groups]
        ops = [i for group in groups for i in group]
        alone = [i for i in ops if i in self.assembler.lowered.alone]
        if alone and len(ops) > 1:
            name = self._graph.operators[alone[0]].name
            raise ScheduleError(f"Operator {name!r} has no kernel; give it a stage of its own.")
        if alone:
            return self._graph.operators[alone[0]]
        if stage.strategy == "merge":
            self._check_merge(ops)
        return self.assembler.form(groups, stage.strategy)

    def _check_merge(self, ops: Sequence[int]) -> None:
        if len(ops) > 1 and self.assembler.replacements.rule(ops) is None:
            names = ", ".join(self._graph.names(ops))
            raise ScheduleError(f"The schedule merges operators that cannot be merged: {names}.")
