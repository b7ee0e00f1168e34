# SPDX-License-Identifier: Apache-2.0
"""The stage builder of CUDA devices: kernels on parallel streams, or fused into one launch."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from ....lowering.replacements.find import Replacements, find_replacements
from ....lowering.stages import Stage, StageBuilder
from ....schedule.partitioning import FUSED, FUSED_LEAN, StreamPartitioning
from ....schedule.synchronization import Synchronization
from ....support.errors import ScheduleError
from ..kernels.kernel import CudaKernel
from ..replace.table import REPLACEMENTS
from ..rules.config import CudaLoweredGraph
from ..rules.implement import CudaNetwork
from .fused import FusedKernels
from .stage import CudaStage, Launch
from .streams import GroupLoad, assign, stream_partitionings

_LAUNCH = 4e-6  # seconds; an upper bound for what one launch less in a graph saves


@dataclass
class CudaStageBuilder(StageBuilder[CudaKernel, CudaStage]):
    """The stage builder of one network for a CUDA device.

    Attributes
    ----------
    network : CudaNetwork
    """

    lowered: CudaLoweredGraph = field(init=False)
    workers: int = field(init=False)
    network: CudaNetwork = field(kw_only=True)

    default_partitioning = "streams"

    def __post_init__(self) -> None:
        self.lowered = self.network.lowered
        self.workers = self.lowered.config.limits.multiprocessors
        self._fused_kernels = FusedKernels(self.lowered.config.target)

    @property
    def synchronization(self) -> Synchronization:
        """A kernel waits for those that compute what it reads, not for a stage."""
        return "point-to-point"

    @property
    def sequential_synchronization(self) -> Synchronization:
        """Kernels without waits for each other would not run one after another."""
        return "barrier"

    def variant(self, op: int) -> str | None:
        """Return the variant of an operator's kernel, None if it has none."""
        implementation = self.lowered.implementations[op]
        return None if implementation is None else implementation.kernel.variant or None

    def variants(self, op: int) -> frozenset[str]:
        """Return the variants of an operator's candidate kernels."""
        kernels = (found.kernel for found in self.network.candidates[op])
        return frozenset(kernel.variant for kernel in kernels if not kernel.is_noop)

    def lean_variant(self, op: int) -> str | None:
        """Return the variant of the kernel that takes less of the device; None if there is none."""
        implementation = self.lowered.implementations[op]
        lean = None if implementation is None else implementation.kernel.lean
        return None if lean is None else lean.variant

    def chosen(
        self, kernels: Mapping[str, str | None], lean: Mapping[str, str | None]
    ) -> CudaStageBuilder:
        """Return the stage builder with these kernels, by operator."""
        network = self.network.choose(kernels, lean)
        return self if network is self.network else CudaStageBuilder(network=network)

    @property
    def cache_bytes(self) -> int:
        """A multiprocessor's share of the L2 cache, in bytes."""
        return self.lowered.config.limits.l2_bytes // self.workers

    @cached_property
    def replacements(self) -> Replacements[CudaKernel]:
        """The sets of operators that one kernel can replace."""
        return find_replacements(self.lowered, REPLACEMENTS)

    def partitionings(
        self, stage: Stage[CudaKernel], costs: Mapping[Hashable, float]
    ) -> tuple[str, ...]:
        """Return the stream assignments that are worth measuring, and ``fused`` if it applies.

        Lean kernels are worth it if those that are the fastest alone have more blocks together than
        the device has multiprocessors.
        """
        loads = _loads(stage, costs)
        found = tuple(map(str, stream_partitionings(loads)))
        crowded = len(loads) > 1 and sum(load.blocks for load in loads) > self.workers
        lean = crowded and any(i.kernel.lean is not None for i in stage.implementations)
        if lean:
            found += (str(StreamPartitioning(lean=True)),)
        if self._fused(stage, costs) is not None:
            found += (FUSED,)
        if lean and self._fused(*_lean(stage, costs)) is not None:
            found += (FUSED_LEAN,)
        return found

    def partition(
        self, stage: Stage[CudaKernel], partitioning: str, costs: Mapping[Hashable, float]
    ) -> CudaStage:
        """Return the stage with its work partitioned.

        Raises
        ------
        ScheduleError
            If the partitioning is unknown or does not suit the operators.
        """
        streams = StreamPartitioning.parse(partitioning)
        if partitioning == FUSED_LEAN or (streams is not None and streams.lean):
            stage, costs = _lean(stage, costs)
        fused = partitioning in (FUSED, FUSED_LEAN)
        launches = self._fused(stage, costs) if fused else None
        if launches is not None:
            return CudaStage.of(stage, launches)
        if streams is None:
            names = self.lowered.graph.names(
                [op for i in stage.implementations for op in i.operators]
            )
            raise ScheduleError(
                f"A CUDA device cannot partition these operators by {partitioning!r}: "
                f"{', '.join(names)}; use 'streams'."
            )
        return CudaStage.of(stage, _on_streams(stage, streams, costs))

    def kernels(
        self, stage: Stage[CudaKernel], costs: Mapping[Hashable, float]
    ) -> Iterable[CudaKernel]:
        """Return the kernels that the stage's partitionings need."""
        partitioned = (self.partition(stage, p, costs) for p in self.partitionings(stage, costs))
        return [launch.kernel for each in partitioned for launch in each.launches]

    def max_saving(
        self,
        stage: Stage[CudaKernel],
        serial: Mapping[Hashable, float],
        costs: Mapping[Hashable, float],
    ) -> float:
        """Return an upper bound for the time that the stage saves over serial execution.

        The bound is the time of all groups but the longest, as if the device had room for all of
        them, plus the launches.
        """
        per_operator = self.per_operator(stage)
        seconds = [serial[single.key] for single in per_operator]
        if len(per_operator) != len(
            stage.groups
        ):  # operators were replaced: no better bound is known
            return sum(seconds)
        groups: dict[int, float] = {}
        for group, time in zip(stage.groups, seconds, strict=True):
            groups[group] = groups.get(group, 0.0) + time
        return sum(seconds) - max(groups.values()) + _LAUNCH * (len(per_operator) - 1)

    def _fused(
        self, stage: Stage[CudaKernel], costs: Mapping[Hashable, float]
    ) -> tuple[Launch, ...] | None:
        """Return one launch per level of the groups, its longest kernels first.

        Return None if there is a single group, or if the kernels cannot share a launch.
        """
        if len(set(stage.groups)) == 1:
            return None
        launches = []
        for level in _levels(stage):
            parts = [stage.implementations[i] for i in level]
            parts.sort(key=lambda part: -costs.get(part.kernel.key, 0.0))
            launch = self._fused_kernels.launch(parts)
            if launch is None:
                return None
            launches.append(launch)
        return tuple(launches) or None


