# SPDX-License-Identifier: Apache-2.0
"""How a stage's groups are shared out among streams.

The order in which groups are issued decides who gets multiprocessors first where not all have room.
Two orders are candidates, after Opara (Chen et al., *Opara: Exploiting Operator Parallelism for
Expediting DNN Inference on GPUs*, 2023): the longest group first, whose end the stage waits for,
and the widest, which needs the most of the device and finds room only while that is empty.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_PATTERN = re.compile(r"streams(-(?P<count>[1-9]\d*))?(?P<widest>-widest)?")
FUSED = "fused"


@dataclass(frozen=True)
class GroupLoad:
    """What of a group decides its place.

    Attributes
    ----------
    seconds : float
        Its kernels one after another.
    blocks : int
        Thread blocks of its largest kernel.
    """

    seconds: float
    blocks: int


@dataclass(frozen=True)
class StreamDivision:
    """Groups on streams; as text it is what a schedule says.

    Attributes
    ----------
    count : int or None
        Streams; None for one a group.
    widest : bool
        Whether the widest group is issued first instead of the longest.
    """

    count: int | None = None
    widest: bool = False

    @staticmethod
    def parse(text: str) -> StreamDivision | None:
        """The inverse of ``str``; None for what is no such division."""
        match = _PATTERN.fullmatch(text)
        if match is None:
            return None
        count = match["count"]
        return StreamDivision(None if count is None else int(count), match["widest"] is not None)

    def __str__(self) -> str:
        count = "" if self.count is None else f"-{self.count}"
        return f"streams{count}{'-widest' if self.widest else ''}"

    def order(self, groups: Sequence[GroupLoad]) -> list[int]:
        """The groups in the order in which they are issued."""

        def rank(number: int) -> tuple[float, ...]:
            group = groups[number]
            first, second = group.seconds, group.blocks
            return (-second, -first, number) if self.widest else (-first, -second, number)

        return sorted(range(len(groups)), key=rank)

    def assign(self, groups: Sequence[GroupLoad]) -> dict[int, int]:
        """The stream of each group, in the order in which they are issued.

        A group goes to the stream that is free first; streams are numbered as they are used.
        """
        count = min(self.count or len(groups), len(groups))
        busy = [0.0] * count
        streams: dict[int, int] = {}
        for number in self.order(groups):
            stream = min(range(count), key=lambda s: (busy[s], s))
            busy[stream] += max(groups[number].seconds, 1e-9)
            streams[number] = stream
        return streams


def is_division(text: str) -> bool:
    """Whether a stage on a CUDA device can be divided so."""
    return text == FUSED or StreamDivision.parse(text) is not None


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
