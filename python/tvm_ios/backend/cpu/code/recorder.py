# SPDX-License-Identifier: Apache-2.0
"""A mode in which a network records when its workers compute what.

The threads of a launch note the time before and after each call of a kernel in a tensor that the
network returns besides its results. Everything else is as it is without: the waits, the places of
the tensors, and the claims.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ....ops.tensor import TensorSpec
from ..stage.stage import CpuStage
from .launch_tables import LaunchTables, Part
from .region import Region
from .units import units_of
from .waits import WaitPlan, positions

_NUMBERS = 3  # of a unit: begin and end in nanoseconds, and the thread


class Record(NamedTuple):
    """A call of a phase of a kernel, on one unit or several.

    Attributes
    ----------
    part : Part
        Whose units they are.
    stage : CpuStage
    call, phase : int
        The kernel of the stage, and its phase.
    thread : int
        The worker that has computed them.
    units : int
    begin, end : int
        Nanoseconds.
    """

    part: Part
    stage: CpuStage
    call: int
    phase: int
    thread: int
    units: int
    begin: int
    end: int


class Recorder:
    """What is recorded of one launch.

    Parameters
    ----------
    region : Region
        What is launched.

    Attributes
    ----------
    region : Region
    workers : int
    spec : TensorSpec
        The tensor in which the threads of the launch note their calls.
    tables : LaunchTables
        What they compute; known when the launch is emitted.
    plan : WaitPlan
        What the workers wait for; known then, too.
    """

    def __init__(self, region: Region) -> None:
        self.region, self._launched = region, positions(region.stages)
        self.workers = region.stages[0].plan.workers
        count = sum(len(units) for position in units_of(region) for units in position)
        self.spec = TensorSpec((_NUMBERS * count,), "int64")
        self.tables, self.plan = LaunchTables((), ()), WaitPlan(frozenset(), ())

    def records(self, noted: np.ndarray) -> list[Record]:
        """Return the calls of one launch, in the order of their begin.

        Parameters
        ----------
        noted : numpy.ndarray
            int64, of :attr:`spec`.
        """
        table = noted.reshape(-1, _NUMBERS).tolist()
        found = [record for part in self.tables.parts for record in self._calls(part, table)]
        return sorted(found, key=lambda record: record.begin)

    def _calls(self, part: Part, table: Sequence[Sequence[int]]) -> Iterator[Record]:
        """Yield the calls for a part; units that are computed with the one before begin at 0."""
        first, stage = self.tables.first_unit(part), self._launched[part.position].stage
        begins = [n for n in range(len(part.units)) if table[first + n][0]]
        for number, following in zip(begins, [*begins[1:], len(part.units)], strict=True):
            begin, end, thread = table[first + number]
            unit = part.units[number]
            yield Record(part, stage, unit.call, unit.phase, thread, following - number, begin, end)
