# SPDX-License-Identifier: Apache-2.0
"""The stage builder of CUDA devices: kernels on parallel streams, or fused into one launch."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ....schedule.partitioning import FUSED, StreamDivision
from ....support.errors import ScheduleError
from ...shared.implementation import LoweredGraph
from ...shared.replacements.find import Replacements, find_replacements
from ...shared.stages import Assembler, StageForm
from ..kernels.kernel import CudaKernel
from ..replace.table import REPLACEMENTS
from ..rules.implement import CudaNetwork
from .fused import FusedKernels
from .stage import CudaStage, Launch
from .streams import GroupLoad, assign, stream_divisions

_LAUNCH = 4e-6  # seconds; an upper bound for what one launch less in a graph saves


@dataclass
class CudaAssembler(Assembler[CudaKernel, CudaStage]):
    """The stage builder of one network for a CUDA device.

    Attributes
    ----------
    network : CudaNetwork
    """

    lowered: LoweredGraph[CudaKernel] = field(init=False)
    workers: int = field(init=False)
    network: CudaNetwork = field(kw_only=True)

    usual = "streams"

    def __post_init__(self) -> None:
        self.lowered = self.network.lowered
        self.workers = self.lowered.preferences.multiprocessors
        self._fused_kernels = FusedKernels(self.lowered.preferences.target)

    def variant(self, op: int) -> str | None:
        """Return the variant of an operator's kernel, None if it has none."""
        implementation = self.lowered.implementations[op]
        return None if implementation is None else implementation.kernel.variant

    def variants(self, op: int) -> frozenset[str]:
        """Return the variants of an operator's candidate kernels."""
        return frozenset(found.kernel.variant for found in self.network.candidates[op])

    def chosen(self, kernels: Mapping[str, str | None]) -> CudaAssembler:
        """Return the stage builder with these kernels, by operator."""
        network = self.network.choose(kernels)
        return self if network is self.network else CudaAssembler(network=network)

    @property
    def cache_bytes(self) -> int:
        """A multiprocessor's share of the L2 cache, in bytes."""
        return self.lowered.preferences.l2_bytes // self.workers

    @cached_property
    def replacements(self) -> Replacements[CudaKernel]:
        """The sets of operators that one kernel can replace."""
        return find_replacements(self.lowered, REPLACEMENTS)

    def divisions(
        self, form: StageForm[CudaKernel], costs: Mapping[Hashable, float]
    ) -> tuple[str, ...]:
        """Return the stream assignments that are worth measuring, and ``fused`` if it applies."""
        divisions = tuple(map(str, stream_divisions(_loads(form, costs))))
        return divisions if self._fused(form, costs) is None else (*divisions, FUSED)

    def stage(
        self, form: StageForm[CudaKernel], division: str, costs: Mapping[Hashable, float]
    ) -> CudaStage:
        """Return the stage with its work partitioned.

        Parameters
        ----------
        form : StageForm
            The stage spec.
        division : str
            The work partitioning.
        costs : mapping of Hashable to float
            Seconds of each kernel, by key.

        Returns
        -------
        CudaStage
            The launches.

        Raises
        ------
        ScheduleError
            If the partitioning is unknown or does not suit the operators.
        """
        streams = StreamDivision.parse(division)
        launches = self._fused(form, costs) if division == FUSED else None
        if launches is not None:
            return CudaStage(form.implementations, launches)
        if streams is None:
            names = self.lowered.graph.names(
                [op for i in form.implementations for op in i.operators]
            )
            raise ScheduleError(
                f"A CUDA device cannot partition these operators by {division!r}: "
                f"{', '.join(names)}; use 'streams'."
            )
        return CudaStage(form.implementations, tuple(_on_streams(form, streams, costs)))

    def kernels(
        self, form: StageForm[CudaKernel], costs: Mapping[Hashable, float]
    ) -> Iterable[CudaKernel]:
        """Return the kernels that the stage's partitionings need."""
        stages = (self.stage(form, d, costs) for d in self.divisions(form, costs))
        return [launch.kernel for stage in stages for launch in stage.launches]

    def most_saved(
        self,
        form: StageForm[CudaKernel],
        apart: Mapping[Hashable, float],
        costs: Mapping[Hashable, float],
    ) -> float:
        """Return an upper bound for the time that the stage saves over serial execution.

        The bound is the time of all groups but the longest, as if the device had room for all of
        them, plus the launches.

        Parameters
        ----------
        form : StageForm
            The stage spec.
        apart : mapping of Hashable to float
            Measured seconds of each operator as a stage of its own, by key.
        costs : mapping of Hashable to float
            Not read.

        Returns
        -------
        float
            Seconds.
        """
        singles = self.singles(form)
        seconds = [apart[single.key] for single in singles]
        if len(singles) != len(form.groups):  # operators were replaced: no better bound is known
            return sum(seconds)
        groups: dict[int, float] = {}
        for group, time in zip(form.groups, seconds, strict=True):
            groups[group] = groups.get(group, 0.0) + time
        return sum(seconds) - max(groups.values()) + _LAUNCH * (len(singles) - 1)

    def _fused(
        self, form: StageForm[CudaKernel], costs: Mapping[Hashable, float]
    ) -> tuple[Launch, ...] | None:
        """Return one launch per level of the groups, its longest kernels first.

        Return None if there is a single group, or if the kernels cannot share a launch.
        """
        if len(set(form.groups)) == 1:
            return None
        launches = []
        for level in _levels(form):
            parts = [form.implementations[i] for i in level]
            parts.sort(key=lambda part: -costs.get(part.kernel.key, 0.0))
            launch = self._fused_kernels.launch(parts)
            if launch is None:
                return None
            launches.append(launch)
        return tuple(launches)


def _on_streams(
    form: StageForm[CudaKernel], division: StreamDivision, costs: Mapping[Hashable, float]
) -> Iterator[Launch]:
    """Yield the launches level by level, so that every stream starts immediately."""
    numbers = list(dict.fromkeys(form.groups))
    streams = assign(division, _loads(form, costs))
    rank = {numbers[group]: place for place, group in enumerate(streams)}
    for level in _levels(form):
        for i in sorted(level, key=lambda i: rank[form.groups[i]]):
            implementation, group = form.implementations[i], numbers.index(form.groups[i])
            yield Launch(
                implementation.kernel,
                streams[group],
                implementation.inputs,
                implementation.outputs,
            )


def _levels(form: StageForm[CudaKernel]) -> list[list[int]]:
    """Group the implementations by how many of the stage precede them in their group."""
    depth: list[int] = []
    for before in form.after:
        depth.append(1 + max((depth[i] for i in before), default=-1))
    return [[i for i, d in enumerate(depth) if d == level] for level in range(max(depth) + 1)]


def _loads(form: StageForm[CudaKernel], costs: Mapping[Hashable, float]) -> list[GroupLoad]:
    """Return the loads of the groups, in the order in which they first appear."""
    loads: dict[int, GroupLoad] = {}
    for implementation, group in zip(form.implementations, form.groups, strict=True):
        known, kernel = loads.get(group, GroupLoad(0.0, 0)), implementation.kernel
        seconds = known.seconds + costs.get(kernel.key, 0.0)
        loads[group] = GroupLoad(seconds, max(known.blocks, kernel.tiles))
    return list(loads.values())
