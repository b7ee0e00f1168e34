# SPDX-License-Identifier: Apache-2.0
"""Names of strategies and work partitionings, as schedules store them."""

from __future__ import annotations

import re
from dataclasses import dataclass

STRATEGIES = ("concurrent", "merge")
"""The strategies of a stage, in the order of C++'s ``enum Strategy``."""

_PATTERN = re.compile(r"streams(-(?P<count>[1-9]\d*))?(?P<widest>-widest)?(?P<lean>-lean)?")
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
FUSED, FUSED_LEAN = "fused", "fused-lean"


@dataclass(frozen=True)
class StreamPartitioning:
    """A work partitioning of a CUDA device: groups on streams. ``str`` returns its name.

    Attributes
    ----------
    count : int or None
        The number of streams; None for one per group.
    widest : bool
        Whether the widest group is issued first instead of the longest.
    lean : bool
        Whether operators have the kernels that take less of the device, if they have a choice.
    """

    count: int | None = None
    widest: bool = False
    lean: bool = False

    @staticmethod
    def parse(text: str) -> StreamPartitioning | None:
        """Return the partitioning that ``text`` names; None if it names another kind."""
        match = _PATTERN.fullmatch(text)
        if match is None:
            return None
        count, *flags = match["count"], match["widest"] is not None, match["lean"] is not None
        return StreamPartitioning(None if count is None else int(count), *flags)

    def __str__(self) -> str:
        count = "" if self.count is None else f"-{self.count}"
        return f"streams{count}{'-widest' * self.widest}{'-lean' * self.lean}"


def is_partitioning(text: str) -> bool:
    """Return whether ``text`` has the form of a partitioning's name; back ends know which exist."""
    return _NAME.fullmatch(text) is not None
