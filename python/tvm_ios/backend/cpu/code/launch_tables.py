# SPDX-License-Identifier: Apache-2.0
"""The tables of a launch: columns of parts, what a part waits for, and its units of work.

A column is what the plan gives to one worker. Any thread may compute its units; the parts of a
column are computed in order. :file:`src/runtime/launch/program.h` describes the tables in C++.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..stage.plan import StripShare
from .units import Unit
from .waits import Position, Wait, WaitPlan

MOST_UNITS = 65535  # of a part: their numbers have 16 bits


@dataclass(frozen=True)
class Part:
    """What a column computes at one position.

    Attributes
    ----------
    position : int
    column : int
    units : tuple of Unit
    waits : tuple of (int, int)
        Columns, and how many parts they must have completed.
    barrier : int
        The number of the barrier that comes before; -1 if there is none.
    chain : bool
        Whether the units depend on each other, so that one thread computes all of them, in order.
    """

    position: int
    column: int
    units: tuple[Unit, ...]
    waits: tuple[tuple[int, int], ...]
    barrier: int
    chain: bool


@dataclass(frozen=True)
class LaunchTables:
    """What the threads of a launch compute.

    Attributes
    ----------
    columns : tuple of tuple of Part
    barriers : tuple of tuple of int
        For each barrier, how many parts each column must have completed.
    """

    columns: tuple[tuple[Part, ...], ...]
    barriers: tuple[tuple[int, ...], ...]
    _first_unit: dict[tuple[int, int], int] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        number, first = 0, {}
        for part in self.parts:
            first[part.position, part.column] = number
            number += len(part.units)
        object.__setattr__(self, "_first_unit", first)

    @property
    def parts(self) -> list[Part]:
        """All parts, column by column."""
        return [part for column in self.columns for part in column]

    @property
    def num_units(self) -> int:
        """The number of all units."""
        return sum(len(part.units) for part in self.parts)

    def first_unit(self, part: Part) -> int:
        """Return the number of a part's first unit among all."""
        return self._first_unit[part.position, part.column]


def launch_tables(
    launched: Sequence[Position], plan: WaitPlan, units: Sequence[Sequence[Sequence[Unit]]]
) -> LaunchTables:
    """Return the tables of a launch.

    Parameters
    ----------
    launched : sequence of Position
    plan : WaitPlan
        What the workers wait for.
    units : sequence of sequence of sequence of Unit
        Those of each position and worker.
    """
    made = list(zip(*units, strict=True))
    completed = [_counted(column) for column in made]
    barriers = sorted(plan.barriers)
    waits: dict[tuple[int, int], list[Wait]] = defaultdict(list)
    for wait in plan.waits:
        waits[wait.position, wait.worker].append(wait)
    columns = []
    for worker, column in enumerate(made):
        parts: list[Part] = []
        for number, work in enumerate(column):
            if not work:
                continue
            assert len(work) <= MOST_UNITS, "the units of a part are counted by 16 bits"
            # A wait for a column that has computed nothing yet is over.
            needed = ((w.other, completed[w.other][w.completed]) for w in waits[number, worker])
            parts.append(
                Part(
                    number,
                    worker,
                    tuple(work),
                    tuple((other, count) for other, count in needed if count),
                    _barrier(barriers, parts[-1].position if parts else -1, number),
                    isinstance(launched[number].share, StripShare),
                )
            )
        columns.append(tuple(parts))
    met = tuple(tuple(counts[position] for counts in completed) for position in barriers)
    return LaunchTables(tuple(columns), met)


def _counted(column: Sequence[Sequence[Unit]]) -> list[int]:
    """Return how many parts come before each position, and how many there are."""
    counts = [0]
    for work in column:
        counts.append(counts[-1] + bool(work))
    return counts


def _barrier(barriers: Sequence[int], before: int, position: int) -> int:
    """Return the last barrier between two positions: it includes the ones before it."""
    between = [n for n, at in enumerate(barriers) if before < at <= position]
    return between[-1] if between else -1
