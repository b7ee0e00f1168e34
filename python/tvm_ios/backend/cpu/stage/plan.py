# SPDX-License-Identifier: Apache-2.0
"""Which worker computes which tiles of a stage, and in what order."""

from __future__ import annotations

from dataclasses import dataclass

from ..kernels.kernel import Kernel


@dataclass(frozen=True)
class Share:
    """Worker ``w`` computes tiles ``cuts[w]`` to ``cuts[w + 1]`` of a phase of a call.

    Attributes
    ----------
    call : int
        Index of the kernel call in its stage.
    phase : int
    cuts : tuple of int
        ``workers + 1`` rising tile boundaries, from 0 to the number of tiles.
    """

    call: int
    phase: int
    cuts: tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """The tiles ``begin`` to ``end`` of each plane of a call."""

    call: int
    begin: int
    end: int


@dataclass(frozen=True)
class BandShare:
    """What each worker computes of a group, band by band, in order."""

    steps: tuple[tuple[Step, ...], ...]


@dataclass(frozen=True)
class StagePlan:
    """Levels of shares for ``workers`` workers.

    The shares of one level run without synchronisation, each worker's in order; between levels all
    workers meet at a barrier.
    """

    workers: int
    levels: tuple[tuple[Share | BandShare, ...], ...]


@dataclass(frozen=True)
class PlannedCall:
    """What a plan must know of one kernel call of a stage.

    Attributes
    ----------
    kernel : Kernel
    cost : float
        Predicted time of the whole kernel on one worker; any unit.
    group : int
    after : tuple of int
        Calls of the stage whose results this one reads.
    """

    kernel: Kernel
    cost: float
    group: int
    after: tuple[int, ...]

    def phase_cost(self, phase: int) -> float:
        work = [p.work for p in self.kernel.phases]
        return self.cost * work[phase] / sum(work)
