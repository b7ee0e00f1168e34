# SPDX-License-Identifier: Apache-2.0
"""Fused tiling with halo recomputation: a stage by row strips, with intermediates in the cache.

A row strip is a tile of the fused kernels: a range of rows of a group's results. A worker computes
a strip depth-first, through all kernels of the group, before it begins the next one. Strips are as
high as the core's cache allows, and no worker waits for another. If a kernel's window reaches
beyond its strip, two strips need the same rows, the halo. The halo is computed with the first of
the two strips. If two workers compute the strips, both compute the halo (one recomputes it) and
write the same values.

The idea of fewer and larger kernels, chosen so that the data between them fits into the cache, is
GraphTurbo's (Zhao et al., *Effectively Scheduling Computational Graphs of Deep Neural Networks
toward Their Domain-Specific Accelerators*, OSDI 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..kernels.plane import Interval, PlaneTiles
from .plan import PlannedCall, Step, StripShare

CACHE_SHARE = 0.5  # share of the cache for a strip; weights and the next rows take the rest


def in_strips(calls: Sequence[PlannedCall]) -> bool:
    """Return whether row strips can be cut from every group: a chain or a tree of chains."""
    groups = {call.group for call in calls}
    return bool(groups) and all(_Group.of(calls, group) is not None for group in groups)


def strip_shares(
    calls: Sequence[PlannedCall], workers: int, cache_bytes: int
) -> tuple[StripShare, ...]:
    """Partition the groups of a stage by row strips; each worker gets a part of each group.

    :func:`in_strips` must hold for the stage.

    Parameters
    ----------
    calls : sequence of PlannedCall
        The kernel calls of the stage.
    workers : int
        Number of workers.
    cache_bytes : int
        Bytes of one core's cache, into which a strip must fit.

    Returns
    -------
    tuple of StripShare
        One per group.
    """
    shares = []
    for number in sorted({call.group for call in calls}):
        group = _Group.of(calls, number)
        assert group is not None, "only groups with planes are computed by row strips"
        shares.append(group.share(workers, cache_bytes))
    return tuple(shares)


@dataclass(frozen=True)
class _Group:
    """The calls of a group that compute anything, in topological order.

    Attributes
    ----------
    planes : dict of int to PlaneTiles
        The plane of each call.
    readers : dict of int to tuple of int
        The calls of the group that read a call's result.
    num_bytes : int
        Bytes of all values that pass through the group.
    """

    planes: dict[int, PlaneTiles]
    readers: dict[int, tuple[int, ...]]
    num_bytes: int

    @staticmethod
    def of(calls: Sequence[PlannedCall], group: int) -> _Group | None:
        """Return the group, None unless its results have equal planes and values pass inside it.

        Such a value must cover the plane that its readers' windows move over. Readers then read the
        same plane at their own pixels, too. In a group of one operator no value passes. Strips of
        what is read in the group may overlap in their halos, so that its tiles must be repeatable.
        """
        members = [i for i, c in enumerate(calls) if c.group == group and c.kernel.phases]
        planes = {i: p for i in members if (p := calls[i].kernel.plane) is not None}
        if not members or len(planes) < len(members):
            return None
        before = {i: _producers(calls, i) for i in members}
        readers = {i: tuple(j for j in members if i in before[j]) for i in members}
        results = {planes[i].pixels for i in members if not readers[i]}
        if len(results) > 1 or (len(members) > 1 and not any(readers.values())):
            return None
        if not all(planes[j].follows(planes[i]) for i in members for j in readers[i]):
            return None
        if any(readers[i] and not planes[i].repeatable for i in members):
            return None
        kernels = [calls[i].kernel for i in members]
        passing = sum(spec.num_bytes for k in kernels for spec in k.outputs)
        return _Group(planes, readers, passing + kernels[0].inputs[0].num_bytes)

    def share(self, workers: int, cache_bytes: int) -> StripShare:
        per_worker = max(1, round(self.num_bytes / (cache_bytes * CACHE_SHARE) / workers))
        tiles = self._tiles(per_worker * workers)
        return StripShare(
            tuple(_steps(tiles[w * per_worker : (w + 1) * per_worker]) for w in range(workers))
        )

    def _tiles(self, count: int) -> list[dict[int, Interval]]:
        """Return the tiles of every call, in order, for each of ``count`` row strips."""
        (pixels,) = {plane.pixels for i, plane in self.planes.items() if not self.readers[i]}
        edges = [pixels * strip // count for strip in range(count + 1)]
        strips: list[dict[int, Interval]] = [{} for _ in range(count)]
        for call in reversed(self.planes):
            for tiles, edge in zip(strips, pairwise(edges), strict=True):
                tiles[call] = self._needed(call, tiles, edge)
            self._close_gaps(call, strips)
        return [dict(reversed(tiles.items())) for tiles in strips]

    def _needed(self, call: int, tiles: dict[int, Interval], strip: Interval) -> Interval:
        """Return the tiles of ``call`` that its readers need, or the strip's own if it has none."""
        plane = self.planes[call]
        if not self.readers[call]:
            return plane.starting_in(strip)
        read = [self.planes[r].read(tiles[r]) for r in self.readers[call] if _some(tiles[r])]
        if not read:
            return 0, 0
        return plane.covering((min(b for b, _ in read), max(e for _, e in read)))

    def _close_gaps(self, call: int, strips: list[dict[int, Interval]]) -> None:
        """Assign the tiles that no reader needs to the strip before them.

        A window may step over rows, or end before the last row. Those rows are computed
        nevertheless, as other stages may read them.
        """
        following = self.planes[call].num_tiles
        for tiles in reversed(strips):
            low, high = tiles[call] if _some(tiles[call]) else (following, following)
            tiles[call] = (low, max(high, following))
            following = low
        strips[0][call] = (0, strips[0][call][1])


def _steps(strips: Sequence[dict[int, Interval]]) -> tuple[Step, ...]:
    """Return the steps of one worker; each tile is computed once."""
    done: dict[int, int] = {}
    steps = []
    for tiles in strips:
        for call, (low, high) in tiles.items():
            low = max(low, done.get(call, low))
            if low < high:
                steps.append(Step(call, low, high))
                done[call] = high
    return tuple(steps)


def passing_bytes(calls: Sequence[PlannedCall]) -> int:
    """Return the bytes that row strips can keep in the cache: results read inside their group.

    A call that computes nothing reads nothing.
    """
    computed = (number for number, call in enumerate(calls) if call.kernel.phases)
    read = {producer for number in computed for producer in _producers(calls, number)}
    return sum(spec.num_bytes for call in read for spec in calls[call].kernel.outputs)


def _some(interval: Interval) -> bool:
    return interval[0] < interval[1]


def _producers(calls: Sequence[PlannedCall], call: int) -> set[int]:
    """Return the calls whose results ``call`` reads, also through calls that compute nothing."""
    found: set[int] = set()
    for before in calls[call].after:
        if calls[before].kernel.phases:
            found.add(before)
        else:
            found |= _producers(calls, before)
    return found