def _lean(
    stage: Stage[CudaKernel], costs: Mapping[Hashable, float]
) -> tuple[Stage[CudaKernel], Mapping[Hashable, float]]:
    """Return the stage with the lean kernels of its operators, and with the costs of the others.

    Schedules have no times of the lean ones.
    """
    implementations = [replace(i, kernel=i.kernel.lean or i.kernel) for i in stage.implementations]
    pairs = zip(stage.implementations, implementations, strict=True)
    known = {lean.kernel.key: costs.get(i.kernel.key, 0.0) for i, lean in pairs}
    return replace(stage, implementations=tuple(implementations)), {**costs, **known}


def _on_streams(
    stage: Stage[CudaKernel], partitioning: StreamPartitioning, costs: Mapping[Hashable, float]
) -> Iterator[Launch]:
    """Yield the launches level by level, so that every stream starts immediately."""
    numbers = _working_groups(stage)
    streams = assign(partitioning, _loads(stage, costs))
    rank = {numbers[group]: place for place, group in enumerate(streams)}
    for level in _levels(stage):
        for i in sorted(level, key=lambda i: rank[stage.groups[i]]):
            implementation = stage.implementations[i]
            stream = streams[numbers.index(stage.groups[i])]
            values = (implementation.inputs, implementation.outputs)
            yield Launch(implementation.kernel, stream, *values)


def _levels(stage: Stage[CudaKernel]) -> list[list[int]]:
    """Group the implementations by how many of the stage precede them in their group.

    Those that have nothing to compute are left out.
    """
    depth: list[int] = []
    for before in stage.after:
        depth.append(1 + max((depth[i] for i in before), default=-1))
    levels: dict[int, list[int]] = {}
    for i, implementation in enumerate(stage.implementations):
        if not implementation.kernel.is_noop:
            levels.setdefault(depth[i], []).append(i)
    return [levels[level] for level in sorted(levels)]


def _working_groups(stage: Stage[CudaKernel]) -> list[int]:
    """Return the groups that have something to compute, in the order in which they appear."""
    pairs = zip(stage.implementations, stage.groups, strict=True)
    return list(dict.fromkeys(group for i, group in pairs if not i.kernel.is_noop))


def _loads(stage: Stage[CudaKernel], costs: Mapping[Hashable, float]) -> list[GroupLoad]:
    """Return the loads of the groups that have something to compute."""
    loads = dict.fromkeys(_working_groups(stage), GroupLoad(0.0, 0))
    for implementation, group in zip(stage.implementations, stage.groups, strict=True):
        if implementation.kernel.is_noop:
            continue
        known, kernel = loads[group], implementation.kernel
        seconds = known.seconds + costs.get(kernel.key, 0.0)
        loads[group] = GroupLoad(seconds, max(known.blocks, kernel.num_tiles))
    return list(loads.values())
