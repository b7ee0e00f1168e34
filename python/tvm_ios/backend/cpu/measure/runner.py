# SPDX-License-Identifier: Apache-2.0
"""The kernels and tensors of one network in a session, ready to time any stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ....lowering.cold import ColdWeights, Place, arena_bytes, level_of
from ....lowering.implementation import Implementation, LoweredGraph, constants, present
from ....measure.protocol import TimedRuns
from ....measure.transport.session import Session
from ..kernels.kernel import Kernel
from ..rules.base import CpuLoweredGraph
from ..stage.plan import StripShare
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
                (number, phase, levels[-1] + phase, cuts)
                for _, phase, _, cuts in _serial_rows(implementation)
            ]
            levels.append(len(rows))
        places = self._cold_places(list(enumerate(implementations)), repeat)
        return self._timed(implementations, places, rows, np.diff(levels).tolist(), 1)

    def time(self, stages: Sequence[CpuStage], repeat: int) -> TimedRuns:
        """Time runs of stages one after another, in one launch, as in a compiled network.

        A stage finds its inputs where the stages before it left them, in a workspace that is
        planned as the network's, and its weights cold. Unlike there, the workers meet at
        barriers, see :func:`tvm_ios.compiler.compare.compare`.
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
        calls = list(dict.fromkeys(row[:2] for row in rows))
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


_Row = tuple[int, int, int, tuple[int, ...]]  # implementation, phase, level, cuts


def _serial_rows(implementation: Implementation[Kernel]) -> list[_Row]:
    """Return the rows that run the whole operator on one worker."""
    return [(0, p, p, (0, phase.num_tiles)) for p, phase in enumerate(implementation.kernel.phases)]


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
                (first + i, phase, level + own, cuts) for i, phase, own, cuts in _rows(stage)
            )
            network.implementations.extend(stage.implementations)
            network.stages.extend([number] * len(stage.implementations))
            level += len(stage.plan.levels)
        return network


def _program(rows: Sequence[_Row], calls: Sequence[tuple[int, int]]) -> np.ndarray:
    """Return the rows of a program, int32, whose numbers refer to ``calls``."""
    numbers = {call: n for n, call in enumerate(calls)}
    return np.array([(numbers[row[:2]], row[2], *row[3]) for row in rows], "int32")


def _rows(stage: CpuStage) -> list[_Row]:
    rows: list[_Row] = []
    for number, level in enumerate(stage.plan.levels):
        for share in level:
            if isinstance(share, StripShare):
                rows += [(call, 0, number, cuts) for call, cuts in _strip_rows(stage, share)]
            else:
                rows.append((share.call, share.phase, number, share.cuts))
    return rows


def _strip_rows(stage: CpuStage, share: StripShare) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield calls with their cuts; each gives one worker the same tiles of one plane."""
    workers = stage.plan.workers
    for worker, steps in enumerate(share.steps):
        for step in steps:
            plane = stage.implementations[step.call].kernel.strip_plane
            for outer in range(plane.outer):
                begin, end = (outer * plane.num_tiles + tile for tile in (step.begin, step.end))
                yield step.call, (begin,) * (worker + 1) + (end,) * (workers - worker)
