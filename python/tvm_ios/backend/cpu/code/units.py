# SPDX-License-Identifier: Apache-2.0
"""Units: the smallest pieces of a launch's work, which threads claim.

A worker's share of an operator is cut into units, so that another thread can take some of them if
the worker is slower, or has lost its core. Consecutive units are claimed together, so that a share
costs few calls. Row strips of a worker are computed one after another by one thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ..stage.plan import Share, Step, StripShare
from .prefetch_target import Reading, find_prefetch_target
from .region import Region
from .wait_check import checks
from .waits import positions


class Unit(NamedTuple):
    """A call of a kernel on a range of tiles.

    Attributes
    ----------
    call : int
        The kernel of the stage.
    phase : int
    begin, end : int
        The tiles.
    ahead : int
        Passed to kernels that prefetch: how far behind their weights those begin that are read
        next, in elements.
    """

    call: int
    phase: int
    begin: int
    end: int
    ahead: int


def units_of(region: Region) -> list[list[Sequence[Unit]]]:
    """Return the units of each position of a launch and each worker."""
    cutter = _Cutter(region)
    workers = range(region.stages[0].plan.workers)
    return [[cutter.of(number, w) for w in workers] for number in range(len(cutter.launched))]


class _Cutter:
    def __init__(self, region: Region) -> None:
        self._region, self.launched = region, positions(region.stages)
        # A step whose waits are checked is computed at once.
        self._divides = not checks(region)

    def of(self, number: int, worker: int) -> Sequence[Unit]:
        """Return what a worker computes at a position."""
        share = self.launched[number].share
        if isinstance(share, StripShare):
            return list(self._strip_units(number, worker, share.steps[worker]))
        begin, end = share.cuts[worker : worker + 2]
        return list(self._tile_units(number, worker, share, self._cuts(number, begin, end)))

    def _cuts(self, number: int, begin: int, end: int) -> list[int]:
        """Return where the units of a range of tiles begin, and its end."""
        position = self.launched[number]
        assert isinstance(position.share, Share), "strips are not cut"
        stage, share = position.stage, position.share
        count = stage.num_units(share, begin, end) if self._divides else 1
        return [begin + (end - begin) * n // count for n in range(count + 1)]

    def _tile_units(
        self, number: int, worker: int, share: Share, cuts: Sequence[int]
    ) -> Iterator[Unit]:
        """Yield calls on consecutive tiles; weights are followed by those of the next call."""
        implementation = self.launched[number].stage.implementations[share.call]
        first = implementation.kernel.phases[share.phase].first
        for begin, end in pairwise(cuts):
            if begin == end:
                continue
            if end == cuts[-1]:
                place = find_prefetch_target(self.launched, self._region, number, worker)
            else:
                place = Reading(implementation, share.phase, end).place(self._region)
            ahead = self._distance(Reading(implementation, share.phase, begin), place)
            yield Unit(share.call, share.phase, first + begin, first + end, ahead)

    def _strip_units(self, number: int, worker: int, steps: Sequence[Step]) -> Iterator[Unit]:
        """Yield the row strips of a worker; a plane's weights are followed by those of the next."""
        for step in steps:
            implementation = self.launched[number].stage.implementations[step.call]
            plane = implementation.kernel.strip_plane
            readings = [Reading(implementation, 0, o * plane.num_tiles) for o in range(plane.outer)]
            places = [reading.place(self._region) for reading in readings[1:]]
            last = step == steps[-1]
            places.append(
                find_prefetch_target(self.launched, self._region, number, worker) if last else None
            )
            for outer, (reading, place) in enumerate(zip(readings, places, strict=True)):
                begin, end = (outer * plane.num_tiles + tile for tile in (step.begin, step.end))
                yield Unit(step.call, 0, begin, end, self._distance(reading, place))

    def _distance(self, reading: Reading, place: int | None) -> int:
        """Return how far ``place`` is behind the weights of a kernel, or its tile's own weights."""
        own, whole = reading.place(self._region), reading._replace(tile=0).place(self._region)
        if own is None or whole is None:
            return 0
        return (own if place is None else place) - whole
