# SPDX-License-Identifier: Apache-2.0
"""Stages of a CPU: kernels whose tiles the threads share."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import get_args

from tvm import relax

from ....graph.operators import OperatorGraph
from ....lowering.implementation import Implementation
from ....lowering.machine import Machine
from ....lowering.replacements.find import Replacements, find_replacements
from ....lowering.stages import Stage, StageBuilder
from ....schedule.rounding import INT8, rounds
from ....schedule.synchronization import Synchronization
from ....sizes.size import hint_of
from ....support.errors import ScheduleError
from ..kernels.kernel import Kernel
from ..kernels.winograd.model import is_winograd, variant_name
from ..replace.table import RULES
from ..rules.base import CpuLoweredGraph, LoweringConfig
from ..rules.bytes_or_floats import promising
from ..rules.implement import implement
from ..rules.inplace import place_concatenations
from ..rules.precision import possible_kernels, promising_kernels
from ..rules.views import place_views
from .at_once import recurrences_at_once
from .depth_first import pooled_by_strips
from .ownership import divided_by_rows
from .partition import Partitioning, partitionings, plan
from .plan import PlannedCall
from .stage import CpuStage
from .strips import in_strips, passing_bytes

_BARRIER = 3e-6  # seconds; an upper bound for what one barrier less saves
_FAR = 1 / 20e9  # seconds per byte; an upper bound for reading another core's cache


@dataclass
class CpuStageBuilder(StageBuilder[Kernel, CpuStage]):
    """The stage builder of one lowered graph for the threads of a CPU.

    Attributes
    ----------
    results : sequence of relax.Var
        Values that leave the function.
    """

    lowered: CpuLoweredGraph
    results: Sequence[relax.Var] = ()

    default_partitioning = "tiles"

    @staticmethod
    def of(
        graph: OperatorGraph, results: Sequence[relax.Var], config: LoweringConfig
    ) -> CpuStageBuilder:
        """Lower a graph, and return what builds its stages."""
        lowered = place_concatenations(implement(graph, results, config))
        lowered = place_views(lowered, results)
        return CpuStageBuilder(lowered, config.workers, results=results)

    def variant(self, op: int) -> str | None:
        implementation = self.lowered.implementations[op]
        return None if implementation is None else implementation.kernel.variant

    def variants(self, op: int) -> frozenset[str]:
        if self.variant(op) is None:
            return frozenset()
        return possible_kernels(self.lowered.graph.operators[op], self.lowered.config)

    def exact_kernels(self) -> Mapping[str, str]:
        config = replace(self.lowered.config, precision="fp32", variants={})
        exact = implement(self.lowered.graph, self.results, config)
        return {
            op.name: i.kernel.variant or variant_name(None)
            for op, i in zip(exact.graph.operators, exact.implementations, strict=True)
            if i is not None
        }

    def promising(self, op: int) -> tuple[str, ...]:
        """Return the kernels of an operator that may be the fastest; the one that it has is first.

        There is none if it has no choice.
        """
        variant, operator = self.variant(op), self.lowered.graph.operators[op]
        if variant is None:
            return ()
        factors = self.lowered.able.get(operator.name)
        if factors is not None and not rounds(variant):
            return promising(operator, variant, factors, self.lowered.config)
        if operator.kind != "conv2d":
            return ()
        return promising_kernels(operator, variant, self.lowered.config)

    @property
    def _narrow(self) -> bool:
        """Whether operators may multiply bfloat16."""
        return self.lowered.config.precision != "fp32"

    def chosen(
        self, kernels: Mapping[str, str | None], _lean: Mapping[str, str | None]
    ) -> CpuStageBuilder:
        graph, config = self.lowered.graph, self.lowered.config
        if any(map(rounds, kernels.values())) and not self._narrow:
            raise ScheduleError(
                "The schedule was made with the precision bf16; give that precision to apply it."
            )
        if INT8 in kernels.values() and not config.int8:
            raise ScheduleError(
                "The schedule multiplies bytes, for which this processor has no instruction; "
                "search for another one."
            )
        mine = {op.name: v for op in graph.operators if (v := self.variant(op.index)) is not None}
        named = {name: _named(kernels, name, variant) for name, variant in mine.items()}
        if named == mine or not (config.winograd or self._narrow or config.int8):
            return self
        return CpuStageBuilder.of(graph, self.results, replace(config, variants=named))

    @property
    def synchronization(self) -> Synchronization:
        return "point-to-point" if self.workers > 1 else "barrier"

    @property
    def cache_bytes(self) -> int:
        """The bytes of a core's L2 cache."""
        return self.lowered.config.core.l2_bytes

    @property
    def machine(self) -> Machine:
        """The figures of this machine, as far as they were measured to choose the kernels."""
        core, balance = self.lowered.config.core, self.lowered.config.balance
        vectors = self.workers / balance.multiply_add  # multiply-adds of vectors in a second
        flops, bandwidth = 2 * core.lanes * vectors, 4 * core.lanes * vectors / balance.memory
        return Machine(self.workers, self.cache_bytes, flops, bandwidth)

    @cached_property
    def replacements(self) -> Replacements[Kernel]:
        """The sets of operators that one kernel can replace."""
        return find_replacements(self.lowered, RULES)

    @cached_property
    def _by_rows(self) -> frozenset[int]:
        return divided_by_rows(self.lowered, self.workers)

    def preferred_partitioning(self, stage: Stage[Kernel]) -> str:
        """Return the work partitioning of a stage of which nothing was measured."""
        operators = tuple(op for i in stage.implementations for op in i.operators)
        strips = operators in self._depth_first or _single(stage) in self._by_rows
        return "strips" if strips else self.default_partitioning

    def depth_first(self) -> Iterable[tuple[int, ...]]:
        return self._depth_first

    def at_once(self) -> Iterable[tuple[int, ...]]:
        return recurrences_at_once(self.lowered, self.workers)

    @cached_property
    def _depth_first(self) -> tuple[tuple[int, ...], ...]:
        pairs = pooled_by_strips(self.lowered, self.workers)
        return tuple(p for p in pairs if in_strips(_calls(self.stage([p], "concurrent"), {})))

    def partitionings(
        self, stage: Stage[Kernel], costs: Mapping[Hashable, float]
    ) -> tuple[str, ...]:
        """Return the work partitionings of the stage that are worth measuring."""
        possible = partitionings(_calls(stage, costs), self.workers)
        if _single(stage) is None or _single(stage) in self._by_rows:
            return possible
        return (self.default_partitioning,)

    def partition(
        self, stage: Stage[Kernel], partitioning: str, costs: Mapping[Hashable, float]
    ) -> CpuStage:
        """Return the stage with its work partitioned.

        Raises
        ------
        ScheduleError
            If the partitioning is unknown or does not suit the operators.
        """
        known: tuple[Partitioning, ...] = get_args(Partitioning)
        if partitioning not in known:
            raise ScheduleError(
                f"A CPU cannot partition work by {partitioning!r}; the partitionings are "
                f"{', '.join(known)}."
            )
        calls = _calls(stage, costs)
        if partitioning == "strips" and not in_strips(calls):
            names = [name for i in stage.implementations for name in self._names(i.operators)]
            raise ScheduleError(
                f"These operators cannot run by row strips: {', '.join(names)}; use 'tiles'."
            )
        return CpuStage(
            stage.implementations,
            stage.groups,
            stage.after,
            plan(calls, self.workers, known[known.index(partitioning)], self.cache_bytes),
            tuple(map(self._seconds, stage.implementations)),
        )

    def _seconds(self, implementation: Implementation[Kernel]) -> float:
        """Predict roughly how long one worker takes, from its arithmetic and its bytes."""
        flops = sum(self.lowered.graph.operators[op].flops for op in implementation.operators)
        num_bytes = sum(hint_of(spec.num_bytes) for spec in implementation.kernel.tensors)
        machine = self.machine
        return self.workers * max(flops / machine.flops, num_bytes / machine.bandwidth)

    def max_saving(
        self,
        stage: Stage[Kernel],
        serial: Mapping[Hashable, float],
        costs: Mapping[Hashable, float],
    ) -> float:
        """Return an upper bound for the time that the stage saves over serial execution.

        The bound adds up the barriers, the wait for the last tile of each operator, and the load
        imbalance of each operator.
        """
        calls = _calls(stage, {})
        passed = passing_bytes(calls) if in_strips(calls) else 0
        saved = passed * _FAR / self.workers - _BARRIER
        for single in self.per_operator(stage):
            if single.is_noop:
                continue
            (implementation,) = single.implementations
            seconds, num_tiles = serial[single.key], implementation.kernel.num_tiles
            rounds = math.ceil(num_tiles / self.workers)
            waiting = seconds * (1 - num_tiles / (self.workers * rounds))
            uneven = seconds - costs[implementation.kernel.key] / self.workers
            saved += _BARRIER + max(waiting, uneven, 0.0)
        return saved

    def _names(self, operators: tuple[int, ...]) -> list[str]:
        return self.lowered.graph.names(operators)


def _named(kernels: Mapping[str, str | None], name: str, variant: str) -> str:
    """Return the kernel of an operator that a schedule names, ``variant`` if it leaves it out.

    A convolution that a schedule has without a kernel is computed directly: the release that made
    the schedule had no other kernel for it, and may have cut row strips of it.
    """
    if name in kernels and is_winograd(variant):
        return kernels[name] or variant_name(None)
    return kernels.get(name) or variant


def _single(stage: Stage[Kernel]) -> int | None:
    """Return the operator of a stage that has no other."""
    operators = [op for i in stage.implementations for op in i.operators]
    return operators[0] if len(operators) == 1 else None


def _calls(stage: Stage[Kernel], costs: Mapping[Hashable, float]) -> list[PlannedCall]:
    parts = zip(stage.implementations, stage.groups, stage.after, strict=True)
    return [
        PlannedCall(i.kernel, costs.get(i.kernel.key, 1.0), group, after)
        for i, group, after in parts
    ]
