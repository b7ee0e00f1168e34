# SPDX-License-Identifier: Apache-2.0
"""A table of measured stages as a simulated device, and the best schedule on it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property

from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.graph.dag import Candidate
from tvm_ios.lowering.kernel import Kernel
from tvm_ios.lowering.stages import AnyStage

from .device import SimulatedStageBuilder
from .known import KnownCost, all_candidates, network_search
from .table import Table


class Recorded:
    """The device on which a network's stages take as long as a table says.

    Parameters
    ----------
    scheduler : Scheduler
        The network.
    table : Table
        The latencies of its stages.

    Raises
    ------
    ValueError
        If the table is of another operator graph.
    """

    def __init__(self, scheduler: Scheduler, table: Table) -> None:
        if scheduler.graph.edges != table.edges:
            raise ValueError("The table is of another operator graph; record it again.")
        self.scheduler, self._original = scheduler, scheduler.stage_builder
        lowered = self._original.lowered
        self._alone: dict[Hashable, float] = {
            i.kernel.key: seconds
            for i, seconds in zip(lowered.implementations, table.on_one_worker, strict=True)
            if i is not None
        }
        self._rows: dict[Hashable, Mapping[str, float]] = {}
        for candidate, row in table.seconds.items():
            stage = self._original.stage_of(candidate.ops, candidate.strategy)
            self._rows.setdefault(stage.key, row)
            for merged in (i for i in stage.implementations if len(i.operators) > 1):
                replaced = sum(table.on_one_worker[op] for op in merged.operators)
                self._alone.setdefault(merged.kernel.key, replaced)
        self.stage_builder = SimulatedStageBuilder(
            lowered, self._original.workers, original=self._original, latencies=self
        )

    def alone(self, kernel: Kernel) -> float:
        """Return the seconds of a kernel on one worker; one that replaces others takes as long."""
        return self._alone[kernel.key]

    def stage(self, stage: AnyStage) -> Mapping[str, float]:
        """Return the seconds of a stage by partitioning; of one not recorded, its operators'."""
        if stage.key not in self._rows:
            singles = self._original.per_operator(stage)
            recorded = [self._rows[s.key] for s in singles if s.key in self._rows]
            seconds = sum(min(row.values()) for row in recorded)
            self._rows[stage.key] = {self._original.default_partitioning: seconds}
        return self._rows[stage.key]

    def true_seconds(self, candidate: Candidate, partitioning: str | None = None) -> float:
        """Return what a stage takes, by default in its best partitioning."""
        if self._original.lowered.opaque.intersection(candidate.ops):
            return 0.0 if len(candidate.ops) == 1 else float("inf")
        row = self.stage(self._original.stage_of(candidate.ops, candidate.strategy))
        return min(row.values()) if partitioning is None else row[partitioning]

    @cached_property
    def candidates(self) -> Sequence[Candidate]:
        """The stages that can run, of all schedules that a search considers."""
        opaque = self._original.lowered.opaque
        return [c for c in all_candidates(self.scheduler) if not opaque.intersection(c.ops)]

    @cached_property
    def distinct(self) -> int:
        """The number of different stages among the candidates."""
        return len({self._original.stage_of(c.ops, c.strategy).key for c in self.candidates})

    @cached_property
    def optimum(self) -> float:
        """The seconds of the fastest schedule that a search can find."""
        known = KnownCost(self.true_seconds, self.scheduler)
        stages = network_search(self.scheduler).run(known)
        return sum(map(self.true_seconds, stages))
