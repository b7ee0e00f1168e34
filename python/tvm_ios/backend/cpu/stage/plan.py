# SPDX-License-Identifier: Apache-2.0
"""Plans: which worker computes which tiles of a stage, and in what order."""

from __future__ import annotations

from dataclasses import dataclass

from ..kernels.kernel import Kernel


@dataclass(frozen=True)
class Share:
    """The partition of one phase: worker ``w`` computes tiles ``cuts[w]`` to ``cuts[w + 1]``.

    Attributes
    ----------
    call : int
        Index of the kernel call in its stage.
    phase : int
        Index of the phase in the kernel.
    cuts : tuple of int
        ``workers + 1`` ascending tile boundaries, from 0 to the number of tiles.
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
class StripShare:
    """The steps of each worker for one group, row strip by row strip, in order."""

    steps: tuple[tuple[Step, ...], ...]


@dataclass(frozen=True)
class StagePlan:
    """Levels of shares for ``workers`` workers.

    The shares of one level run without synchronisation, each worker's in order. Between two levels
    all workers wait at a barrier.
    """

    workers: int
    levels: tuple[tuple[Share | StripShare, ...], ...]


@dataclass(frozen=True)
class PlannedCall:
    """One kernel call of a stage, as far as a plan needs to know it.

    Attributes
    ----------
    kernel : Kernel
    cost : float
        Predicted time of the whole kernel on one worker, in any unit.
    group : int
        Group of the stage that the call belongs to.
    after : tuple of int
        Calls of the stage whose results this one reads.
    """

    kernel: Kernel
    cost: float
    group: int
    after: tuple[int, ...]

    def phase_cost(self, phase: int) -> float:
        """Return the predicted time of one phase on one worker."""
        work = [p.work for p in self.kernel.phases]
        return self.cost * work[phase] / sum(work)
