# SPDX-License-Identifier: Apache-2.0
"""From sets of operators to stages of kernels, whatever kind of device they are for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

from ..graph.dag import components
from ..schedule.synchronization import Synchronization
from ..sizes.size import hint_of
from ..support.keys import Key
from .implementation import Implementation, LoweredGraph, moved_bytes
from .kernel import K, K_co
from .machine import Machine
from .replacements.find import Replacements


@dataclass(frozen=True)
class Stage(Generic[K_co]):
    """Operators that run together, as kernels.

    Equal stages are looked up and measured once. What runs is a subclass, one for each back end, in
    which the work is partitioned.

    Attributes
    ----------
    implementations : tuple of Implementation
        In an order that respects the edges between them.
    groups : tuple of int
        The group of each.
    after : tuple of tuple of int
        The implementations, by position, whose results each one reads.
    """

    implementations: tuple[Implementation[K_co], ...]
    groups: tuple[int, ...]
    after: tuple[tuple[int, ...], ...]

    @staticmethod
    def single(implementation: Implementation[K]) -> Stage[K]:
        """Return the stage of one implementation."""
        return Stage((implementation,), (0,), ((),))

    @property
    def is_noop(self) -> bool:
        """Whether there is nothing to do, as all results are in place already."""
        return all(i.kernel.is_noop for i in self.implementations)

    @cached_property
    def key(self) -> Key:
        """Equal for stages of the same kernels, wiring and groups, wherever they stand."""
        reads: dict[int, int] = {}
        wiring = []
        for implementation in self.implementations:
            values = [v for v in implementation.inputs if hasattr(v, "ty")]
            wiring.append(tuple(reads.setdefault(hash(v), len(reads)) for v in values))
        kernels = tuple(i.kernel.key for i in self.implementations)
        others = tuple(i.kernel.alternatives for i in self.implementations)
        shared = len(set(self.groups)) > 1 and any(others)
        return Key((kernels, tuple(wiring), self.groups, self.after, *([others] if shared else ())))


AnyStage = Stage[Any]
"""One of any back end, for what is not concerned with its kernels."""

S = TypeVar("S", bound=AnyStage)
"""The partitioned stages of one back end."""


@dataclass
class StageBuilder(ABC, Generic[K, S]):
    """Builds stages of one lowered graph; what replaces operators is built once.

    Attributes
    ----------
    lowered : LoweredGraph
    workers : int
        What computes tiles at the same time: a CPU's threads, a GPU's multiprocessors.
    """

    lowered: LoweredGraph[K]
    workers: int
    _replacing: dict[tuple[int, ...], Implementation[K]] = field(default_factory=dict)

    default_partitioning: ClassVar[str]
    """The work partitioning that every stage has."""

    def preferred_partitioning(self, _stage: Stage[K]) -> str:
        """Return the work partitioning of a stage of which nothing was measured."""
        return self.default_partitioning

    def depth_first(self) -> Iterable[tuple[int, ...]]:
        """Yield the operators that make one group of a stage where nothing was measured.

        They are in topological order, only the last one is read by others, and no operator is in
        two groups. By default every operator has a stage of its own.
        """
        return ()

    def at_once(self) -> Iterable[tuple[int, ...]]:
        """Yield the operators that share a stage where nothing was measured, each as a group.

        They do not depend on each other, and nothing that reads one of them comes before the last
        one. None of them is in :meth:`depth_first`.
        """
        return ()

    @property
    def synchronization(self) -> Synchronization:
        """How workers wait for each other if nothing says otherwise."""
        return "barrier"

    @property
    def sequential_synchronization(self) -> Synchronization:
        """How they do where operators run one after another."""
        return self.synchronization

    @property
    @abstractmethod
    def cache_bytes(self) -> int:
        """The bytes of the L2 cache, as far as it is one worker's."""

    @property
    def machine(self) -> Machine:
        """The figures that stages are described by to the learned cost model."""
        return Machine.typical(self.workers, self.cache_bytes)

    @cached_property
    def replacements(self) -> Replacements[K]:
        """What of the graph may be replaced; nothing, unless a back end has rules."""
        return Replacements.none(len(self.lowered.graph.operators))

    def partitionings(self, stage: Stage[K], costs: Mapping[Hashable, float]) -> tuple[str, ...]:
        """Return the partitionings of the stage's work that are worth measuring."""
        return (self.default_partitioning,)

    @abstractmethod
    def partition(self, stage: Stage[K], partitioning: str, costs: Mapping[Hashable, float]) -> S:
        """Partition the stage's work by the kernels' times.

        Parameters
        ----------
        stage : Stage
        partitioning : str
        costs : mapping of kernel key to float
            Seconds of each kernel on one worker.

        Raises
        ------
        ScheduleError
            When these operators' work cannot be shared out so.
        """

    def kernels(self, stage: Stage[K], costs: Mapping[Hashable, float]) -> Iterable[K]:
        """Return what must be compiled for the stage to be timed in all its partitionings."""
        return [i.kernel for i in stage.implementations]

    def max_saving(
        self, stage: Stage[K], serial: Mapping[Hashable, float], costs: Mapping[Hashable, float]
    ) -> float:
        """Return the seconds that running its operators together can save at most, generously.

        By default that is all of them.

        Parameters
        ----------
        stage : Stage
        serial : mapping
            Seconds of each operator as a stage of its own, by the stage's key.
        costs : mapping
            Seconds of each kernel on one worker, by its key.
        """
        return sum(serial[single.key] for single in self.per_operator(stage))

    def variant(self, _op: int) -> str | None:
        """Return which of its possible kernels an operator has; None where it has no choice."""
        return None

    def variants(self, _op: int) -> frozenset[str]:
        """Return the names of all kernels that an operator has a choice of."""
        return frozenset()

    def promising(self, _op: int) -> tuple[str, ...]:
        """Return the kernels of an operator that may be the fastest in a network, its own first.

        There are none if it has no choice.
        """
        return ()

    def exact_kernels(self) -> Mapping[str, str]:
        """Return the kernels in float32 of operators that have a choice of precision, by name."""
        return {}

    def lean_variant(self, _op: int) -> str | None:
        """Return which kernel takes less of a device for an operator; None if there is no other."""
        return None

    def chosen(
        self, _kernels: Mapping[str, str | None], _lean: Mapping[str, str | None]
    ) -> StageBuilder[K, S]:
        """Return a builder with the kernels that a schedule names, by operator.

        The second ones are those that take less of a device.
        """
        return self

    def stage(self, groups: Sequence[Sequence[int]], strategy: str) -> Stage[K]:
        """Return the stage of ``groups``; ``strategy`` is ``concurrent`` or ``merge``.

        A single operator that has no replacement runs as it is with either.
        """
        ops = sorted(op for group in groups for op in group)
        if strategy == "merge" and (len(ops) > 1 or self.replacements.find(ops)):
            return Stage.single(self._replacement(tuple(ops)))
        before = self.lowered.graph.predecessors
        group_of = {op: g for g, group in enumerate(groups) for op in group}
        position = {op: i for i, op in enumerate(ops)}
        return Stage(
            self._implementations(ops),
            tuple(group_of[op] for op in ops),
            tuple(tuple(position[p] for p in before[op] if p in position) for op in ops),
        )

    def stage_of(self, ops: Sequence[int], strategy: str) -> Stage[K]:
        """Return the stage of ``ops``, whose groups are their connected components."""
        return self.stage(components(self.lowered.graph.dag, ops), strategy)

    def _replacement(self, ops: tuple[int, ...]) -> Implementation[K]:
        """Return the implementation that replaces the operators."""
        if ops not in self._replacing:
            replacement = self.replacements.find(ops)
            assert replacement is not None, "these operators may be replaced"
            self._replacing[ops] = replacement.target(ops)
        return self._replacing[ops]

    def originals(self, stage: Stage[K]) -> tuple[Implementation[K], ...]:
        """Return the implementations of a stage's operators, none replaced."""
        return self._implementations([op for i in stage.implementations for op in i.operators])

    def _implementations(self, ops: Sequence[int]) -> tuple[Implementation[K], ...]:
        known = [i for op in ops if (i := self.lowered.implementations[op]) is not None]
        assert len(known) == len(ops), "a stage's operators have kernels"
        return tuple(known)

    def per_operator(self, stage: Stage[K]) -> list[Stage[K]]:
        """Return a stage of its own for each operator of a stage."""
        return [Stage.single(i) for i in self.originals(stage)]


AnyStageBuilder = StageBuilder[Any, Any]


def estimated_seconds(stage_builder: AnyStageBuilder) -> dict[Hashable, float]:
    """Estimate the operators' times, where nothing was measured, by operations and bytes moved.

    Only their proportions count; a byte is taken for ten operations.
    """
    lowered = stage_builder.lowered
    result = {}
    for op, implementation in zip(lowered.graph.operators, lowered.implementations, strict=True):
        if implementation is not None:
            moved = sum(map(sum, moved_bytes(implementation, lowered.slots)))
            moved += sum(hint_of(spec.num_bytes) for spec in implementation.kernel.scratch)
            result[implementation.kernel.key] = 1e-11 * (op.flops + 10 * moved)
    return result
