# SPDX-License-Identifier: Apache-2.0
"""Register tiles by a small analytic model."""

from __future__ import annotations

from dataclasses import dataclass

from ..target import Core


@dataclass(frozen=True)
class RegisterTile:
    """``columns`` x ``blocks`` accumulators, each one vector."""

    columns: int
    blocks: int


_SECOND_BODY = 0.03  # a narrower chunk of blocks doubles the code; it must be worth that
_LOAD = 0.2  # what a load costs that runs beside multiply-adds and hits the nearest cache


def choose_tile(core: Core, columns: int, blocks: int) -> RegisterTile:
    """The tile with the least predicted time for ``columns`` x ``blocks`` vectors of output."""
    candidates = register_tiles(core, columns, blocks)
    return min(candidates, key=lambda tile: (step_time(tile, columns, blocks), -tile.columns))


def register_tiles(core: Core, columns: int, blocks: int) -> list[RegisterTile]:
    """The tiles that a core's registers hold, none larger than ``columns`` x ``blocks``."""
    return [
        RegisterTile(w, b)
        for b in range(1, min(blocks, 8) + 1)
        for w in range(1, min(columns, core.registers) + 1)
        if _registers(w, b) <= core.registers
    ]


def _registers(w: int, b: int) -> int:
    """Registers that a tile needs beside each other.

    LLVM broadcasts all inputs of a step before it multiplies, so that they count, too; a tile that
    leaves no room for them is spilt in every step and runs at half speed. With a single block an
    input is used once, and the multiply-add itself reads it from memory.
    """
    return w * b + b + (1 if b == 1 else w)


def step_time(tile: RegisterTile, columns: int, blocks: int, weight_load: float = _LOAD) -> float:
    """Time of one step of the reduction over ``columns`` x ``blocks``, in vector multiply-adds.

    The step loads ``b`` weight vectors, at ``weight_load`` each, broadcasts ``w`` inputs and issues
    ``w * b`` fused multiply-adds. With two pipelines and a latency of four cycles at least eight
    multiply-adds must be independent; loads run beside them but not for free, and each step pays
    for its loop. Remainders of both axes are counted as the narrower tiles that they are.
    """
    total = 0.0
    channel_parts = _split(blocks, tile.blocks)
    for w, w_count in _split(columns, tile.columns):
        for b, b_count in channel_parts:
            step = max(w * b, 8) + _LOAD * w + weight_load * b + 0.8
            total += step * w_count * b_count
    return total * (1.0 + _SECOND_BODY * (len(channel_parts) - 1))


def _split(extent: int, tile: int) -> list[tuple[int, int]]:
    """(size, how many) of the pieces of ``extent`` cut by ``tile``."""
    full, rest = divmod(extent, tile)
    return [(size, count) for size, count in ((tile, full), (rest, 1)) if size and count]
