# SPDX-License-Identifier: Apache-2.0
"""How a stage's groups are shared out among streams.

The order in which groups are issued decides who gets multiprocessors first where not all have room.
Two orders are candidates, after Opara (Chen et al., *Opara: Exploiting Operator Parallelism for
Expediting DNN Inference on GPUs*, 2023): the longest group first, whose end the stage waits for,
and the widest, which needs the most of the device and finds room only while that is empty.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....schedule.partitioning import GroupLoad, StreamDivision


def stream_divisions(groups: Sequence[GroupLoad]) -> list[StreamDivision]:
    """The divisions that differ for these groups: one, two and all streams, in either order."""
    if len(groups) == 1:
        return [StreamDivision()]
    found: dict[tuple[tuple[int, int], ...], StreamDivision] = {}
    for count in (None, 2):
        for widest in (False, True):
            division = StreamDivision(count, widest)
            found.setdefault(tuple(division.assign(groups).items()), division)
    return list(found.values())
