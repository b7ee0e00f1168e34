# SPDX-License-Identifier: Apache-2.0
"""Which tiles to try for a matrix product, by what they should cost.

A model says how many cycles a multiprocessor is busy, from four limits:

- *arithmetic*: multiply-adds over what the units do in a cycle (128 in float32, 512 in TF32 and
  1024 in halves on tensor cores; eight warps, two to each of the four schedulers, are what it takes
  to have them all busy);
- *shared memory*: 128 bytes a cycle into registers, ``part_rows + part_columns`` numbers for
  ``part_rows * part_columns`` multiply-adds of every thread or warp;
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
from collections.abc import Callable, Iterable, Iterator
from itertools import product

import tvm

from ..no_rule import NoRule
from .gemm_form import GemmForm
from .simt import simt_shared
from .tensor_core import COLUMNS, FACTORS, ROWS, tensor_core_shared
from .tile import Tile, blocks_of

_PROCESSORS = 132
_REGISTERS = 65536
_THREADS = 2048
_SHARED = 160 * 1024
_STATIC = 48 * 1024  # shared memory that a kernel can have without asking for it at its launch
_ALIGNING = 256  # of that, for the beginnings of its parts
_LATENCY = 700.0
_START = 1500.0  # cycles before a block's first multiplication and after its last
_CACHE_BYTES = 48.0
_MAX_REGISTERS = 128  # of a thread; more leave too few threads to hide latency
_WARP = 32
_COUNT = 6

_COLUMNS = (16, 32, 64, 128)
_SIMT_ROWS = (1, 2, 4, 8, 16, 32, 64, 128)
_SIMT_PARTS = ((1, 4), (2, 4), (4, 4), (4, 8), (8, 4), (8, 8))
_SIMT_DEPTHS = (8, 16, 32)
_WARP_ROWS = (16, 32, 64, 128)
_WARP_PARTS = ((16, 16), (16, 32), (32, 16), (32, 32), (32, 64), (64, 32))
_WARP_DEPTHS = (16, 32, 64)
_TEAMS = (1, 2, 4, 8, 16)
_THREADS_OF_BLOCK = range(32, 257)


def tiles(form: GemmForm, target: tvm.target.Target, precision: str) -> tuple[Tile, ...]:
    """A handful of tiles for a product, the one that should be fastest first.

    Where tensor cores do not multiply what the tensors hold, or where there are fewer rows than one
    instruction takes, so that they compute zeros, ordinary units are tried, too.

    Parameters
    ----------
    form : GemmForm
    target : tvm.target.Target
    precision : {"fp32", "tf32", "fp16", "bf16"}

    Raises
    ------
    NoRule
        Where the product is not one of floating-point numbers of at most 32 bits, or too small for
        the threads of a warp.
    """
    dtypes = {side.dtype for p in form.products for side in (p.left, p.right)}
    if not dtypes | {form.dtype} <= {"float32", "float16", "bfloat16"}:
        raise NoRule
    simt = _best(_simt(form, target), lambda tile: _simt_cycles(form, tile))
    factors = FACTORS.get(precision)
    if factors is not None and dtypes <= {"float32", factors.dtype}:
        warps = _best(_warps(form, target, precision), lambda tile: _warp_cycles(form, tile))
        if form.rows.extent >= ROWS and form.columns.extent >= COLUMNS:
            return warps[:_COUNT]
        simt = (*simt[: _COUNT // 2], *warps[: _COUNT // 2])
    if not simt:
        raise NoRule
    return simt[:_COUNT]


def _best(tiles: Iterable[Tile], cost: Callable[[Tile], float]) -> tuple[Tile, ...]:
    """By cost, one of each shape, since neighbours of the best would tell measuring little."""
    shapes: dict[tuple[int, int], tuple[float, Tile]] = {}
    for tile in tiles:
        entry, shape = (cost(tile), tile), (tile.rows, tile.columns)
        if entry[0] < shapes.get(shape, (math.inf, tile))[0]:
            shapes[shape] = entry
    return tuple(tile for _, tile in sorted(shapes.values(), key=lambda entry: entry[0]))


def _fitting(extent: int, sizes: Iterable[int]) -> list[int]:
    """Those of ``sizes``, which ascend, that are not more than the extent takes, rounded up."""
    sizes = list(sizes)
    return [s for i, s in enumerate(sizes) if i == 0 or sizes[i - 1] < extent]


def _simt(form: GemmForm, target: tvm.target.Target) -> Iterator[Tile]:
    for shape in _shapes(form, _SIMT_ROWS, _SIMT_PARTS, _SIMT_DEPTHS):
        rows, columns, depth, (tall, wide), teams = shape
        members = (rows // tall) * (columns // wide)
        shared = simt_shared(rows, columns, depth, teams)
        if members >= 4:
            yield from _tile(form, target, "fp32", shape, members, shared)


def _warps(form: GemmForm, target: tvm.target.Target, precision: str) -> Iterator[Tile]:
    for shape in _shapes(form, _WARP_ROWS, _WARP_PARTS, _WARP_DEPTHS):
        rows, columns, depth, (tall, wide), teams = shape
        members = (rows // tall) * (columns // wide) * _WARP
        shared = tensor_core_shared(rows, columns, depth, teams, FACTORS[precision])
        yield from _tile(form, target, precision, shape, members, shared)


_Shape = tuple[int, int, int, tuple[int, int], int]


def _shapes(
    form: GemmForm, rows: Iterable[int], parts: Iterable[tuple[int, int]], depths: Iterable[int]
) -> Iterator[_Shape]:
    tall, wide = _fitting(form.rows.extent, rows), _fitting(form.columns.extent, _COLUMNS)
    deepest = max(p.depth.extent for p in form.products)
    deep = _fitting(deepest, depths)
    for shape in product(tall, wide, deep, parts, _TEAMS):
        whole = shape[0] % shape[3][0] == 0 and shape[1] % shape[3][1] == 0
        if whole and (shape[4] == 1 or deepest >= 2 * shape[4] * shape[2]):
            yield shape


def _tile(
    form: GemmForm,
    target: tvm.target.Target,
    factors: str,
    shape: _Shape,
    members: int,
    shared: int,
) -> Iterator[Tile]:
    """The tile, unless no block could have it."""
    rows, columns, depth, part, teams = shape
    most = min(int(target.attrs.get("max_shared_memory_per_block", _STATIC)), _STATIC) - _ALIGNING
    if members * teams not in _THREADS_OF_BLOCK or shared > most:
        return
    if max(rows, columns) * depth > 64 * members:
        return  # more than 64 numbers of an operand on their way in one thread
    blocks = blocks_of(form, rows, columns)
    yield Tile(factors, rows, columns, depth, *part, teams, members * teams, shared, blocks)


def _simt_cycles(form: GemmForm, tile: Tile) -> float:
    tall, wide = tile.part_rows, tile.part_columns
    registers = tall * wide + tall + wide + _moving(tile) + 40
    reads = tile.threads / _WARP * (tall + wide) / 4 * 2  # a vector of four takes two cycles
    return _cycles(form, tile, registers, 128.0, reads * tile.depth, 4)


def _warp_cycles(form: GemmForm, tile: Tile) -> float:
    factors = FACTORS[tile.factors]
    tall, wide = tile.part_rows // ROWS, tile.part_columns // COLUMNS
    width = 4 // factors.pair
    registers = 4 * tall * wide + 4 * tall + 2 * wide + _moving(tile) // factors.pair + 40
    reads = tile.threads / _WARP * (4 * tall + 2 * wide)
    rate = 512.0 * factors.pair
    return _cycles(form, tile, registers, rate, reads * tile.depth / factors.depth, width)


def _moving(tile: Tile) -> int:
    """Numbers of the next slice that a thread keeps."""
    return (tile.rows + tile.columns) * tile.depth * tile.teams // tile.threads


def _cycles(
    form: GemmForm, tile: Tile, registers: int, rate: float, shared_cycles: float, width: int
) -> float:
    """How long a multiprocessor is busy with its share of the blocks; infinite where none fits.

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
    steps = sum(math.ceil(p.depth.extent / depth) for p in form.products)
    adding = resident * (tile.teams - 1) * tile.rows * tile.columns / 32
    return math.ceil(each / resident) * (steps * step + _START + adding)
