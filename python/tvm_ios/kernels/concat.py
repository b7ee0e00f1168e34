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


def concat_kernel(
    batch: int,
    channels: tuple[int, ...],
    pixels: int,
    layout: Layout,
    copied: tuple[int, ...] | None = None,
) -> Kernel:
    """``[N, sum(channels), H, W]`` from parts of ``channels[i]`` channels, all in ``layout``.

    Where every part but the last fills its blocks, a tile copies a block; otherwise channels
    move from lane to lane and a tile is one channel.

    Parameters
    ----------
    batch, pixels : int
    channels : tuple of int
    layout : Layout
    copied : tuple of int, optional
        The parts that are inputs of the kernel, all by default; the others are written in place by
        whoever computes them.
    """
    aligned = whole_blocks(channels, layout)
    counts = [blocks(c, layout.block) if aligned else c for c in channels]
    begins = [sum(counts[:i]) for i in range(len(counts))]
    parts = tuple(range(len(channels))) if copied is None else copied
    tiles = sum(counts[i] for i in parts)
    copy = _copy_block if aligned else _copy_channel

    def emit(buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        result = buffers[-1]

        def body(source: Any, part: int, image: Expr, i: Expr) -> None:
            copy(source, result, image, i, begins[part] + i, pixels, layout.block)

        with T.serial(begin, begin + extent) as t:
            select(
                t % tiles,
                [
                    (counts[p], lambda i, s=s, p=p: body(s, p, t // tiles, i))
                    for s, p in zip(buffers[:-1], parts, strict=True)
                ],
            )

    return Kernel(
        name="concat",
        key=("concat", batch, channels, pixels, layout, parts),
        inputs=tuple(layout.spec((batch, channels[p], pixels, 1)) for p in parts),
        outputs=(layout.spec((batch, sum(channels), pixels, 1)),),
        phases=(Phase(batch * tiles, emit),) if parts else (),
    )


def whole_blocks(channels: tuple[int, ...], layout: Layout) -> bool:
    """Whether every part of a concatenation begins at a whole block."""
    return all(c % layout.block == 0 for c in channels[:-1])


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
