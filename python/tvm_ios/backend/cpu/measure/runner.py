# SPDX-License-Identifier: Apache-2.0
"""The kernels and tensors of one network in a session, ready to time any stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np

from ....lowering.cold import ColdWeights, Place, arena_bytes, level_of
from ....lowering.implementation import Implementation, LoweredGraph, constants, present
from ....measure.protocol import TimedRuns
from ....measure.transport.session import Session
from ..kernels.kernel import Kernel
from ..rules.base import CpuLoweredGraph
from ..stage.plan import Share, StripShare
from ..stage.stage import CpuStage
from .builder import CpuKernelBuilder
from .network_tensors import WEIGHTS, NetworkTensors
from .session_handles import Call, CpuSessionHandles


class CpuStageRunner:
    """The compiled kernels, one per key, and the tensors of one network, in a session.

    Kernels are compiled when they are first timed.

    Parameters
    ----------
    lowered : LoweredGraph
        The network.
    builder : CpuKernelBuilder
        Compiles the kernels.
    session : Session
        The process that runs them.
    seed : int
        Seed of the random inputs.

    Attributes
    ----------
    session : Session
    """

    def __init__(
        self, lowered: LoweredGraph[Kernel], builder: CpuKernelBuilder, session: Session, seed: int
    ) -> None:
        self._builder, self.session = builder, session
        self._lowered, self._seed = lowered, seed
        self._started = False

    def time_alone(
        self, implementations: Sequence[Implementation[Kernel]], repeat: int
    ) -> TimedRuns:
        """Time runs of operators one after another on one worker, each as a stage."""
        self.prepare()
        rows, levels = [], [0]
        for number, implementation in enumerate(implementations):
            rows += [
                row._replace(implementation=number, level=levels[-1] + row.level)
                for row in _serial_rows(implementation)
            ]
            levels.append(len(rows))
        places = self._cold_places(list(enumerate(implementations)), repeat)
        return self._timed(implementations, places, rows, np.diff(levels).tolist(), 1)

    def time(self, stages: Sequence[CpuStage], repeat: int) -> TimedRuns:
        """Time runs of stages one after another, in one launch, as in a compiled network.

        A stage finds its inputs where the stages before it left them, in a workspace that is
        planned as the network's, and its weights cold. Unlike there, each level ends with a
        barrier, see :func:`tvm_ios.compiler.compare.compare`.
        """
        self.prepare()
        network = _Network.of(stages)
        places = self._cold_places(network.calls, repeat)
        levels = [len(stage.plan.levels) for stage in stages]
        workers = stages[0].plan.workers
        return self._timed(network.implementations, places, network.rows, levels, workers)

    def prepare(self) -> None:
        """Compute the network's values; a second call does nothing."""
        if self._started:
            return
        self._handles = CpuSessionHandles(self.session, self._builder)
        self._tensors = NetworkTensors(self._lowered, self._handles, self._seed)
        self._cold = ColdWeights(constants(self._lowered, WEIGHTS), self._tensors.random_memory)
        for implementation in present(self._lowered):  # in order: each tensor gets its final value
            rows = _serial_rows(implementation)
            places = [self._tensors.places(implementation)]
            self._timed([implementation], [places], rows, [len(rows)], 1)
        self._started = True

    def _timed(
        self,
        implementations: Sequence[Implementation[Kernel]],
        runs: Sequence[Sequence[tuple[Place, ...]]],
        rows: Sequence[_Row],
        levels: Sequence[int],
        workers: int,
    ) -> TimedRuns:
        """Time each run, in which the implementations' tensors have places of their own."""
        if not rows:  # all results are in place already
            return TimedRuns.steady(np.zeros((len(runs), len(levels))))
        calls = list(dict.fromkeys(row.call for row in rows))
        made = [
            [Call(implementations[i].kernel, p, places[i]) for i, p in calls] for places in runs
        ]
        return self._handles.time(made, _program(rows, calls), levels, workers)

    def _cold_places(
        self, calls: Sequence[tuple[int, Implementation[Kernel]]], repeat: int
    ) -> list[list[tuple[Place, ...]]]:
        """Return the places of the kernels' tensors in each of ``repeat`` runs of the stages."""
        workspace, take = self._tensors.workspace(calls), self._cold.take
        return [[self._tensors.places(i, workspace, take) for _, i in calls] for _ in range(repeat)]


