# SPDX-License-Identifier: Apache-2.0
"""Stages whose tiles are assigned to workers."""

from __future__ import annotations

from dataclasses import dataclass

from ....lowering.stages import Stage
from ..kernels.kernel import Kernel
from .plan import StagePlan


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
