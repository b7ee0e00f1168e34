# SPDX-License-Identifier: Apache-2.0
"""Stages whose tiles are assigned to workers."""

from __future__ import annotations

from dataclasses import dataclass

from ....lowering.stages import Stage
from ..kernels.kernel import Kernel
from .plan import Share, StagePlan

_UNIT = 4e-6  # seconds; shorter units cost more to claim than balancing them saves
_MOST_UNITS = 6  # of a worker's share: claimed by 3, 2 and 1, where one at half speed computes 3


@dataclass(frozen=True)
class CpuStage(Stage[Kernel]):
    """A stage of a CPU.

    Attributes
    ----------
    plan : StagePlan
        Which worker computes which tiles.
    seconds : tuple of float
        The predicted time of each implementation on one worker; empty if nothing is known.
    """

    plan: StagePlan
    seconds: tuple[float, ...] = ()

    def num_units(self, share: Share, begin: int, end: int) -> int:
        """Return into how many units a worker's tiles ``begin`` to ``end`` of a share are divided.

        A unit is what a thread claims at once, see ``src/runtime/launch/program.h``.
        """
        if self.plan.workers == 1 or not self.seconds:
            return 1
        tiles = self.implementations[share.call].kernel.phases[share.phase].num_tiles
        seconds = self.seconds[share.call] * (end - begin) / tiles
        return max(1, min(end - begin, _MOST_UNITS, int(seconds / _UNIT)))