def weights_from(lowered: CpuLoweredGraph) -> str:
    """Return the memory level that timed stages read their weights from; latencies depend on it."""
    return level_of(arena_bytes(constants(lowered, WEIGHTS)), lowered.config.core.l2_bytes)


class _Row(NamedTuple):
    """A row of a program, see ``CpuStage`` in ``src/runtime/cpu_stage.h``."""

    implementation: int
    phase: int
    level: int
    units: int
    cuts: tuple[int, ...]

    @property
    def call(self) -> tuple[int, int]:
        """What is called."""
        return self.implementation, self.phase


def _serial_rows(implementation: Implementation[Kernel]) -> list[_Row]:
    """Return the rows that run the whole operator on one worker."""
    phases = enumerate(implementation.kernel.phases)
    return [_Row(0, p, p, 1, (phase.first, phase.first + phase.num_tiles)) for p, phase in phases]


@dataclass(frozen=True)
class _Network:
    """Stages one after another, as rows of one program.

    Attributes
    ----------
    implementations : list of Implementation
        Those of all stages.
    stages : list of int
        The stage of each implementation.
    rows : list
        Rows whose numbers refer to these implementations, and to levels of the whole.
    """

    implementations: list[Implementation[Kernel]]
    stages: list[int]
    rows: list[_Row]

    @property
    def calls(self) -> list[tuple[int, Implementation[Kernel]]]:
        """The implementations with their stages."""
        return list(zip(self.stages, self.implementations, strict=True))

    @classmethod
    def of(cls, stages: Sequence[CpuStage]) -> _Network:
        network, level = cls([], [], []), 0
        for number, stage in enumerate(stages):
            first = len(network.implementations)
            network.rows.extend(
                row._replace(implementation=first + row.implementation, level=level + row.level)
                for row in _rows(stage)
            )
            network.implementations.extend(stage.implementations)
            network.stages.extend([number] * len(stage.implementations))
            level += len(stage.plan.levels)
        return network


def _program(rows: Sequence[_Row], calls: Sequence[tuple[int, int]]) -> np.ndarray:
    """Return the rows of a program, int32, whose numbers refer to ``calls``."""
    numbers = {call: n for n, call in enumerate(calls)}
    encoded = [(numbers[row.call], row.level, row.units, *row.cuts) for row in rows]
    return np.array(encoded, "int32")


def _rows(stage: CpuStage) -> list[_Row]:
    rows: list[_Row] = []
    for number, level in enumerate(stage.plan.levels):
        for share in level:
            if isinstance(share, StripShare):
                rows += _strip_rows(stage, number, share)
            else:
                rows += _tile_rows(stage, number, share)
    return rows


def _tile_rows(stage: CpuStage, level: int, share: Share) -> Iterator[_Row]:
    """Yield a row for adjacent workers that divide their tiles into equally many units."""
    cuts, workers = share.cuts, stage.plan.workers
    counts = [stage.num_units(share, begin, end) for begin, end in pairwise(cuts)]
    tile = stage.implementations[share.call].kernel.phases[share.phase].first
    cuts = tuple(tile + cut for cut in share.cuts)
    first = 0
    for count, alike in groupby(counts):
        last = first + len(list(alike))
        own = (cuts[first],) * first + cuts[first : last + 1] + (cuts[last],) * (workers - last)
        yield _Row(share.call, share.phase, level, count, own)
        first = last


def _strip_rows(stage: CpuStage, level: int, share: StripShare) -> Iterator[_Row]:
    """Yield rows that each give one worker the same tiles of one plane, all of one share."""
    workers, units = stage.plan.workers, 1
    for worker, steps in enumerate(share.steps):
        for step in steps:
            plane = stage.implementations[step.call].kernel.strip_plane
            for outer in range(plane.outer):
                begin, end = (outer * plane.num_tiles + tile for tile in (step.begin, step.end))
                cuts = (begin,) * (worker + 1) + (end,) * (workers - worker)
                yield _Row(step.call, 0, level, units, cuts)
                units = 0  # those that follow continue the share
