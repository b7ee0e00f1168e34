# SPDX-License-Identifier: Apache-2.0
"""Partitioning of a stage's work among the workers.

Several partitionings are built from the same predicted costs. Measurements decide which one a stage
uses:

- ``tiles``: phases that may run at the same time form a level. The tiles of a level are laid out on
  a line by predicted time, and the line is cut into equal pieces, so that every worker gets the
  same work.
- ``groups``: each group runs on one worker. Its intermediates stay in that core's cache, and no
  barrier is needed. Groups are packed longest first onto the least loaded worker.
- ``strips``: each worker computes some rows of every group's results, by fused tiling with halo
  recomputation; see :mod:`.strips`. For a single operator, :mod:`.ownership` predicts whether this
  pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from .plan import PlannedCall, Share, StagePlan, StripShare
from .strips import in_strips, strip_shares

Partitioning = Literal["tiles", "groups", "strips"]

_MAX_IMBALANCE = 1.25  # limit of the busiest worker's load over the mean load


def plan_tiles(calls: Sequence[PlannedCall], workers: int) -> StagePlan:
    """Place every phase at its earliest level, and divide each level's tiles evenly."""
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
    """Assign every group to one worker."""
    owner, _ = _pack(calls, workers)
    shares = [
        Share(i, p, _whole(phase.num_tiles, owner[call.group], workers))
        for i, call in enumerate(calls)
        for p, phase in enumerate(call.kernel.phases)
    ]
    return StagePlan(workers, (tuple(shares),) if shares else ())


def plan(
    calls: Sequence[PlannedCall], workers: int, partitioning: Partitioning, cache_bytes: int
) -> StagePlan:
    """Return the plan of a stage for the given work partitioning, checked for completeness.

    Parameters
    ----------
    calls : sequence of PlannedCall
        The kernel calls of the stage.
    workers : int
        Number of workers.
    partitioning : Partitioning
        The work partitioning.
    cache_bytes : int
        Bytes of one core's cache, into which a row strip must fit.

    Returns
    -------
    StagePlan
        Every tile of every phase, assigned to workers.
    """
    if partitioning == "strips":
        result = StagePlan(workers, (strip_shares(calls, workers, cache_bytes),))
    else:
        result = (plan_tiles if partitioning == "tiles" else plan_groups)(calls, workers)
    _check(result, calls)
    return result


def partitionings(calls: Sequence[PlannedCall], workers: int) -> tuple[Partitioning, ...]:
    """Return the work partitionings of a stage that are worth measuring."""
    possible: list[Partitioning] = ["tiles"]
    if workers > 1 and len({call.group for call in calls}) > 1:
        _, load = _pack(calls, workers)
        if max(load) * workers <= _MAX_IMBALANCE * sum(load):
            possible.append("groups")
    if in_strips(calls):
        possible.append("strips")
    return tuple(possible)


def _pack(calls: Sequence[PlannedCall], workers: int) -> tuple[dict[int, int], list[float]]:
    """Return the worker of each group, longest group first, and each worker's load."""
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
        num_tiles = calls[i].kernel.phases[phase].num_tiles
        cuts = [
            _tile_at(total * w / workers, done, cost, num_tiles)
            if total
            else num_tiles * w // workers
            for w in range(workers)
        ]
        shares.append(Share(i, phase, (*cuts, num_tiles)))
        done += cost
    return tuple(shares)


def _tile_at(point: float, begin: float, cost: float, num_tiles: int) -> int:
    """Return the tile boundary nearest to ``point`` in a phase that begins at ``begin``."""
    if cost == 0.0:
        return 0 if point <= begin else num_tiles
    # A schedule may state any times: bounded before it is rounded, which infinities are not.
    return round(min(max(0.0, (point - begin) / cost * num_tiles), float(num_tiles)))


def _whole(num_tiles: int, owner: int, workers: int) -> tuple[int, ...]:
    return tuple(0 if w <= owner else num_tiles for w in range(workers + 1))


def _check(plan: StagePlan, calls: Sequence[PlannedCall]) -> None:
    """Check that every tile of every phase is computed, once but for halos of row strips."""
    seen = set()
    for level in plan.levels:
        for share in level:
            if isinstance(share, StripShare):
                seen |= _check_strips(share, calls)
                continue
            num_tiles = calls[share.call].kernel.phases[share.phase].num_tiles
            assert len(share.cuts) == plan.workers + 1, "a cut for every worker"
            assert (share.cuts[0], share.cuts[-1]) == (0, num_tiles), "a share covers its phase"
            assert list(share.cuts) == sorted(share.cuts), "cuts rise"
            assert (share.call, share.phase) not in seen, "a phase is assigned once"
            seen.add((share.call, share.phase))
    expected = {(i, p) for i, call in enumerate(calls) for p in range(len(call.kernel.phases))}
    assert seen == expected, "a plan holds every phase"


def _check_strips(share: StripShare, calls: Sequence[PlannedCall]) -> set[tuple[int, int]]:
    """Return the phases that a share's row strips compute; check that they are complete."""
    computed: dict[int, set[int]] = {}
    for steps in share.steps:
        for step in steps:
            computed.setdefault(step.call, set()).update(range(step.begin, step.end))
    for call, tiles in computed.items():
        assert tiles == set(range(calls[call].kernel.strip_plane.num_tiles)), (
            "strips cover their planes"
        )
    return {(call, 0) for call in computed}
