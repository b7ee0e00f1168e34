# SPDX-License-Identifier: Apache-2.0
"""The partition of a matrix product among blocks and threads."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .launch import STATIC_SHARED_BYTES
from .match_gemm import GemmMatch

ALIGNING = 256
"""Bytes of shared memory reserved for the alignment of its parts."""


@dataclass(frozen=True)
class Tile:
    """The part of a matrix product that one thread block computes, and how it does so.

    Attributes
    ----------
    factors : str
        ``fp32`` without tensor cores, else the type that tensor cores multiply.
    rows, columns : int
        A block's part of the result.
    depth : int
        Depth that is moved into shared memory at once.
    part_rows, part_columns : int
        A thread's share of the block's part; with tensor cores a warp's.
    teams : int
        Number of teams that split the depth. Each has its own threads for the whole of the block's
        part, and their sums are added at the end.
    slots : int
        Slices of each operand that fit into shared memory. With one slot, copying and multiplying
        alternate; with more they form a pipeline, whose copies no thread waits for.
    threads : int
        Threads of a block, of all teams.
    shared : int
        The most bytes of shared memory that a block uses.
    blocks : int
        Blocks of the launch.
    """

    factors: str
    rows: int
    columns: int
    depth: int
    part_rows: int
    part_columns: int
    teams: int
    slots: int
    threads: int
    shared: int
    blocks: int

    @property
    def dynamic(self) -> bool:
        """Whether the launch has to request shared memory."""
        return self.shared + ALIGNING > STATIC_SHARED_BYTES

    @property
    def name(self) -> str:
        """The display name."""
        teams = f"/{self.teams}" if self.teams > 1 else ""
        slots = f"*{self.slots}" if self.slots > 1 else ""
        part = f"{self.part_rows}x{self.part_columns}"
        return f"{self.factors}_{self.rows}x{self.columns}x{self.depth}{slots}{teams}_{part}"


def blocks_of(match: GemmMatch, rows: int, columns: int) -> int:
    """Return the number of blocks of the launch if each computes ``rows`` x ``columns``.

    Parameters
    ----------
    match : GemmMatch
        The product.
    rows, columns : int
        A block's part of the result.

    Returns
    -------
    int
        Blocks.
    """
    tall, wide = math.ceil(match.rows.extent / rows), math.ceil(match.columns.extent / columns)
    return match.batch.extent * tall * wide
