# SPDX-License-Identifier: Apache-2.0
"""How a matrix product is divided among blocks and threads."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .gemm_form import GemmForm
from .launch import STATIC_SHARED_BYTES

ALIGNING = 256
"""Bytes of shared memory that its parts may take besides, for where they begin."""


@dataclass(frozen=True)
class Tile:
    """The part of a matrix product that one block of threads computes.

    Attributes
    ----------
    factors : str
        ``fp32`` without tensor cores, else the type that tensor cores multiply.
    rows, columns : int
        Of the result, a block's part.
    depth : int
        How much of the depth is brought into shared memory at once.
    part_rows, part_columns : int
        Of a block's part, a thread's share; with tensor cores a warp's.
    teams : int
        Among which the depth is divided: each has threads of its own for the whole of the block's
        part, and what they have summed up is added in the end.
    slots : int
        Slices of each operand that shared memory has room for. With one, copying and multiplying
        take turns; with more they are a pipeline, whose copies no thread waits for.
    threads : int
        In a block, of all teams.
    shared : int
        Bytes of shared memory that a block takes at most.
    blocks : int
        In the launch.
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
        """Whether shared memory has to be asked for at the launch."""
        return self.shared + ALIGNING > STATIC_SHARED_BYTES

    @property
    def name(self) -> str:
        """For people."""
        teams = f"/{self.teams}" if self.teams > 1 else ""
        slots = f"*{self.slots}" if self.slots > 1 else ""
        part = f"{self.part_rows}x{self.part_columns}"
        return f"{self.factors}_{self.rows}x{self.columns}x{self.depth}{slots}{teams}_{part}"


def blocks_of(form: GemmForm, rows: int, columns: int) -> int:
    """Blocks in the launch where each computes ``rows`` x ``columns``."""
    tall, wide = math.ceil(form.rows.extent / rows), math.ceil(form.columns.extent / columns)
    return form.batch.extent * tall * wide
