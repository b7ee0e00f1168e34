# SPDX-License-Identifier: Apache-2.0
"""Assignment of a stage's groups to streams.

The order in which groups are issued decides which groups get multiprocessors first if not all fit.
Two orders are candidates, after Opara (Chen et al., *Opara: Exploiting Operator Parallelism for
Expediting DNN Inference on GPUs*, 2023). One issues the longest group first, because the stage
waits for its end. The other issues the widest group first, which needs most of the device and fits
only while the device is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....schedule.partitioning import StreamPartitioning


@dataclass(frozen=True)
class GroupLoad:
    """The load of a group, by which it is assigned to a stream.

    Attributes
    ----------
    seconds : float
        Total time of its kernels.
    blocks : int
        Thread blocks of its largest kernel.
    """

    seconds: float
    blocks: int


def assign(partitioning: StreamPartitioning, groups: Sequence[GroupLoad]) -> dict[int, int]:
    """Return the stream of each group, in the order in which the groups are issued.

    A group goes to the stream that is free first. Streams are numbered in the order of their use.
    """
    count = min(partitioning.count or len(groups), len(groups))
    busy = [0.0] * count
    streams: dict[int, int] = {}
    for number in _order(partitioning, groups):
        stream = min(range(count), key=lambda s: (busy[s], s))
        busy[stream] += max(groups[number].seconds, 1e-9)
        streams[number] = stream
    return streams


def _order(partitioning: StreamPartitioning, groups: Sequence[GroupLoad]) -> list[int]:
    """Return the groups in the order in which they are issued."""

    def rank(number: int) -> tuple[float, ...]:
        group = groups[number]
        first, second = group.seconds, group.blocks
        return (-second, -first, number) if partitioning.widest else (-first, -second, number)

    return sorted(range(len(groups)), key=rank)


def stream_partitionings(groups: Sequence[GroupLoad]) -> list[StreamPartitioning]:
    """Return the stream assignments that differ for these groups.

    They have one, two or all streams, in either order.
    """
    if len(groups) <= 1:
        return [StreamPartitioning()]
    found: dict[tuple[tuple[int, int], ...], StreamPartitioning] = {}
    for count in (None, 2):
        for widest in (False, True):
            partitioning = StreamPartitioning(count, widest)
            found.setdefault(tuple(assign(partitioning, groups).items()), partitioning)
    return list(found.values())
