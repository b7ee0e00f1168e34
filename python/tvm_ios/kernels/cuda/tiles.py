# SPDX-License-Identifier: Apache-2.0
"""Which tiles to try for a matrix product, by what they should cost.

A model says how many cycles a multiprocessor is busy, from four limits:

- *arithmetic*: multiply-adds over what the units do in a cycle (128 in float32; eight warps, two to
  each of the four schedulers, are what it takes to have them all busy);
- *shared memory*: 128 bytes a cycle into registers, ``part_rows + part_columns`` numbers for
  ``part_rows * part_columns`` multiply-adds of every thread;
- *second-level cache*: about 48 bytes a cycle and multiprocessor, ``rows + columns`` numbers for
  ``rows * columns`` multiply-adds of every block;
- *latency*: about 700 cycles from the request of a slice to its use, whatever else goes on.

A slice of the depth takes the largest of the four, for all blocks that are on the multiprocessor at
once. At batch 1 the last is what counts most: the 49 pixels of a network's last layers times 512
channels are 4 x 8 tiles of 16 x 64 on 132 multiprocessors, and a depth of 4608 in slices of 16 is
288 latencies one after another. Teams, which share out the depth, go through it in a quarter of
that. Figures are those of sm_80 and sm_90; they order the tiles, and measuring chooses among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import product

import tvm

from .gemm_form import GemmForm
from .simt import simt_shared
from .tile import Tile, blocks_of

_PROCESSORS = 132
_REGISTERS = 65536
_THREADS = 2048
_SHARED = 160 * 1024
_LATENCY = 700.0
_START = 1500.0  # cycles before a block's first multiplication and after its last
_CACHE_BYTES = 48.0
_MAX_REGISTERS = 128  # of a thread; more leave too few threads to hide latency
_WARP = 32
_COUNT = 6

_PARTS = ((1, 4), (2, 4), (4, 4), (4, 8), (8, 4), (8, 8))
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128)
_COLUMNS = (16, 32, 64, 128)
_DEPTHS = (8, 16, 32)
_TEAMS = (1, 2, 4, 8, 16)


def simt_tiles(form: GemmForm, target: tvm.target.Target) -> tuple[Tile, ...]:
    """A handful of tiles for the ordinary units, the one that should be fastest first."""
    return _best(_simt_candidates(form, target), lambda tile: _simt_cycles(form, tile))


def _best(tiles: Iterable[Tile], cycles) -> tuple[Tile, ...]:
    """The cheapest of each shape, since neighbours of the best would tell measuring little."""
    shapes: dict[tuple[int, int], tuple[float, Tile]] = {}
    for tile in tiles:
        shape, cost = (tile.rows, tile.columns), cycles(tile)
        if shape not in shapes or cost < shapes[shape][0]:
            shapes[shape] = (cost, tile)
    return tuple(tile for _, tile in sorted(shapes.values(), key=lambda entry: entry[0])[:_COUNT])


def fits(extent: int, sizes: Iterable[int]) -> list[int]:
    """Those of ``sizes``, which ascend, that are not more than the extent takes, rounded up."""
    sizes = list(sizes)
    return [s for i, s in enumerate(sizes) if i == 0 or sizes[i - 1] < extent]


def _simt_candidates(form: GemmForm, target: tvm.target.Target) -> Iterator[Tile]:
    most = int(target.attrs["max_shared_memory_per_block"])
    tall, wide = fits(form.rows.extent, _ROWS), fits(form.columns.extent, _COLUMNS)
    for rows, columns, (pr, pc) in product(tall, wide, _PARTS):
        for depth, teams in product(fits(form.depth.extent, _DEPTHS), _TEAMS):
            members = (rows // pr) * (columns // pc)
            shared = simt_shared(rows, columns, depth, teams)
            if rows % pr or members < 4 or not 64 <= members * teams <= 256 or shared > most:
                continue
            if teams > 1 and form.depth.extent < 2 * teams * depth:
                continue
            if max(rows, columns) * depth > 64 * members:
                continue  # more than 64 numbers of an operand on their way in one thread
            blocks = blocks_of(form, rows, columns)
            yield Tile(rows, columns, depth, pr, pc, teams, members * teams, shared, blocks)


def _simt_cycles(form: GemmForm, tile: Tile) -> float:
    sums = tile.part_rows * tile.part_columns
    moving = (tile.rows + tile.columns) * tile.depth * tile.teams // tile.threads
    registers = sums + tile.part_rows + tile.part_columns + moving + 40
    warps = tile.threads / _WARP
    reads = warps * (tile.part_rows + tile.part_columns) / 4 * 2
    return cycles(form, tile, registers, 128.0, reads * tile.depth, 4)


def cycles(
    form: GemmForm, tile: Tile, registers: int, rate: float, shared_cycles: float, width: int
) -> float:
    """How long a multiprocessor is busy with its share of the blocks.

    Parameters
    ----------
    form : GemmForm
    tile : Tile
    registers : int
        Of a thread.
    rate : float
        Multiply-adds in a cycle.
    shared_cycles : float
        That a slice of all teams takes to be read from shared memory.
    width : int
        Bytes of a number.
    """
    if registers > _MAX_REGISTERS:
        return math.inf
    each = math.ceil(tile.blocks / _PROCESSORS)
    room = min(
        _THREADS // tile.threads,
        _SHARED // (tile.shared + 1024),
        _REGISTERS // (registers * tile.threads),
    )
    resident = min(each, room)
    busy = min(1.0, resident * tile.threads / _WARP / 8)
    depth = tile.depth * tile.teams
    arithmetic = resident * tile.rows * tile.columns * depth / rate / busy
    traffic = resident * (tile.rows + tile.columns) * depth * width / _CACHE_BYTES
    step = max(arithmetic, resident * shared_cycles, traffic, _LATENCY) + 60
    steps = math.ceil(form.depth.extent / depth)
    adding = resident * (tile.teams - 1) * tile.rows * tile.columns / 32
    return math.ceil(each / resident) * (steps * step + _START + adding)
