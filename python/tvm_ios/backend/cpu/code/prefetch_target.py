# SPDX-License-Identifier: Apache-2.0
"""Which weights a worker reads next, so that they can be prefetched.

A kernel prefetches the weights of its next chunk while it multiplies by those of the present one.
After its last chunk it prefetches the first weights of a later kernel, which would have to wait for
memory otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ....lowering.implementation import Implementation
from ..kernels.kernel import Kernel
from ..stage.plan import StripShare
from .region import Region
from .waits import Position

_ELEMENT = 4  # bytes: weights are float32
_REACH = 4  # positions that are looked through; what comes later would not stay in L2


class Reading(NamedTuple):
    """A worker that begins a phase of a kernel.

    Attributes
    ----------
    implementation : Implementation
    phase : int
    tile : int
        The first tile.
    """

    implementation: Implementation[Kernel]
    phase: int
    tile: int

    def place(self, region: Region) -> int | None:
        """Return where its weights begin among the constants, in elements; None if it has none."""
        weights = self.implementation.kernel.phases[self.phase].weights
        if weights is None:
            return None
        place = region.places[id(self.implementation)][weights.tensor]
        if place.parameter is not None:
            return None  # they are computed
        return place.offset // _ELEMENT + weights.first(self.tile)


def find_prefetch_target(
    launched: Sequence[Position], region: Region, number: int, worker: int
) -> int | None:
    """Return where the weights begin that a worker reads after a position; None if it reads none.

    Parameters
    ----------
    launched : sequence of Position
        What is launched.
    region : Region
        Where the weights lie.
    number, worker : int
        The position and the worker.
    """
    for position in launched[number + 1 : number + 1 + _REACH]:
        for reading in _readings(position, worker):
            place = reading.place(region)
            if place is not None:
                return place
    return None


def _readings(position: Position, worker: int) -> Iterator[Reading]:
    """Yield what a worker begins at a position, in order."""
    stage, share = position.stage, position.share
    if isinstance(share, StripShare):
        for step in share.steps[worker]:
            yield Reading(stage.implementations[step.call], 0, 0)
    elif share.cuts[worker] < share.cuts[worker + 1]:
        yield Reading(stage.implementations[share.call], share.phase, share.cuts[worker])
