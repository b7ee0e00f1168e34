# SPDX-License-Identifier: Apache-2.0
"""What a schedule says of how a stage's work is shared out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

STRATEGIES = ("concurrent", "merge")
"""How a stage may run, by the numbers of C++'s enum Strategy."""

_PATTERN = re.compile(r"streams(-(?P<count>[1-9]\d*))?(?P<widest>-widest)?")


_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
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
    """Whether ``text`` can name a division; which ones there are a back end knows."""
    return _NAME.fullmatch(text) is not None
