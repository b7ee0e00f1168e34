# SPDX-License-Identifier: Apache-2.0
"""Concatenation of blocked feature maps along the channels, or of their rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Any

from tvm.tirx.script import builder as T

from .....sizes.size import AnySize
from ...isa.emit import lanes_of, select
from ...isa.storage import store
from ..kernel import Kernel, phase
from ..layout import Layout, blocks

Expr = Any


def concat_kernel(
    batch: AnySize,
    channels: tuple[int, ...],
    pixels: AnySize,
    layout: Layout,
    copied: tuple[int, ...] | None = None,
) -> Kernel:
    """Return the kernel that concatenates blocked feature maps along the channels.

    It copies ``gcd(block, channel counts)`` channels at a time: they are neighbours in both the
    source and the result. A tile is that many channels of the whole plane.

    Parameters
    ----------
    batch, pixels : int or Size
        Images, and pixels of a plane.
    channels : tuple of int
        Channels of each part.
    layout : Layout
        Layout of all parts and of the result.
    copied : tuple of int, optional
        Positions of the parts that are inputs of the kernel, by default all. The kernels that
        compute the other parts write them in place.

    Returns
    -------
    Kernel
        A kernel of one phase that writes ``[N, sum(channels), H, W]``.
    """
    width = math.gcd(layout.block, *channels[:-1])
    counts = [blocks(c, width) for c in channels]
    begins = [sum(counts[:i]) for i in range(len(counts))]
    parts = tuple(range(len(channels))) if copied is None else copied
    num_tiles = sum(counts[i] for i in parts)

    def emit(buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        def copy(source: Any, part: int, image: Expr, i: Expr) -> None:
            there = begins[part] + i
            with T.serial(pixels) as p:
                value = source[_index(image, i, p, width, layout)]
                store(buffers[-1], value, _index(image, there, p, width, layout))

        with T.serial(begin, begin + extent) as t:
            select(
                t % num_tiles,
                [
                    (counts[p], partial(copy, s, p, t // num_tiles))
                    for s, p in zip(buffers[:-1], parts, strict=True)
                ],
            )

    return Kernel(
        name="concat",
        key=("concat", batch, channels, pixels, layout, parts),
        inputs=tuple(layout.spec((batch, channels[p], pixels, 1)) for p in parts),
        outputs=(layout.spec((batch, sum(channels), pixels, 1)),),
        phases=(phase(batch * num_tiles, emit),) if parts else (),
        order="channels",
        narrows=True,
    )


def concat_rows_kernel(
    batch: int, channels: int, columns: tuple[int, ...], layout: Layout
) -> Kernel:
    """Return the kernel that concatenates blocked maps of one row along the columns.

    A tile is a block of channels.

    Parameters
    ----------
    batch, channels : int
        Images, and channels of each.
    columns : tuple of int
        Columns of each part.
    layout : Layout
        Layout of all parts and of the result.

    Returns
    -------
    Kernel
        A kernel of one phase that writes ``[N, C, 1, sum(columns)]``.
    """
    count, vector = blocks(channels, layout.block), lanes_of(0, layout.block)

    def emit(buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        with T.serial(begin, begin + extent) as t:
            image, block = t // count, t % count
            for source, width, end in zip(buffers, columns, accumulate(columns), strict=False):
                with T.serial(width) as p:
                    value = source[image, block, p, vector]
                    store(buffers[-1], value, [image, block, end - width + p, vector])

    return Kernel(
        name="concat",
        key=("concat_rows", batch, channels, columns, layout),
        inputs=tuple(layout.spec((batch, channels, 1, width)) for width in columns),
        outputs=(layout.spec((batch, channels, 1, sum(columns))),),
        phases=(phase(batch * count, emit),),
        order="channels",
        narrows=True,
    )


def whole_blocks(channels: Sequence[int], layout: Layout) -> bool:
    """Return whether every part of a concatenation begins at a whole block."""
    return all(c % layout.block == 0 for c in channels[:-1])


def _index(image: Expr, group: Expr, pixel: Expr, width: int, layout: Layout) -> tuple[Expr, ...]:
    """Return the position of the ``width`` channels of group ``group`` in a blocked map."""
    channel = group * width
    return image, channel // layout.block, pixel, lanes_of(channel % layout.block, width)
