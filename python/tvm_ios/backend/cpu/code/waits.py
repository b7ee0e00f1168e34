# SPDX-License-Identifier: Apache-2.0
"""Waits: which shares of other workers a worker's share has to wait for.

A barrier between two levels makes all workers wait for the slowest one. Most shares read little of
what other workers wrote: a worker that computes some rows reads a few rows of its neighbours, and
one that computes some channels of a pooling nothing. A share therefore waits for those shares only
that access the same bytes, of which one or the other writes. This is point-to-point synchronization
(Park et al., *Sparsifying Synchronization for High-Performance Shared-Memory Sparse Triangular
Solver*, ISC 2014), on ranges of tiles. Where a level would need many waits it begins with a
barrier. Stages are timed with barriers only, see :func:`tvm_ios.compiler.compare.compare`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ....lowering.implementation import Implementation
from ....schedule.synchronization import Synchronization
from ....support import _ffi_api
from ..kernels.footprint import MemoryAccess, footprint, strip_footprint
from ..kernels.kernel import Kernel
from ..stage.plan import Share, StripShare
from ..stage.stage import CpuStage
from .functions import KernelFunctions
from .region import Region

_MAX_WAITS = 4  # of a worker in a level, in the mean; more are slower than a barrier


class Position(NamedTuple):
    """A share and its place in the launch: every worker computes its part of it.

    Attributes
    ----------
    level : int
        Shares of one level do not depend on each other.
    stage : CpuStage
    share : Share or StripShare
    """

    level: int
    stage: CpuStage
    share: Share | StripShare


class Wait(NamedTuple):
    """What a worker does before it begins a position: it waits for another worker.

    Attributes
    ----------
    position, worker : int
    other : int
        The worker that is waited for.
    completed : int
        The number of positions that it must have completed.
    """

    position: int
    worker: int
    other: int
    completed: int


@dataclass(frozen=True)
class WaitPlan:
    """How the workers of a launch wait for each other.

    Attributes
    ----------
    barriers : frozenset of int
        The positions before which all workers wait at a barrier.
    waits : tuple of Wait
        By position and worker.
    """

    barriers: frozenset[int]
    waits: tuple[Wait, ...]


def positions(stages: Iterable[CpuStage]) -> list[Position]:
    """Return the shares of stages that run one after another."""
    levels = [(stage, shares) for stage in stages for shares in stage.plan.levels]
    return [
        Position(level, stage, share)
        for level, (stage, shares) in enumerate(levels)
        for share in shares
    ]


def waits_of(
    synchronization: Synchronization,
    launched: Sequence[Position],
    region: Region,
    kernels: KernelFunctions,
    workers: int,
) -> WaitPlan:
    """Return the plan of the launch of a region.

    Parameters
    ----------
    synchronization : Synchronization
        Whether all workers meet between two levels, or each waits for what it depends on. All meet
        where which bytes that are depends on open sizes.
    launched : sequence of Position
        The shares of the region.
    region : Region
        Where the tensors of the kernels lie.
    kernels : KernelFunctions
        The code of the kernels.
    workers : int
        Number of workers.
    """
    if synchronization == "barrier" or region.opened is not None:
        return _barriers(launched)
    return _point_to_point(launched, region, kernels, workers)


def _barriers(launched: Sequence[Position]) -> WaitPlan:
    starts = (
        number
        for number, position in enumerate(launched)
        if number and position.level > launched[number - 1].level
    )
    return WaitPlan(frozenset(starts), ())


def _point_to_point(
    launched: Sequence[Position], region: Region, kernels: KernelFunctions, workers: int
) -> WaitPlan:
    rows = [
        (number, *row)
        for number, position in enumerate(launched)
        for row in _accesses(position, region, kernels, workers)
    ]
    levels = np.array([position.level for position in launched], "int64")
    accesses = np.array(rows, "int64").reshape(-1, 8)
    starts, waits = _ffi_api.PlanWaits(workers, levels, accesses, _MAX_WAITS)
    return WaitPlan(
        frozenset(np.from_dlpack(starts).tolist()),
        tuple(Wait(*wait) for wait in np.from_dlpack(waits).tolist()),
    )


def _accesses(
    position: Position, region: Region, kernels: KernelFunctions, workers: int
) -> Iterator[tuple[int, ...]]:
    """Yield what each worker accesses: worker, memory, begin, size, stride, number, writes."""
    for worker in range(workers):
        for implementation, access in worker_accesses(position, worker, kernels):
            place = region.places[id(implementation)][access.tensor]
            if place.parameter is None:
                continue  # constants are never written
            begin, *others = access.runs
            yield worker, place.parameter, place.offset + begin, *others, access.writes


def worker_accesses(
    position: Position, worker: int, kernels: KernelFunctions
) -> Iterator[tuple[Implementation[Kernel], MemoryAccess]]:
    """Yield the accesses of a worker's part of a share."""
    stage, share = position.stage, position.share
    if isinstance(share, Share):
        implementation = stage.implementations[share.call]
        tiles = share.cuts[worker], share.cuts[worker + 1]
        accessed = kernels.accessed(implementation.kernel, share.phase)
        for access in footprint(implementation.kernel, tiles, accessed):
            yield implementation, access
        return
    ranges: dict[int, tuple[int, int]] = {}
    for step in share.steps[worker]:
        begin, end = ranges.get(step.call, (step.begin, step.end))
        ranges[step.call] = min(begin, step.begin), max(end, step.end)
    for call, tiles in ranges.items():
        implementation = stage.implementations[call]
        for access in strip_footprint(implementation.kernel, tiles):
            yield implementation, access
