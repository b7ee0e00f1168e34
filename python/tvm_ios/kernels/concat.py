# SPDX-License-Identifier: Apache-2.0
"""Concatenation of blocked feature maps along the channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx.script import builder as T

from .emit import lanes_of, select
from .kernel import Kernel, Phase
from .layout import Layout, blocks

Expr = Any


def concat_kernel(batch: int, channels: tuple[int, ...], pixels: int, layout: Layout) -> Kernel:
    """``[N, sum(channels), H, W]`` from inputs of ``channels[i]`` channels, all in ``layout``.

    Where every input but the last fills its blocks, a tile copies a block; otherwise channels
    move from lane to lane and a tile is one channel.
    """
    aligned = all(c % layout.block == 0 for c in channels[:-1])
    counts = [blocks(c, layout.block) if aligned else c for c in channels]
    tiles = sum(counts)
    copy = _copy_block if aligned else _copy_channel

    def emit(buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        result = buffers[-1]
        with T.serial(begin, begin + extent) as t:
            place, image = t % tiles, t // tiles
            select(
                place,
                [
                    (n, lambda i, s=s: copy(s, result, image, i, place, pixels, layout.block))
                    for s, n in zip(buffers[:-1], counts, strict=True)
                ],
            )

    return Kernel(
        name="concat",
        key=("concat", batch, channels, pixels, layout),
        inputs=tuple(layout.spec((batch, c, pixels, 1)) for c in channels),
        outputs=(layout.spec((batch, sum(channels), pixels, 1)),),
        phases=(Phase(batch * tiles, emit),),
    )


def _copy_block(
    source: Any, result: Any, image: Expr, i: Expr, place: Expr, pixels: int, block: int
) -> None:
    with T.serial(pixels) as p:
        vector = lanes_of(0, block)
        T.buffer_store(result, source[image, i, p, vector], [image, place, p, vector])


def _copy_channel(
    source: Any, result: Any, image: Expr, i: Expr, place: Expr, pixels: int, block: int
) -> None:
    with T.serial(pixels) as p:
        value = source[image, i // block, p, i % block]
        T.buffer_store(result, value, [image, place // block, p, place % block])
