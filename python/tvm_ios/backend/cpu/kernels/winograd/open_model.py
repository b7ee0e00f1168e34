# SPDX-License-Identifier: Apache-2.0
"""The choice between the kernels of a convolution of open size, for several examples of sizes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from tvm.tirx.script import builder as T

from .....ops.epilogue import NOTHING
from .....sizes.arithmetic import ceil_div
from .....sizes.size import AnySize
from ...core import Core, MachineBalance
from ..conv.shape import Conv2d
from .model import (
    WORTH,
    WinogradTiling,
    count_points,
    direct_time,
    tile_sizes,
    time_of_all,
    winograd_tilings,
    winograd_times,
)
from .transform import tile_outputs

Expr = Any


@dataclass(frozen=True)
class Threshold:
    """Where Winograd's algorithm pays: as many tiles take less time than as many pixels.

    The times are in vector multiply-adds, see :mod:`.model`. Winograd's algorithm takes
    ``per_tile`` for each tile, but no less than ``fetch`` for its weights. A direct convolution
    takes ``per_pixel`` for each pixel of the result, but no less than ``least``.
    """

    per_tile: float
    fetch: float
    per_pixel: float
    least: float

    def holds(self, tiles: AnySize, pixels: AnySize) -> Expr:
        """Return whether Winograd's algorithm is predicted to be faster."""
        count, area = (T.cast(_short(size), "float32") for size in (tiles, pixels))
        time = T.max(count * T.float32(self.per_tile), T.float32(self.fetch))
        return time < T.max(area * T.float32(self.per_pixel), T.float32(self.least))


@dataclass(frozen=True)
class OpenChoice:
    """The tiling for Winograd's algorithm, and where it pays; None if that is everywhere."""

    tiling: WinogradTiling
    threshold: Threshold | None


def choose_open(
    conv: Conv2d, core: Core, workers: int, balance: MachineBalance
) -> OpenChoice | None:
    """Return the tiling that is the least behind the best kernel of each example.

    Where it does not pay, the direct kernel is used; the result is None if that is everywhere. The
    parameters are those of :func:`~.model.choose_winograd`.
    """
    examples = replace(conv, epilogue=NOTHING).examples
    return _choose(examples, core, workers, balance)


@lru_cache(maxsize=256)
def _choose(
    examples: tuple[Conv2d, ...], core: Core, workers: int, balance: MachineBalance
) -> OpenChoice | None:
    candidates = {
        tiling: None
        for example in examples
        for outputs in tile_sizes(example)
        for tiling in winograd_tilings(example, outputs, core)
    }
    if not candidates:
        return None

    direct = [direct_time(example, core, balance) for example in examples]
    behind = dict.fromkeys(candidates, 0.0)
    for example, other in zip(examples, direct, strict=True):
        times = {t: time_of_all(example, t, core, workers, balance) for t in candidates}
        least = min(other, *times.values())
        behind = {t: total + min(other, times[t]) / least for t, total in behind.items()}
    chosen = min(behind, key=behind.__getitem__)
    paying = [
        e
        for e, other in zip(examples, direct, strict=True)
        if _pays(e, chosen, other, core, balance)
    ]
    if not paying:
        return None
    if len(paying) == len(examples):
        return OpenChoice(chosen, None)
    large = max(examples, key=pixels_of)
    return OpenChoice(chosen, _threshold(large, chosen, core, balance))


def _pays(
    example: Conv2d,
    tiling: WinogradTiling,
    direct: float,
    core: Core,
    balance: MachineBalance,
) -> bool:
    """Return whether a tiling is predicted to be worth it."""
    return winograd_times(example, tiling, core, balance).total < WORTH * direct


def _threshold(
    large: Conv2d, tiling: WinogradTiling, core: Core, balance: MachineBalance
) -> Threshold:
    """Return a threshold by the predicted times of a large example, and those of the weights."""
    blocks = ceil_div(large.out_channels[0], core.lanes)
    vectors = large.channels * blocks
    fetch = balance.memory * vectors
    total = winograd_times(large, tiling, core, balance).total
    return Threshold(
        per_tile=total / tiles_of(large, tiling),
        fetch=fetch * count_points(large, tiling.outputs),
        per_pixel=WORTH * direct_time(large, core, balance) / pixels_of(large),
        least=WORTH * fetch * large.rows.kernel * large.columns.kernel,
    )


def tiles_of(conv: Conv2d, tiling: WinogradTiling) -> Any:
    """Return the number of tiles."""
    high, wide = (
        ceil_div(axis.out, tile_outputs(axis, tiling.outputs)) for axis in (conv.rows, conv.columns)
    )
    return conv.batch * high * wide


def pixels_of(conv: Conv2d) -> Any:
    """Return the number of pixels of the result."""
    return conv.batch * conv.rows.out * conv.columns.out


def _short(size: AnySize) -> Expr:
    return T.int32(size) if isinstance(size, int) else size.short
