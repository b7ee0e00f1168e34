# SPDX-License-Identifier: Apache-2.0
"""An analytic model that decides when Winograd's algorithm pays, and with which tiles.

The unit of time is one vector multiply-add in registers. The constants were fitted to convolutions
of SqueezeNet, ResNet-50 and Inception-v3 on a core with 512-bit vectors, each timed with weights
that came from memory (``benchmarks/winograd.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .....ops.window import Window
from ...core import TYPICAL, Core, MachineBalance
from ..conv.fold import folded, folds
from ..conv.shape import Conv2d
from ..layout import blocks
from ..tiling import RegisterTile, choose_tile, register_tiles, step_time
from .transform import ERRORS, tile_outputs

_WEIGHT_LOAD = 0.6  # a vector of weights from L2; every set of registers reads its own
_FAR_WEIGHT_LOAD = 1.2  # from L3, if L2 does not hold what each strip needs
_DATA_TRANSFORM = 8.0  # per point of a tile: load, transform and store
_OUTPUT_TRANSFORM = 6.0
_NEAR_EXCHANGE = 5.0  # per point of a tile: between the phases, through caches
_FAR_EXCHANGE = 15.0  # the same through memory
_PRODUCT_OVERHEAD = 16.0  # per register tile: its loops, and filling the pipelines
_FOLD = 2.0  # per row of a square of pixels: load and store
_BARRIER = 4e3  # between two phases: 1 µs
_LAST_CACHE = 8 << 20  # bytes of transformed inputs that L3 holds, which others share
_KEPT_BYTES = 128 << 10  # limit for the inputs of a strip, or the products of a group, on the stack
_MOST_STRIPS = 4  # of a group
_MOST_ERROR = 5.0  # times that of the direct sum, root mean square
_WINOGRAD = "winograd"  # what the names of its kernels begin with

WORTH = 0.9
"""Of the direct time: the larger weights and the rounding must pay off."""


@dataclass(frozen=True)
class WinogradTiling:
    """The tiles of a convolution by Winograd's algorithm.

    Attributes
    ----------
    outputs : int
        Outputs of a tile along an axis of several taps.
    registers : RegisterTile
        Tiles and blocks of output channels that one set of registers multiplies.
    fused : bool
        Whether a worker transforms exactly the inputs of the tiles that it multiplies.
    group : int
        Strips, the tiles of a set of registers, that are multiplied by the weights of one point
        before those of the next; 1 if fused.
    """

    outputs: int
    registers: RegisterTile
    fused: bool
    group: int = 1


@dataclass(frozen=True)
class WinogradTimes:
    """Predicted times on one core, in vector multiply-adds.

    Attributes
    ----------
    inputs : float
        Transforms of the inputs.
    products : float
        Products and their transforms to outputs.
    """

    inputs: float
    products: float

    @property
    def total(self) -> float:
        """The sum of both times."""
        return self.inputs + self.products


def choose_winograd(
    conv: Conv2d,
    core: Core,
    workers: int,
    balance: MachineBalance = TYPICAL,
    direct_speed: float = 1.0,
) -> WinogradTiling | None:
    """Return the tiling with the least predicted time, None if the direct kernel is as fast.

    The caller makes sure that the input is blocked, or row-major if it folds, and that the weights
    are constant.

    Parameters
    ----------
    conv : Conv2d
        The convolution.
    core : Core
        The core that runs the kernel.
    workers : int
        Workers that share it.
    balance : MachineBalance
        Machine balance.
    direct_speed : float
        How many times faster the direct kernel is than one of float32.

    Returns
    -------
    WinogradTiling or None
        The chosen tiling.
    """
    outputs = tile_sizes(conv)
    if not outputs:
        return None
    tiling = best_tiling(conv, outputs, core, workers, balance)
    winograd = winograd_times(conv, tiling, core, balance).total
    direct = direct_time(conv, core, balance) / direct_speed
    return tiling if winograd < WORTH * direct else None


def predicted_times(
    conv: Conv2d, core: Core, workers: int, balance: MachineBalance, direct_speed: float
) -> dict[str, float]:
    """Return the predicted time of each kernel on one core, by its name.

    The parameters are those of :func:`choose_winograd`.
    """
    times = {variant_name(None): direct_time(conv, core, balance) / direct_speed}
    for outputs in tile_sizes(conv):
        tiling = best_tiling(conv, [outputs], core, workers, balance)
        times[variant_name(tiling)] = winograd_times(conv, tiling, core, balance).total
    return times


def variant_name(tiling: WinogradTiling | None) -> str:
    """Return how a schedule names a kernel that could be either; None stands for the direct one."""
    return "direct" if tiling is None else _name(tiling.outputs)


def variants(conv: Conv2d) -> tuple[str, ...]:
    """Return the names of the kernels that a convolution can have; none if it has no choice."""
    sizes = tile_sizes(conv)
    return (variant_name(None), *map(_name, sizes)) if sizes else ()


def named_tiling(
    variant: str, conv: Conv2d, core: Core, workers: int, balance: MachineBalance = TYPICAL
) -> WinogradTiling | None:
    """Return the best tiling of the kernel that :func:`variant_name` names so; None if direct."""
    outputs = next((m for m in tile_sizes(conv) if _name(m) == variant), None)
    return None if outputs is None else best_tiling(conv, [outputs], core, workers, balance)


def tile_sizes(conv: Conv2d) -> tuple[int, ...]:
    """Return the outputs of a tile along an axis that Winograd's algorithm can have.

    There is none unless the convolution has windows of one stride, one group and one result. Tiles
    that round too much are left out; so are all for a sum of integers, which must be exact.
    """
    if conv.epilogue.counts:
        return ()
    conv = _filtered(conv)
    axes = [axis for axis in (conv.rows, conv.columns) if (axis.kernel, axis.stride) != (1, 1)]
    strides = {axis.stride for axis in axes}
    dense = all(axis.dilation == 1 for axis in axes)
    if len(strides) != 1 or not dense or conv.groups > 1 or len(conv.out_channels) > 1:
        return ()
    errors = ERRORS.get(strides.pop(), {})
    sizes = sorted({m for m, _ in errors})
    return tuple(
        m
        for m in sizes
        if math.prod(errors.get((m, a.kernel), math.inf) for a in axes) <= _MOST_ERROR
    )


def is_winograd(variant: str) -> bool:
    """Return whether a schedule names a kernel of Winograd's algorithm so."""
    return variant.startswith(_WINOGRAD)


