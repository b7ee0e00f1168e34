# SPDX-License-Identifier: Apache-2.0
"""Layer normalisation of the channels of each pixel of a blocked feature map.

A tile is a few neighbouring pixels, whose sums are in registers. Their channels are read three
times, for the mean, for the variance and for the result, the last two times from L1. The variance
is the mean of squared differences, as the difference of two means would lose precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from .....ops.epilogue import NOTHING, Epilogue
from .....ops.tir_function import tile_scope
from .....ops.window import Window
from .....sizes.arithmetic import ceil_div
from .....sizes.size import AnySize, hint_of, is_open
from ...core import Core
from ...isa.emit import Accumulators, bind, lanes_of, loop, select, shuffled, splat, unroll, zeros
from ...isa.epilogue import apply_epilogue
from ...isa.functions import keep
from ...isa.storage import store
from ..kernel import Kernel, phase
from ..layout import Layout, blocks
from ..open_row import open_tile
from ..plane import PlaneTiles
from ..rows.scan import fold
from ..taps import ColumnTile
from .norm import argument_loader, tensors

Expr = Any

_Load = Callable[[Expr, Expr], Expr]
"""``load(block, pixel)`` returns a vector of a tile."""


@dataclass(frozen=True)
class ChannelNorm:
    """A normalisation of the channels of each pixel, followed by an epilogue.

    It computes ``(x - mean) / sqrt(variance + epsilon) * gamma + beta``, with a gamma and a beta
    for each channel.
    """

    batch: AnySize
    channels: int
    pixels: AnySize
    epsilon: float
    epilogue: Epilogue = NOTHING


def channel_norm_kernel(norm: ChannelNorm, layout: Layout, core: Core) -> Kernel:
    """Return the kernel of a layer normalisation of channels.

    Parameters
    ----------
    norm : ChannelNorm
        The normalisation.
    layout : Layout
        Layout of all tensors, blocked by ``core.lanes``.
    core : Core
        The core that runs the kernel.

    Returns
    -------
    Kernel
        Its inputs are the feature map, gamma, beta and the epilogue's arguments.
    """
    emitter = _ChannelNormEmitter(norm, layout, core)
    inputs, result = tensors(norm, layout)
    return Kernel(
        name="channel_norm",
        key=("channel_norm", norm, layout, core),
        inputs=inputs,
        outputs=(result,),
        phases=(phase(norm.batch * emitter.num_tiles, emitter.emit),),
        plane=emitter.plane(),
        order="rows" if emitter.plane() is None else None,
        narrows=True,
    )


class _ChannelNormEmitter:
    def __init__(self, norm: ChannelNorm, layout: Layout, core: Core) -> None:
        assert layout.block == core.lanes, "a block of channels is one vector"
        self.norm, self.lanes = norm, core.lanes
        self.blocks = blocks(norm.channels, core.lanes)
        pixels = hint_of(norm.pixels)
        self.width = min(pixels, max(1, (core.registers - 2) // 3))  # sums, means, operands
        self.num_tiles = ceil_div(norm.pixels, self.width)

    def plane(self) -> PlaneTiles | None:
        """Return how the tiles cover the result; None if sizes are open."""
        norm = self.norm
        if is_open((norm.batch, norm.pixels)):
            return None
        return PlaneTiles(
            norm.batch,
            self.num_tiles,
            self.width,
            norm.pixels,
            mixes=True,
            images=norm.batch,
            blocks=(0, self.blocks),
        )

    def emit(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        with T.serial(begin, begin + extent) as t:
            image, number = bind(t // self.num_tiles), bind(t % self.num_tiles)
            first = bind(number * self.width)

            def tile(width: int, _: Expr) -> None:
                with tile_scope():
                    self._tile(buffers, image, first, width)

            if not isinstance(self.norm.pixels, int):
                row = Window(self.norm.pixels, self.norm.pixels, 1)
                open_tile(row, self.width, number, partial(self._open_tile, buffers, image))
                return
            full, rest = divmod(self.norm.pixels, self.width)
            select(
                number,
                [(full, partial(tile, self.width)), (1 if rest else 0, partial(tile, rest))],
            )

    def _open_tile(
        self, buffers: Sequence[Any], image: Expr, first: Expr, tile: ColumnTile
    ) -> None:
        with tile_scope():
            self._tile(buffers, image, first, tile.width)

    def _tile(self, buffers: Sequence[Any], image: Expr, first: Expr, width: int) -> None:
        source, vector = buffers[0], lanes_of(0, self.lanes)

        def load(block: Expr, pixel: Expr) -> Expr:
            return source[image, block, first + pixel, vector]

        def squared(block: Expr, pixel: Expr) -> Expr:
            distance = keep(load(block, pixel) - means[pixel])
            return distance * distance

        means = self._means(width, load, lambda mean: mean)
        epsilon = T.float32(self.norm.epsilon)
        scales = self._means(
            width, squared, lambda variance: T.float32(1) / tirx.sqrt(variance + epsilon)
        )
        loop(self.blocks, partial(self._finish, buffers, image, first, width, means, scales))

    def _means(self, width: int, load: _Load, finish: Callable[[Expr], Expr]) -> Accumulators:
        """Return ``finish`` of the mean over the channels of each pixel, in all lanes."""
        sums = Accumulators(width, self.lanes, zeros(self.lanes))
        whole, rest = divmod(self.norm.channels, self.lanes)

        def add(block: Expr, pixel: Expr) -> None:
            sums[pixel] = sums[pixel] + load(block, pixel)

        def add_rest(pixel: Expr) -> None:
            # What lies behind the last channel is no number that counts.
            kept = [*range(rest), *range(self.lanes, 2 * self.lanes - rest)]
            sums[pixel] = sums[pixel] + shuffled([load(whole, pixel), zeros(self.lanes)], kept)

        if whole:
            loop(whole, lambda block: unroll(0, width, partial(add, block)))
        if rest:
            unroll(0, width, add_rest)
        share = T.float32(1.0 / self.norm.channels)
        for pixel in range(width):
            total = fold(sums[pixel], self.lanes, lambda a, b: a + b)
            sums[pixel] = splat(keep(finish(total * share)), self.lanes)
        return sums

    def _finish(
        self,
        buffers: Sequence[Any],
        image: Expr,
        first: Expr,
        width: int,
        means: Accumulators,
        scales: Accumulators,
        block: Expr,
    ) -> None:
        """Emit the results of one block of channels."""
        source, gamma, beta, *arguments, result = buffers
        vector, epilogue = lanes_of(0, self.lanes), self.norm.epilogue
        factor, shift = (keep(each[0, block, 0, vector]) for each in (gamma, beta))

        def pixel(number: Expr) -> None:
            place = (image, block, first + number, vector)
            argument = argument_loader(epilogue, arguments, place)
            with tile_scope():
                normal = (source[place] - means[number]) * scales[number]
                value = apply_epilogue(epilogue, normal * factor + shift, argument, self.lanes)
                store(result, value, place)

        unroll(0, width, pixel)
