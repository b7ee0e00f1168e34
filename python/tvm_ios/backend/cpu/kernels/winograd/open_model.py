# SPDX-License-Identifier: Apache-2.0
"""The choice between the kernels of a convolution of open size, for several examples of sizes."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from .....ops.epilogue import NOTHING
from ...core import Core, MachineBalance
from ..conv.shape import Conv2d
from .model import (
    WORTH,
    WinogradTiling,
    direct_time,
    tile_sizes,
    time_of_all,
    winograd_tilings,
    winograd_times,
)


def choose_open(
    conv: Conv2d, core: Core, workers: int, balance: MachineBalance
) -> WinogradTiling | None:
    """Return the tiling that is the least behind the best one of each example.

    It is None if the direct kernel is predicted to be as fast on the whole. The parameters are
    those of :func:`~.model.choose_winograd`.
    """
    examples = replace(conv, epilogue=NOTHING).examples
    return _choose(examples, core, workers, balance)


@lru_cache(maxsize=256)
def _choose(
    examples: tuple[Conv2d, ...], core: Core, workers: int, balance: MachineBalance
) -> WinogradTiling | None:
    candidates = list(
        dict.fromkeys(
            tiling
            for example in examples
            for outputs in tile_sizes(example)
            for tiling in winograd_tilings(example, outputs, core)
        )
    )
    if not candidates:
        return None
    behind = [0.0] * len(candidates)
    for example in examples:
        times = [time_of_all(example, tiling, core, workers, balance) for tiling in candidates]
        behind = [total + time / min(times) for total, time in zip(behind, times, strict=True)]
    _, chosen = min(zip(behind, candidates, strict=True), key=lambda pair: pair[0])
    gains = [
        winograd_times(example, chosen, core, balance).total / direct_time(example, core, balance)
        for example in examples
    ]
    return chosen if math.prod(gains) < WORTH ** len(examples) else None
