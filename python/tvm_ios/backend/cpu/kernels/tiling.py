# SPDX-License-Identifier: Apache-2.0
"""Register tiles of microkernels, chosen by a small analytic model.

A microkernel computes a tile of MR x NR results, which are in registers while it adds up their
products. MR counts columns of a feature map or rows of a matrix, NR output channels or columns of a
matrix; here NR is in vectors. The names are those of XNNPACK, where KC is the depth of a block of
the reduction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from ....ops.window import Window
from ..core import Core
from ..isa import amx
from .layout import blocks as parts_of
from .taps import tap_groups


@dataclass(frozen=True)
class RegisterTile:
    """The tile of a microkernel: ``mr`` x ``nr`` accumulators, each one vector."""

    mr: int
    nr: int


_ONE_TAP = Window(1, 1, 1)
_MAX_BLOCKS = 8
_BFMMLA_TILE = 2, 8  # vectors and columns: 16 sums, and 8 operands of a step
_INPUTS = 2  # held in registers at a time by a kernel that loads one after another
_SECOND_BODY = 0.03  # cost of a narrower chunk of blocks, which doubles the code

CHAINS = 8
"""The multiply-adds in flight: two pipelines with a latency of four cycles."""

# In vector multiply-adds. Loads overlap with them, but not completely.
_STEP = 0.8  # loop overhead of a step
_INPUT = 0.3  # loading an input into all lanes
_LOAD = 0.4  # a load of weights that hits L1
_NEAR, _SECOND, _FAR = (_LOAD, 1.0), (0.8, 4.0), (1.5, 8.0)  # load, transfer by cache


def choose_tile(
    core: Core,
    columns: int | Sequence[int],
    blocks: int,
    *,
    window: Window = _ONE_TAP,
    block_bytes: int = 0,
    equal: bool = False,
    spare: int = 0,
    split: float = 0.0,
) -> RegisterTile:
    """Return the tile with the least predicted time for ``columns`` x ``blocks`` vectors of output.

    The model describes a kernel that multiplies one input by all weights before it loads the next.

    Parameters
    ----------
    core : Core
        The core that runs the kernel.
    columns : int or sequence of int
        Columns of the output; or several examples of them, for which the tile is a compromise.
    blocks : int
        Vectors of output channels.
    window : Window
        How a column reads the input. Its taps are multiplied in as few steps as possible.
    block_bytes : int
        Bytes of the weights of one block. Every tile of columns reads the weights of its blocks
        again.
    equal : bool
        Whether all chunks of blocks must be of one size.
    spare : int
        Registers that a multiplication needs besides those of its operands.
    split : float
        The time for which an input is split before it is multiplied.

    Returns
    -------
    RegisterTile
        The fastest tile that fits into the registers.
    """
    window = replace(window, kernel=len(tap_groups(core, window)[0]))
    lengths = [columns] if isinstance(columns, int) else columns

    def cost(tile: RegisterTile) -> tuple[float, int]:
        load, transfer = _fetch(core, tile.nr * block_bytes)
        times = [
            step_time(tile, n, blocks, load, transfer=transfer, window=window, split=split)
            for n in lengths
        ]
        time = sum(t / n for t, n in zip(times, lengths, strict=True)) if times[1:] else times[0]
        return time * _unevenness(blocks, tile.nr), -tile.mr

    tiles = register_tiles(core, max(lengths), blocks, window.kernel, _INPUTS + spare)
    return min((t for t in tiles if not (equal and blocks % t.nr)), key=cost)


def tile_matmul_register_tile(
    products: str, columns: int, count: int, equal: bool = False
) -> RegisterTile:
    """Return the register tile of ``columns`` x ``count`` vectors, whose steps are tile matmuls.

    It is as large as the registers allow. All tiles are of about one size.

    Parameters
    ----------
    products : str
        The instruction, see :attr:`Core.tile_matmul`.
    columns, count : int
        Extent of the output, in columns and in vectors of output channels.
    equal : bool
        Whether all chunks of vectors must be of one size.
    """
    if products == amx.PRODUCTS:
        width = parts_of(columns, parts_of(columns, 2 * amx.ROWS))
        most = amx.MOST_BLOCKS[len(amx.split(width))]
    else:
        most, widest = _BFMMLA_TILE
        width = parts_of(columns, parts_of(columns, widest))
        width += width % 2 if width < columns else 0
    most = min(most, count)
    if equal:
        return RegisterTile(width, max(b for b in range(1, most + 1) if count % b == 0))
    return RegisterTile(width, parts_of(count, parts_of(count, most)))


def register_tiles(
    core: Core, columns: int, blocks: int, taps: int = 1, inputs: int | None = None
) -> list[RegisterTile]:
    """Return the tiles that fit into a core's registers, none larger than ``columns`` x ``blocks``.

    LLVM would spill a larger tile in every step, which halves the kernel's speed.

    Parameters
    ----------
    core : Core
        The core that runs the kernel.
    columns, blocks : int
        Extent of the output, in columns and in vectors of output channels.
    taps : int
        Taps of a step. The weights of every block and tap occupy a register each.
    inputs : int, optional
        Inputs held in registers at a time, by default one per column. A kernel that multiplies one
        input by all weights before it loads the next holds two.

    Returns
    -------
    list of RegisterTile
        All tiles that fit.
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
    split: float = 0.0,
) -> float:
    """Predict the time of one tap of the reduction over ``columns`` x ``blocks``.

    A step loads ``b`` weight vectors per tap, broadcasts every input that its ``w`` columns read
    and issues ``w * b`` multiply-adds per tap. The model counts the remainders of both axes as the
    narrower tiles that they are.

    Parameters
    ----------
    tile : RegisterTile
        The tile: ``w`` columns (MR), ``b`` blocks (NR).
    columns, blocks : int
        Extent of the output, in columns and in vectors of output channels.
    weight_load : float
        Time that loading one vector of weights adds to a step.
    transfer : float
        Time for which that load occupies the cache it reads from; a lower bound for the step.
    window : Window
        How a column reads the input in one step.
    split : float
        Time for which each input is split before it is multiplied.

    Returns
    -------
    float
        Time in units of one vector multiply-add.
    """
    total, taps = 0.0, window.kernel
    channel_parts = _split(blocks, tile.nr)
    for w, w_count in _split(columns, tile.mr):
        inputs = _inputs(w, taps, window.stride, window.dilation)
        for b, b_count in channel_parts:
            weights = taps * b
            busy = max(weights * w, taps * CHAINS, inputs + weights, transfer * weights)
            step = busy + (_INPUT + split) * inputs + weight_load * weights + _STEP
            total += step / taps * w_count * b_count
    return total * (1.0 + _SECOND_BODY * (len(channel_parts) - 1))


@cache
def _inputs(columns: int, taps: int, stride: int, dilation: int) -> int:
    """Return how many inputs ``columns`` neighbouring columns read through ``taps``."""
    return len({c * stride + t * dilation for c in range(columns) for t in range(taps)})


def _fetch(core: Core, chunk_bytes: int) -> tuple[float, float]:
    """Return load and transfer time of a weight vector if a chunk's weights are read repeatedly."""
    if 2 * chunk_bytes <= core.l1_bytes:
        return _NEAR
    return _SECOND if chunk_bytes <= core.l2_bytes else _FAR


def _unevenness(blocks: int, chunk: int) -> float:
    """Return the load imbalance when two workers share the chunks equally, 1.0 if there is none.

    Workers take equal numbers of tiles. The narrower chunk lies in the middle, so that the halves
    are equal if the number of full chunks is even.
    """
    full, rest = divmod(blocks, chunk)
    return (full + 1) * chunk / blocks if rest and full % 2 else 1.0


def _split(extent: int, tile: int) -> list[tuple[int, int]]:
    """Return (size, count) of the pieces of ``extent`` cut by ``tile``."""
    full, rest = divmod(extent, tile)
    return [(size, count) for size, count in ((tile, full), (rest, 1)) if size and count]