def _name(outputs: int) -> str:
    return f"{_WINOGRAD}{outputs}"


def best_tiling(
    conv: Conv2d,
    outputs: Sequence[int],
    core: Core,
    workers: int,
    balance: MachineBalance = TYPICAL,
) -> WinogradTiling:
    """Return the tiling with the least predicted time on all workers.

    Parameters
    ----------
    conv : Conv2d
        The convolution.
    outputs : sequence of int
        The tile sizes to consider, in outputs along an axis.
    core : Core
        The core that runs the kernel.
    workers : int
        Workers that share it.
    balance : MachineBalance
        Machine balance.

    Returns
    -------
    WinogradTiling
        The fastest one.
    """
    candidates = [tiling for m in outputs for tiling in winograd_tilings(conv, m, core)]
    return min(candidates, key=lambda tiling: time_of_all(conv, tiling, core, workers, balance))


def winograd_tilings(conv: Conv2d, outputs: int, core: Core) -> list[WinogradTiling]:
    """Return the tilings worth considering for one tile size.

    All sets of registers but the last are equally full. With a single block of channels every
    multiply-add loads an input, and a late load of weights would delay it. An image that folds is
    computed from end to end.

    Parameters
    ----------
    conv : Conv2d
        The convolution.
    outputs : int
        Outputs of a tile along an axis.
    core : Core
        The core that runs the kernel.

    Returns
    -------
    list of WinogradTiling
        The candidates.
    """
    (_, tiles), whole = _runs(conv, outputs), not folds(conv)
    conv = _filtered(conv)
    points, in_blocks = count_points(conv, outputs), blocks(conv.channels, core.lanes)
    out_blocks = blocks(conv.out_channels[0], core.lanes)

    def ways(registers: RegisterTile) -> Iterator[WinogradTiling]:
        """Yield the tilings with a register tile whose kept values fit into the stack."""
        strips, vector = blocks(tiles, registers.mr), 4 * core.lanes * points
        if whole:
            yield WinogradTiling(outputs, registers, fused=False)
        if whole and 1 < strips <= _MOST_STRIPS and vector * tiles * registers.nr <= _KEPT_BYTES:
            yield WinogradTiling(outputs, registers, fused=False, group=strips)
        if vector * in_blocks * registers.mr <= _KEPT_BYTES:
            yield WinogradTiling(outputs, registers, fused=True)

    return [
        tiling
        for registers in register_tiles(core, tiles, out_blocks)
        if registers.mr == blocks(tiles, blocks(tiles, registers.mr))
        and (registers.nr > 1 or out_blocks == 1)
        for tiling in ways(registers)
    ]


def _runs(conv: Conv2d, outputs: int) -> tuple[int, int]:
    """Return the number of runs of tiles that are cut into strips, and the tiles of each.

    A row of tiles is a run if the convolution folds its image, else all tiles together are.
    """
    high, wide = (blocks(w.out, tile_outputs(w, outputs)) for w in (conv.rows, conv.columns))
    rows = conv.batch * high
    return (rows, wide) if folds(conv) else (1, rows * wide)


def count_points(conv: Conv2d, outputs: int) -> int:
    """Return the number of points of a transformed tile, as many as it has inputs."""
    high, wide = (
        w.distance(tile_outputs(w, outputs) - 1, w.kernel) for w in (conv.rows, conv.columns)
    )
    return int(high * wide)


