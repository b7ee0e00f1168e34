# SPDX-License-Identifier: Apache-2.0
"""Register tiles by a small analytic model."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ....target import Core
from ....tir.window import Window
from .taps import ColumnTile, distances, tap_groups


@dataclass(frozen=True)
class RegisterTile:
    """``columns`` x ``blocks`` accumulators, each one vector."""

    columns: int
    blocks: int


_ONE_TAP = Window(1, 1, 1)
_MAX_BLOCKS = 8
_INPUTS = 2  # in registers at a time, of a kernel that loads one after another
_SECOND_BODY = 0.03  # a narrower chunk of blocks doubles the code; it must be worth that

# In vector multiply-adds; loads run beside them, but not for free.
_CHAINS = 8  # on the way at once: two pipelines, and a latency of four cycles
_STEP = 0.8  # of a step's loop
_LOAD = 0.4  # of a load that hits the nearest cache
_NEAR, _SECOND, _FAR = (_LOAD, 1.0), (0.8, 4.0), (1.5, 8.0)  # load and transfer, by cache


def choose_tile(
    core: Core,
    columns: int,
    blocks: int,
    *,
    window: Window = _ONE_TAP,
    block_bytes: int = 0,
    equal: bool = False,
) -> RegisterTile:
    """The tile with the least predicted time for ``columns`` x ``blocks`` vectors of output.

    It is for a kernel that multiplies an input by all weights before it goes on to the next one.

    Parameters
    ----------
    core : Core
    columns, blocks : int
    window : Window
        How a column reads the input; its taps are multiplied in as few steps as can be.
    block_bytes : int
        The weights of one block. Every tile of columns reads those of its blocks again.
    equal : bool
        Whether all chunks of blocks must be of one size.
    """
    window = replace(window, kernel=len(tap_groups(core, window)[0]))

    def cost(tile: RegisterTile) -> tuple[float, int]:
        load, transfer = _fetch(core, tile.blocks * block_bytes)
        time = step_time(tile, columns, blocks, load, transfer=transfer, window=window)
        return time * _unevenness(blocks, tile.blocks), -tile.columns

    tiles = register_tiles(core, columns, blocks, window.kernel, _INPUTS)
    return min((t for t in tiles if not (equal and blocks % t.blocks)), key=cost)


def register_tiles(
    core: Core, columns: int, blocks: int, taps: int = 1, inputs: int | None = None
) -> list[RegisterTile]:
    """The tiles that a core's registers hold, none larger than ``columns`` x ``blocks``.

    A tile that needs more is spilt in every step and runs at half speed.

    Parameters
    ----------
    core : Core
    columns, blocks : int
    taps : int
        Beside the accumulators there are the weights of each block and tap of a step.
    inputs : int, optional
        How many inputs there are at a time; by default those of all columns. A kernel that
        multiplies an input by all weights before it goes on to the next one has two.
    """
    return [
        RegisterTile(w, b)
        for b in range(1, min(blocks, _MAX_BLOCKS) + 1)
        for w in range(1, min(columns, core.registers) + 1)
        if w * b + taps * b + (inputs or w) <= core.registers
    ]


def step_time(
    tile: RegisterTile,
    columns: int,
    blocks: int,
    weight_load: float = _LOAD,
    *,
    transfer: float = 1.0,
    window: Window = _ONE_TAP,
) -> float:
    """Time of one tap of the reduction over ``columns`` x ``blocks``, in vector multiply-adds.

    A step loads ``b`` weight vectors a tap, broadcasts each input that its ``w`` columns read and
    issues ``w * b`` multiply-adds a tap. Remainders of both axes are counted as the narrower tiles
    that they are.

    Parameters
    ----------
    tile : RegisterTile
    columns, blocks : int
    weight_load : float
        What each load of a vector of weights adds to the time of a step.
    transfer : float
        For how long it keeps the cache that it comes from busy; no step is shorter.
    window : Window
        How a column reads the input in one step.
    """
    total, taps = 0.0, window.kernel
    channel_parts = _split(blocks, tile.blocks)
    for w, w_count in _split(columns, tile.columns):
        inputs = len(distances(window, ColumnTile(w).runs(range(taps))))
        for b, b_count in channel_parts:
            weights = taps * b
            busy = max(weights * w, taps * _CHAINS, inputs + weights, transfer * weights)
            step = busy + _LOAD * inputs + weight_load * weights + _STEP
            total += step / taps * w_count * b_count
    return total * (1.0 + _SECOND_BODY * (len(channel_parts) - 1))


def _fetch(core: Core, chunk_bytes: int) -> tuple[float, float]:
    """Load and transfer of a vector of weights if all of a chunk's are read over and over."""
    if 2 * chunk_bytes <= core.l1_bytes:
        return _NEAR
    return _SECOND if chunk_bytes <= core.l2_bytes else _FAR


def _unevenness(blocks: int, chunk: int) -> float:
    """How much more than half of the blocks is in one half of the chunks.

    Workers take equal numbers of tiles. The narrower chunk lies in the middle, so that the halves
    are equal if the number of full chunks is even.
    """
    full, rest = divmod(blocks, chunk)
    return (full + 1) * chunk / blocks if rest and full % 2 else 1.0


def _split(extent: int, tile: int) -> list[tuple[int, int]]:
    """(size, how many) of the pieces of ``extent`` cut by ``tile``."""
    full, rest = divmod(extent, tile)
    return [(size, count) for size, count in ((tile, full), (rest, 1)) if size and count]
