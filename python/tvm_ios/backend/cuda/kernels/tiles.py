# SPDX-License-Identifier: Apache-2.0
"""Choice of the tiles to try for a matrix product, by their predicted cost.

A model predicts how many cycles a multiprocessor is busy, from four limits:

- *arithmetic*: multiply-adds over the units' throughput per cycle (128 in float32, on tensor cores
  512 in TF32 and 1024 in halves; eight warps, two for each of the four schedulers, saturate them),
  plus a dozen instructions for each vector that a thread moves, at 128 per cycle;
- *shared memory*: 128 bytes per cycle into registers, ``part_rows + part_columns`` elements for
  ``part_rows * part_columns`` multiply-adds of every thread or warp;
- *L2*: about 48 bytes per cycle and multiprocessor, ``rows + columns`` elements for
  ``rows * columns`` multiply-adds of every block;
- *latency*: about 700 cycles from the request of a slice to its use. One slice is in flight at a
  time, or in a pipeline one less than its slots. By Little's law, the bytes that arrive per latency
  grow with the slices in flight.

A slice of the depth takes the largest of the four, for all blocks that are resident on the
multiprocessor. At batch 1 the latency dominates: the 49 pixels of a network's last layers times 512
channels are 4 x 8 tiles of 16 x 64 on 132 multiprocessors, and a depth of 4608 in slices of 16 is
288 latencies one after another. Teams, which split the depth, reduce that to a quarter, and a
pipeline of four slots reduces it to a third.

Slots occupy shared memory, so fewer blocks may be resident. Copies into them take no registers, but
a copy that transposes moves a single element. A pipelined step has one barrier instead of two. The
model keeps tiles of both kinds.

The numbers of multiprocessors, threads, registers and bytes are the device's; the cycles are those
of sm_80 and sm_90. They rank the tiles, and measurements choose among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

import tvm

from ....lowering.no_rule import NoRule
from ..limits import Limits
from ..target import copies_asynchronously, limits_of
from .asynchronous import copyable
from .gemm_block import shared_bytes
from .launch import STATIC_SHARED_BYTES
from .match_gemm import GemmMatch, Operand
from .simt import simt_layouts
from .staging import Layout
from .tensor_core import COLUMNS, FACTORS, ROWS, tensor_core_layouts
from .tile import ALIGNING, Tile, blocks_of

_LATENCY = 700.0
_START = 1500.0  # cycles before a block's first multiplication and after its last
_CACHE_BYTES = 48.0
_MAX_REGISTERS = 128  # per thread; with more, too few threads remain to hide latency
_STEP = 60.0  # cycles of two barriers and of writing a slice between them
_PIPELINED_STEP = 40.0  # cycles of one barrier and of moving a slice
_READ_INSTRUCTIONS = 12.0  # per vector: source address, destination address, bounds
_WARP = 32
_LANES = 128  # threads whose instructions a multiprocessor issues per cycle
_COUNT = 6
_PIPELINES = 4  # in addition

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


def tiles(
    match: GemmMatch, target: tvm.target.Target, precision: str, limits: Limits | None = None
) -> tuple[Tile, ...]:
    """Return a handful of tiles for a product, the one with the least predicted time first.

    They include tiles without tensor cores in two cases: if tensor cores do not support the
    tensors' types, or if there are fewer rows than one instruction computes, so that it would
    compute zeros.

    Parameters
    ----------
    match : GemmMatch
        The product.
    target : tvm.target.Target
        The CUDA device.
    precision : {"fp32", "tf32", "fp16", "bf16"}
        Type of the factors.
    limits : Limits, optional
        Of the device; by default those of a usual one.

    Returns
    -------
    tuple of Tile
        At least one.

    Raises
    ------
    NoRule
        If the product is not one of floating-point numbers of at most 32 bits, or is too small for
        the threads of a warp.
    """
    dtypes = {side.dtype for p in match.products for side in (p.left, p.right)}
    if not dtypes | {match.dtype} <= {"float32", "float16", "bfloat16"}:
        raise NoRule
    limits = limits or limits_of(target)
    simt = _best(match, _simt(match, target, limits), limits)
    factors = FACTORS.get(precision)
    if factors is not None and dtypes <= {"float32", factors.dtype}:
        warps = _best(match, _warps(match, target, precision, limits), limits)
        if match.rows.extent >= ROWS and match.columns.extent >= COLUMNS:
            return _first(warps, 1)
        return (*_first(simt, 2), *_first(warps, 2))
    if not simt:
        raise NoRule
    return _first(simt, 1)


def _best(match: GemmMatch, tiles: Iterable[Tile], limits: Limits) -> list[Tile]:
    """Sort tiles by cost, one of each shape: similar tiles would add little to the measurements."""
    cost = _Cost(match, limits)
    shapes: dict[tuple[int, int, bool], tuple[float, Tile]] = {}
    for tile in tiles:
        entry, shape = (cost.cycles(tile), tile), (tile.rows, tile.columns, tile.slots > 1)
        if entry[0] < shapes.get(shape, (math.inf, tile))[0]:
            shapes[shape] = entry
    return [tile for _, tile in sorted(shapes.values(), key=lambda entry: entry[0])]


def _first(tiles: Iterable[Tile], kinds: int) -> tuple[Tile, ...]:
    """Return the first pipelines and the first other tiles, ``1 / kinds`` of the usual number."""
    left = {True: _PIPELINES // kinds, False: _COUNT // kinds}
    taken = []
    for tile in tiles:
        pipeline = tile.slots > 1
        left[pipeline] -= 1
        if left[pipeline] >= 0:
            taken.append(tile)
    return tuple(taken)


def _fitting(extent: int, sizes: Iterable[int]) -> list[int]:
    """Return those of ``sizes``, which ascend, that do not exceed the extent, rounded up."""
    sizes = list(sizes)
    return [s for i, s in enumerate(sizes) if i == 0 or sizes[i - 1] < extent]


def _simt(match: GemmMatch, target: tvm.target.Target, limits: Limits) -> Iterator[Tile]:
    for shape in _shapes(match, _SIMT_ROWS, _SIMT_PARTS, _SIMT_DEPTHS):
        rows, columns, _, (tall, wide), _ = shape
        members = (rows // tall) * (columns // wide)
        if members >= 4:
            yield from _tiles_of(match, target, limits, "fp32", shape, members)


def _warps(
    match: GemmMatch, target: tvm.target.Target, precision: str, limits: Limits
) -> Iterator[Tile]:
    for shape in _shapes(match, _WARP_ROWS, _WARP_PARTS, _WARP_DEPTHS):
        rows, columns, _, (tall, wide), _ = shape
        members = (rows // tall) * (columns // wide) * _WARP
        yield from _tiles_of(match, target, limits, precision, shape, members)


def layouts_of(factors: str, rows: int, columns: int, depth: int) -> tuple[Layout, Layout]:
    """Return the shared-memory layouts of slices of the left and of the right operand.

    Parameters
    ----------
    factors : str
        ``fp32`` without tensor cores, else the type that tensor cores multiply.
    rows, columns : int
        A block's part of the result.
    depth : int
        Depth of a slice.

    Returns
    -------
    (Layout, Layout)
        Layouts in shared memory.
    """
    if factors == "fp32":
        return simt_layouts(rows, columns, depth)
    return tensor_core_layouts(rows, columns, depth, FACTORS[factors])


_Shape = tuple[int, int, int, tuple[int, int], int]


def _shapes(
    match: GemmMatch, rows: Iterable[int], parts: Iterable[tuple[int, int]], depths: Iterable[int]
) -> Iterator[_Shape]:
    tall, wide = _fitting(match.rows.extent, rows), _fitting(match.columns.extent, _COLUMNS)
    deepest = max(p.depth.extent for p in match.products)
    deep = _fitting(deepest, depths)
    for shape in product(tall, wide, deep, parts, _TEAMS):
        whole = shape[0] % shape[3][0] == 0 and shape[1] % shape[3][1] == 0
        if whole and (shape[4] == 1 or deepest >= 2 * shape[4] * shape[2]):
            yield shape


def _tiles_of(
    match: GemmMatch,
    target: tvm.target.Target,
    limits: Limits,
    factors: str,
    shape: _Shape,
    members: int,
) -> Iterator[Tile]:
    """Yield the tiles of a shape that fit into a block."""
    rows, columns, depth, part, teams = shape
    if members * teams not in _THREADS_OF_BLOCK or max(rows, columns) * depth > 64 * members:
        return  # or more than 64 elements of an operand in flight per thread
    layouts = layouts_of(factors, rows, columns, depth)
    blocks = blocks_of(match, rows, columns)
    steps = _steps(match, depth * teams)
    pipelines = copies_asynchronously(target) and len(match.products) == 1
    for slots in _SLOTS if pipelines else _SLOTS[:1]:
        shared = shared_bytes((rows, columns), teams, slots, *layouts)
        if slots <= steps and shared + ALIGNING <= _most_shared(target, limits, slots):
            yield Tile(
                factors, rows, columns, depth, *part, teams, slots, members * teams, shared, blocks
            )


def _most_shared(target: tvm.target.Target, limits: Limits, slots: int) -> int:
    """Return the bytes of shared memory that a block may use.

    Pipelines request more than others.
    """
    static = int(target.attrs.get("max_shared_memory_per_block", STATIC_SHARED_BYTES))
    if slots == 1:
        return min(static, STATIC_SHARED_BYTES)
    return limits.block_shared_bytes


def _steps(match: GemmMatch, depth: int) -> int:
    """Return the number of slices of a depth, of all products together."""
    return sum(math.ceil(p.depth.extent / depth) for p in match.products)


class _Cost:
    """The predicted cost of a product's tiles.

    Parameters
    ----------
    match : GemmMatch
        The product.
    limits : Limits
        Of the device.
    """

    def __init__(self, match: GemmMatch, limits: Limits) -> None:
        self._form, self._limits = match, limits
        self._first = first = match.products[0]  # the other products of a sum are similar
        self._left = copyable(first.left, match.rows, first.depth)
        self._right = copyable(first.right, match.columns, first.depth)

    def cycles(self, tile: Tile) -> float:
        """Predict the cycles that a multiprocessor needs for its blocks, inf if none fits."""
        layouts = layouts_of(tile.factors, tile.rows, tile.columns, tile.depth)
        left, right = (
            known.width(layout) if known is not None and tile.slots > 1 else None
            for known, layout in zip((self._left, self._right), layouts, strict=True)
        )
        in_registers = left is None or right is None
        if tile.slots > 2 and in_registers:
            return math.inf  # registers hold one slice in flight, not two
        moving = _moving(tile) if in_registers else 0
        work = _simt_work(tile, moving) if tile.factors == "fp32" else _warp_work(tile, moving)
        bringing = _bringing(self._first.left, layouts[0], left)
        bringing += _bringing(self._first.right, layouts[1], right)
        return self._busy(tile, work, bringing * tile.teams / _LANES)

    def _busy(self, tile: Tile, work: _Work, bringing: float) -> float:
        if work.registers > _MAX_REGISTERS:
            return math.inf
        limits = self._limits
        each = math.ceil(tile.blocks / limits.multiprocessors)
        room = min(
            limits.threads // tile.threads,
            limits.shared_bytes // (tile.shared + limits.reserved_bytes),
            limits.registers // (work.registers * tile.threads),
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
    """The resources that the multiplications need.

    Attributes
    ----------
    registers : int
        Registers of a thread.
    rate : float
        Multiply-adds per cycle.
    shared_cycles : float
        Cycles to read a slice of all teams from shared memory.
    width : int
        Bytes of an element.
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
    """Count the instructions that move a slice, by copies of ``width`` or through registers."""
    numbers = layout.outer * layout.depth
    if width is not None:
        return numbers / width * _READ_INSTRUCTIONS
    stores = 1 if layout.along_depth == operand.along_depth else operand.vector
    return numbers / operand.vector * (_READ_INSTRUCTIONS + stores)


def _moving(tile: Tile) -> int:
    """Count the elements of the next slice that a thread holds."""
    return (tile.rows + tile.columns) * tile.depth * tile.teams // tile.threads
