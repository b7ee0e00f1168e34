# SPDX-License-Identifier: Apache-2.0
"""How a stage's work is divided among the workers.

A *share* gives each worker a range of one phase's tiles. Shares of one level run without
synchronisation, in order; between levels all workers meet at a barrier. Two divisions are built
from the same predicted costs, and which one a stage uses is measured:

- ``tiles``: phases that may run at the same time form a level. Their tiles are laid out on a line
  by predicted time and the line is cut into equal pieces, so every worker gets the same work.
- ``groups``: each group runs whole on one worker, its intermediates in that core's cache, and no
  barrier is needed. Groups are packed longest first onto the least loaded worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..kernels.kernel import Kernel

Division = Literal["tiles", "groups"]

_MAX_IMBALANCE = 1.25  # of the busiest worker's load over the mean


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
class StagePlan:
    """Levels of shares for ``workers`` workers."""

    workers: int
    levels: tuple[tuple[Share, ...], ...]


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


def plan_tiles(calls: Sequence[PlannedCall], workers: int) -> StagePlan:
    """Every phase at its earliest level, each level's tiles divided evenly."""
    first: list[int] = []
    for call in calls:
        first.append(max((first[a] + len(calls[a].kernel.phases) for a in call.after), default=0))
    depth = max((f + len(c.kernel.phases) for f, c in zip(first, calls, strict=True)), default=0)
    levels: list[list[tuple[int, int]]] = [[] for _ in range(depth)]
    for i, call in enumerate(calls):
        for phase in range(len(call.kernel.phases)):
            levels[first[i] + phase].append((i, phase))
    return StagePlan(workers, tuple(_divide(level, calls, workers) for level in levels))


def plan_groups(calls: Sequence[PlannedCall], workers: int) -> StagePlan:
    """Every group whole on one worker."""
    owner, _ = _pack(calls, workers)
    shares = [
        Share(i, p, _whole(phase.tiles, owner[call.group], workers))
        for i, call in enumerate(calls)
        for p, phase in enumerate(call.kernel.phases)
    ]
    return StagePlan(workers, (tuple(shares),) if shares else ())


def plan(calls: Sequence[PlannedCall], workers: int, division: Division) -> StagePlan:
    """The plan of a stage by the named division, checked."""
    result = (plan_tiles if division == "tiles" else plan_groups)(calls, workers)
    _check(result, calls)
    return result


def divisions(calls: Sequence[PlannedCall], workers: int) -> tuple[Division, ...]:
    """The divisions of a stage that are worth measuring.

    Whole groups are not when there are too few of them, or of too different sizes, to keep all
    workers busy.
    """
    if workers == 1 or len({call.group for call in calls}) == 1:
        return ("tiles",)
    _, load = _pack(calls, workers)
    idle = max(load) * workers > _MAX_IMBALANCE * sum(load)
    return ("tiles",) if idle else ("tiles", "groups")


def _pack(calls: Sequence[PlannedCall], workers: int) -> tuple[dict[int, int], list[float]]:
    """The worker of each group, longest group first, and each worker's load."""
    cost: dict[int, float] = {}
    for call in calls:
        cost[call.group] = cost.get(call.group, 0.0) + call.cost
    load = [0.0] * workers
    owner: dict[int, int] = {}
    for group in sorted(cost, key=lambda g: (-cost[g], g)):
        owner[group] = min(range(workers), key=lambda w: (load[w], w))
        load[owner[group]] += cost[group]
    return owner, load


def _divide(
    level: Sequence[tuple[int, int]], calls: Sequence[PlannedCall], workers: int
) -> tuple[Share, ...]:
    """Cut the level's line of tiles into ``workers`` pieces of equal predicted time."""
    costs = [calls[i].phase_cost(phase) for i, phase in level]
    total, done, shares = sum(costs), 0.0, []
    for (i, phase), cost in zip(level, costs, strict=True):
        tiles = calls[i].kernel.phases[phase].tiles
        cuts = [
            _tile_at(total * w / workers, done, cost, tiles) if total else tiles * w // workers
            for w in range(workers)
        ]
        shares.append(Share(i, phase, (*cuts, tiles)))
        done += cost
    return tuple(shares)


def _tile_at(point: float, begin: float, cost: float, tiles: int) -> int:
    """The tile boundary nearest to ``point`` of a phase that spans ``begin`` to ``+ cost``."""
    if cost == 0.0:
        return 0 if point <= begin else tiles
    return min(max(round((point - begin) / cost * tiles), 0), tiles)


def _whole(tiles: int, owner: int, workers: int) -> tuple[int, ...]:
    return tuple(0 if w <= owner else tiles for w in range(workers + 1))


def _check(plan: StagePlan, calls: Sequence[PlannedCall]) -> None:
    """Every tile of every phase is computed once, by one worker."""
    seen = set()
    for level in plan.levels:
        for share in level:
            tiles = calls[share.call].kernel.phases[share.phase].tiles
            assert len(share.cuts) == plan.workers + 1, "a cut for every worker"
            assert (share.cuts[0], share.cuts[-1]) == (0, tiles), "a share covers its phase"
            assert list(share.cuts) == sorted(share.cuts), "cuts rise"
            assert (share.call, share.phase) not in seen, "a phase is shared out once"
            seen.add((share.call, share.phase))
    expected = {(i, p) for i, call in enumerate(calls) for p in range(len(call.kernel.phases))}
    assert seen == expected, "a plan holds every phase"