def winograd_times(
    conv: Conv2d, tiling: WinogradTiling, core: Core, balance: MachineBalance = TYPICAL
) -> WinogradTimes:
    """Predict the times of a convolution by Winograd's algorithm.

    Parameters
    ----------
    conv : Conv2d
        The convolution.
    tiling : WinogradTiling
        Its tiles.
    core : Core
        The core that runs the kernel.
    balance : MachineBalance
        Machine balance.

    Returns
    -------
    WinogradTimes
        Times on one core, in vector multiply-adds.
    """
    runs, run = _runs(conv, tiling.outputs)
    folding, conv = _folding_time(conv), _filtered(conv)
    points, tiles, tile = count_points(conv, tiling.outputs), runs * run, tiling.registers
    in_blocks, out_blocks = (blocks(c, core.lanes) for c in (conv.channels, conv.out_channels[0]))
    weights, transformed = points * conv.channels * out_blocks, points * tiles * in_blocks
    strips = runs * blocks(run, tile.mr)
    # A strip reads all weights if fused, else those of a chunk, or of a point of it, while the next
    # are prefetched.
    together = 1 if tiling.group > 1 else points
    again = weights if tiling.fused else 2 * together * conv.channels * tile.nr
    streamed = strips > 1 and _exceeds_cache(again, core)
    load, transfer = (_FAR_WEIGHT_LOAD, balance.far) if streamed else (_WEIGHT_LOAD, 1.0)
    kept = 4 * points * core.lanes * tiling.group * tile.mr * tile.nr
    near = kept <= core.l1_bytes
    clear_and_store = (2.0 if near else 4.0) * tiles * out_blocks
    overhead = _PRODUCT_OVERHEAD * strips * blocks(out_blocks, tile.nr)
    step = runs * step_time(tile, run, out_blocks, load, transfer=transfer)
    compute = points * (conv.channels * step + clear_and_store + overhead)
    fetch = balance.memory * weights
    chunk = points * conv.channels * tile.nr
    # They come in time for the next point, or for the next chunk if L2 holds most of both. Two
    # workers that do nothing but wait for memory have less of its bandwidth.
    in_time = tiling.group > 1 or not _exceeds_cache(chunk + chunk // 2, core)
    overlaps = strips > 1 and not tiling.fused and in_time and fetch <= compute
    multiplied = compute if overlaps else compute + fetch
    if not tiling.fused and 4 * core.lanes * transformed > _LAST_CACHE:
        multiplied += balance.memory * transformed * blocks(out_blocks, tile.nr)  # for each chunk
    handed_over = _FAR_EXCHANGE if _exceeds_cache(transformed, core) else _NEAR_EXCHANGE
    return WinogradTimes(
        inputs=folding + (_DATA_TRANSFORM + (0.0 if tiling.fused else handed_over)) * transformed,
        products=multiplied + _OUTPUT_TRANSFORM * points * tiles * out_blocks,
    )


def _filtered(conv: Conv2d) -> Conv2d:
    """Return the convolution that Winograd's algorithm computes: of an image that folds, folded."""
    return folded(conv) if folds(conv) else conv


def _folding_time(conv: Conv2d) -> float:
    """Predict the time of folding an image."""
    if not folds(conv):
        return 0.0
    squares = blocks(conv.columns.size, conv.columns.stride)
    return _FOLD * conv.batch * conv.channels * conv.rows.size * squares


def _exceeds_cache(vectors: int, core: Core) -> bool:
    return 4 * core.lanes * vectors > core.l2_bytes


def time_of_all(
    conv: Conv2d,
    tiling: WinogradTiling,
    core: Core,
    workers: int,
    balance: MachineBalance = TYPICAL,
) -> float:
    """Predict the time of all workers together, including idle time."""
    total = winograd_times(conv, tiling, core, balance).total
    (runs, run), strip = _runs(conv, tiling.outputs), tiling.registers.mr
    if folds(conv):
        return total * blocks(runs, workers) * workers / runs
    tiles, strips = run, blocks(run, strip)
    if tiling.fused:
        return total * min(blocks(strips, workers) * strip, tiles) * workers / tiles
    chunks = blocks(blocks(conv.out_channels[0], core.lanes), tiling.registers.nr)
    units = blocks(strips, tiling.group) * chunks
    return total * blocks(units, workers) * workers / units + _BARRIER * workers


def direct_time(conv: Conv2d, core: Core, balance: MachineBalance) -> float:
    """Predict the time of the register-tiled kernel, which leaves out taps in the padding."""
    out_blocks = blocks(conv.out_channels[0], core.lanes)
    row = step_time(choose_tile(core, conv.columns.out, out_blocks), conv.columns.out, out_blocks)
    taps = _taps_inside(conv.rows) * _taps_inside(conv.columns) / conv.columns.out
    multiply = conv.batch * conv.channels * taps * row
    weights = conv.rows.kernel * conv.columns.kernel * conv.channels * out_blocks
    return max(multiply, balance.memory * weights)


def _taps_inside(window: Window) -> int:
    """Count the taps of all outputs that lie inside the input."""
    return sum(window.inside(o, t) for o in range(window.out) for t in range(window.kernel))
