# SPDX-License-Identifier: Apache-2.0
"""Which tiles to try for a matrix product, by what they should cost.

A model says how many cycles a multiprocessor is busy, from four limits:

- *arithmetic*: multiply-adds over what the units do in a cycle (128 in float32, 512 in TF32 and
  1024 in halves on tensor cores; eight warps, two to each of the four schedulers, are what it takes
  to have them all busy), and a dozen instructions for each vector that a thread brings, 128 in
  a cycle;
- *shared memory*: 128 bytes a cycle into registers, ``part_rows + part_columns`` numbers for
  ``part_rows * part_columns`` multiply-adds of every thread or warp;
- *second-level cache*: about 48 bytes a cycle and multiprocessor, ``rows + columns`` numbers for
  ``rows * columns`` multiply-adds of every block;
- *latency*: about 700 cycles from the request of a slice to its use, whatever else goes on. One
  slice is on its way at a time, or in a pipeline of so many slots one less than these: by Little's
  law that many more bytes arrive in a latency.

A slice of the depth takes the largest of the four, for all blocks that are on the multiprocessor at
once. At batch 1 the last is what counts most: the 49 pixels of a network's last layers times 512
channels are 4 x 8 tiles of 16 x 64 on 132 multiprocessors, and a depth of 4608 in slices of 16 is
288 latencies one after another. Teams, which share out the depth, go through it in a quarter of
that, and a pipeline of four slots in a third.

Slots take shared memory, so that fewer blocks may be on a multiprocessor. Copies into them take no
registers, but one that transposes is of a single number. What a step takes besides is one barrier,
not two. Tiles of both kinds are kept.

Figures are those of sm_80 and sm_90; they order the tiles, and measuring chooses among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

import tvm

from ...shared.no_rule import NoRule
from ..target import copies_asynchronously, requested_shared_bytes
from .asynchronous import copyable
from .gemm_block import shared_bytes
from .gemm_form import GemmForm, Operand
from .launch import STATIC_SHARED_BYTES
from .simt import simt_layouts
from .staging import Layout
from .tensor_core import COLUMNS, FACTORS, ROWS, tensor_core_layouts
from .tile import ALIGNING, Tile, blocks_of

_PROCESSORS = 132
_REGISTERS = 65536
_THREADS = 2048
_SHARED = 160 * 1024
_RESERVED = 1024  # of that, for each block
_LATENCY = 700.0
_START = 1500.0  # cycles before a block's first multiplication and after its last
_CACHE_BYTES = 48.0
_MAX_REGISTERS = 128  # of a thread; more leave too few threads to hide latency
_STEP = 60.0  # cycles of two barriers, and of writing a slice between them
_PIPELINED_STEP = 40.0  # of one barrier, and of bringing a slice
_READ_INSTRUCTIONS = 12.0  # for where a vector is, where it goes, and whether there is one
_WARP = 32
_LANES = 128  # threads whose instructions a multiprocessor issues in a cycle
_COUNT = 6
_PIPELINES = 4  # beside these

_COLUMNS = (16, 32, 64, 128)
_SIMT_ROWS = (1, 2, 4, 8, 16, 32, 64, 128)
_SIMT_PARTS = ((1, 4), (2, 4), (4, 4), (4, 8), (8, 4), (8, 8))
_SIMT_DEPTHS = (8, 16, 32)
_WARP_ROWS = (16, 32, 64, 128)
_WARP_PARTS = ((16, 16), (16, 32), (32, 16), (32, 32), (32, 64), (64, 32))
_WARP_DEPTHS = (16, 32, 64)
_TEAMS = (1, 2, 4, 8, 16)
_SLOTS = (1, 2, 3, 4)
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
    simt = _best(form, _simt(form, target))
    factors = FACTORS.get(precision)
    if factors is not None and dtypes <= {"float32", factors.dtype}:
        warps = _best(form, _warps(form, target, precision))
        if form.rows.extent >= ROWS and form.columns.extent >= COLUMNS:
            return _first(warps, 1)
        return (*_first(simt, 2), *_first(warps, 2))
    if not simt:
        raise NoRule
    return _first(simt, 1)


def _best(form: GemmForm, tiles: Iterable[Tile]) -> list[Tile]:
    """By cost, one of each shape, since neighbours of the best would tell measuring little."""
    cost = _Cost(form)
    shapes: dict[tuple[int, int, bool], tuple[float, Tile]] = {}
    for tile in tiles:
        entry, shape = (cost.cycles(tile), tile), (tile.rows, tile.columns, tile.slots > 1)
        if entry[0] < shapes.get(shape, (math.inf, tile))[0]:
            shapes[shape] = entry
    return [tile for _, tile in sorted(shapes.values(), key=lambda entry: entry[0])]


def _first(tiles: Iterable[Tile], kinds: int) -> tuple[Tile, ...]:
    """The first pipelines and the first others, of which as many are taken ``kinds`` times."""
    left = {True: _PIPELINES // kinds, False: _COUNT // kinds}
    taken = []
    for tile in tiles:
        pipeline = tile.slots > 1
        left[pipeline] -= 1
        if left[pipeline] >= 0:
            taken.append(tile)
    return tuple(taken)


def _fitting(extent: int, sizes: Iterable[int]) -> list[int]:
    """Those of ``sizes``, which ascend, that are not more than the extent takes, rounded up."""
    sizes = list(sizes)
    return [s for i, s in enumerate(sizes) if i == 0 or sizes[i - 1] < extent]


def _simt(form: GemmForm, target: tvm.target.Target) -> Iterator[Tile]:
    for shape in _shapes(form, _SIMT_ROWS, _SIMT_PARTS, _SIMT_DEPTHS):
        rows, columns, _, (tall, wide), _ = shape
        members = (rows // tall) * (columns // wide)
        if members >= 4:
            yield from _tiles_of(form, target, "fp32", shape, members)


def _warps(form: GemmForm, target: tvm.target.Target, precision: str) -> Iterator[Tile]:
    for shape in _shapes(form, _WARP_ROWS, _WARP_PARTS, _WARP_DEPTHS):
        rows, columns, _, (tall, wide), _ = shape
        members = (rows // tall) * (columns // wide) * _WARP
        yield from _tiles_of(form, target, precision, shape, members)


def layouts_of(factors: str, rows: int, columns: int, depth: int) -> tuple[Layout, Layout]:
    """How slices of the left and of the right operand lie in shared memory."""
    if factors == "fp32":
        return simt_layouts(rows, columns, depth)
    return tensor_core_layouts(rows, columns, depth, FACTORS[factors])


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


def _tiles_of(
    form: GemmForm, target: tvm.target.Target, factors: str, shape: _Shape, members: int
) -> Iterator[Tile]:
    """The tiles of a shape that a block could have."""
    rows, columns, depth, part, teams = shape
    if members * teams not in _THREADS_OF_BLOCK or max(rows, columns) * depth > 64 * members:
        return  # the latter are more than 64 numbers of an operand on their way in one thread
    layouts = layouts_of(factors, rows, columns, depth)
    blocks = blocks_of(form, rows, columns)
    steps = _steps(form, depth * teams)
    pipelines = copies_asynchronously(target) and len(form.products) == 1
    for slots in _SLOTS if pipelines else _SLOTS[:1]:
        shared = shared_bytes((rows, columns), teams, slots, *layouts)
        if slots <= steps and shared + ALIGNING <= _most_shared(target, slots):
            yield Tile(
                factors, rows, columns, depth, *part, teams, slots, members * teams, shared, blocks
            )


def _most_shared(target: tvm.target.Target, slots: int) -> int:
    """Bytes that a block may have; pipelines, which live on it, ask for more than others get."""
    static = int(target.attrs.get("max_shared_memory_per_block", STATIC_SHARED_BYTES))
    if slots == 1:
        return min(static, STATIC_SHARED_BYTES)
    return min(requested_shared_bytes(target), _SHARED - _RESERVED)


def _steps(form: GemmForm, depth: int) -> int:
    """Slices of a depth that all products have."""
    return sum(math.ceil(p.depth.extent / depth) for p in form.products)


class _Cost:
    """What tiles of a product cost.

    Parameters
    ----------
    form : GemmForm
    """

    def __init__(self, form: GemmForm) -> None:
        self._form = form
        self._first = first = form.products[0]  # a sum's other products are like it
        self._left = copyable(first.left, form.rows, first.depth)
        self._right = copyable(first.right, form.columns, first.depth)

    def cycles(self, tile: Tile) -> float:
        """How long a multiprocessor is busy with its share of the blocks; inf where none fits."""
        layouts = layouts_of(tile.factors, tile.rows, tile.columns, tile.depth)
        left, right = (
            known.width(layout) if known is not None and tile.slots > 1 else None
            for known, layout in zip((self._left, self._right), layouts, strict=True)
        )
        in_registers = left is None or right is None
        if tile.slots > 2 and in_registers:
            return math.inf  # registers hold one slice that is on its way, and not two
        moving = _moving(tile) if in_registers else 0
        work = _simt_work(tile, moving) if tile.factors == "fp32" else _warp_work(tile, moving)
        bringing = _bringing(self._first.left, layouts[0], left)
        bringing += _bringing(self._first.right, layouts[1], right)
        return self._busy(tile, work, bringing * tile.teams / _LANES)

    def _busy(self, tile: Tile, work: _Work, bringing: float) -> float:
        if work.registers > _MAX_REGISTERS:
            return math.inf
        each = math.ceil(tile.blocks / _PROCESSORS)
        room = min(
            _THREADS // tile.threads,
            _SHARED // (tile.shared + _RESERVED),
            _REGISTERS // (work.registers * tile.threads),
        )
        resident = min(each, room)
        busy = min(1.0, resident * tile.threads / _WARP / 8)
        depth = tile.depth * tile.teams
        arithmetic = resident * (tile.rows * tile.columns * depth / work.rate + bringing) / busy
        traffic = resident * (tile.rows + tile.columns) * depth * work.width / _CACHE_BYTES
        latency = _LATENCY / max(1, tile.slots - 1)
        step = max(arithmetic, resident * work.shared_cycles, traffic, latency)
        step += _STEP if tile.slots == 1 else _PIPELINED_STEP
        steps = _steps(self._form, depth)
        adding = resident * (tile.teams - 1) * tile.rows * tile.columns / 32
        return math.ceil(each / resident) * (steps * step + _START + adding)


@dataclass(frozen=True)
class _Work:
    """What multiplying takes.

    Attributes
    ----------
    registers : int
        Of a thread.
    rate : float
        Multiply-adds in a cycle.
    shared_cycles : float
        That a slice of all teams takes to be read from shared memory.
    width : int
        Bytes of a number.
    """

    registers: int
    rate: float
    shared_cycles: float
    width: int


def _simt_work(tile: Tile, moving: int) -> _Work:
    tall, wide = tile.part_rows, tile.part_columns
    registers = tall * wide + tall + wide + moving + 40
    reads = tile.threads / _WARP * (tall + wide) / 4 * 2  # a vector of four takes two cycles
    return _Work(registers, 128.0, reads * tile.depth, 4)


def _warp_work(tile: Tile, moving: int) -> _Work:
    factors = FACTORS[tile.factors]
    tall, wide = tile.part_rows // ROWS, tile.part_columns // COLUMNS
    registers = 4 * tall * wide + 4 * tall + 2 * wide + moving // factors.pair + 40
    reads = tile.threads / _WARP * (4 * tall + 2 * wide)
    return _Work(
        registers, 512.0 * factors.pair, reads * tile.depth / factors.depth, 4 // factors.pair
    )


def _bringing(operand: Operand, layout: Layout, width: int | None) -> float:
    """Instructions that bring a slice, by copies of a width or through registers."""
    numbers = layout.outer * layout.depth
    if width is not None:
        return numbers / width * _READ_INSTRUCTIONS
    stores = 1 if layout.along_depth == operand.along_depth else operand.vector
    return numbers / operand.vector * (_READ_INSTRUCTIONS + stores)


def _moving(tile: Tile) -> int:
    """Numbers of the next slice that a thread keeps."""
    return (tile.rows + tile.columns) * tile.depth * tile.teams // tile.threads
