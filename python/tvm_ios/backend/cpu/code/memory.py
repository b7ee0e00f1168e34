# SPDX-License-Identifier: Apache-2.0
"""Memory planning of a region's intermediates: blocks that are never live together share memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tvm import tirx

from ....sizes.size import AnySize, Size, hint_of, unsimplified_sum

ALIGNMENT = 64  # bytes: a cache line, and the alignment that TVM's code generator assumes


@dataclass(frozen=True)
class Lifetime:
    """A block of memory that is live from stage ``first`` to stage ``last``."""

    num_bytes: AnySize
    first: int
    last: int

    def overlaps(self, other: Lifetime) -> bool:
        """Return whether both blocks are live in some stage."""
        return self.first <= other.last and other.first <= self.last


def aligned(num_bytes: int) -> int:
    """Round ``num_bytes`` up to whole cache lines, so that no two blocks share a line."""
    return -(-num_bytes // ALIGNMENT) * ALIGNMENT


def plan_memory(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Return the offset of every block, and the total size in bytes.

    Blocks are placed largest first, each at the lowest offset at which it overlaps no placed block
    that is live at the same time ("greedy by size", Pisarchyk and Lee, *Efficient Memory Management
    for Deep Neural Net Inference*, 2020, section 5).
    """
    offsets = [0] * len(lifetimes)
    placed: list[int] = []
    for i in sorted(range(len(lifetimes)), key=lambda i: (-lifetimes[i].num_bytes, i)):
        needed = aligned(lifetimes[i].num_bytes)
        others = [j for j in placed if lifetimes[j].overlaps(lifetimes[i])]
        offset = 0
        for j in sorted(others, key=lambda j: offsets[j]):
            if offset + needed <= offsets[j]:
                break
            offset = max(offset, offsets[j] + aligned(lifetimes[j].num_bytes))
        offsets[i] = offset
        placed.append(i)
    ends = [o + aligned(t.num_bytes) for o, t in zip(offsets, lifetimes, strict=True)]
    return offsets, max(ends, default=0)


def plan_open_memory(lifetimes: Sequence[Lifetime]) -> tuple[list[AnySize], AnySize]:
    """Return the offset of every block, and the total size in bytes, where sizes are open.

    Which block is the larger one is not known. Blocks share memory only as a whole: each goes,
    largest first for the example, where none is that is live at the same time and the largest
    other one has the most similar size.
    """
    slots: list[list[int]] = []
    for i in sorted(range(len(lifetimes)), key=lambda i: (-hint_of(lifetimes[i].num_bytes), i)):
        free = [s for s in slots if not any(lifetimes[j].overlaps(lifetimes[i]) for j in s)]
        if free:
            min(free, key=lambda s: hint_of(lifetimes[s[0]].num_bytes)).append(i)
        else:
            slots.append([i])
    owner = next(b.num_bytes.owner for b in lifetimes if isinstance(b.num_bytes, Size))
    offsets: list[AnySize] = [0] * len(lifetimes)
    end: AnySize = 0
    for slot in slots:
        for i in slot:
            offsets[i] = end
        needed = aligned_expr(dict.fromkeys(lifetimes[i].num_bytes for i in slot))
        end = unsimplified_sum(end, owner.unsimplified(needed))
    return offsets, end


def aligned_expr(sizes: Collection[AnySize]) -> tirx.Expr:
    """Return the largest of sizes, rounded up to whole cache lines, as an int64 expression."""
    first, *others = (n.expr if isinstance(n, Size) else tirx.const(n, "int64") for n in sizes)
    for other in others:
        first = tirx.max(first, other)
    return tirx.floordiv(first + (ALIGNMENT - 1), ALIGNMENT) * ALIGNMENT
