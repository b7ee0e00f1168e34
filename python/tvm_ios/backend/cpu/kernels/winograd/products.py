# SPDX-License-Identifier: Apache-2.0
"""Products of transformed inputs and weights in Winograd's algorithm, and their way to outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx.script import builder as T

from .....ops.tir_function import tile_scope
from .....sizes.size import hint_of
from ...isa.emit import Accumulators, bind, lanes_of, loop, select, splat, unroll, zeros
from ...isa.epilogue import apply_epilogue
from ...isa.storage import store
from ..layout import blocks
from ..open_row import one_of, smallest_above, widths_below
from ..prefetch import NEAR, Ahead, fetch_near
from .shape import WinogradShape

Expr = Any


@dataclass(frozen=True)
class Buffers:
    """The tensors of a kernel."""

    image: Any
    weights: Any
    arguments: Sequence[Any]
    result: Any


@dataclass(frozen=True)
class PrefetchTarget:
    """The weights that are prefetched while a chunk is multiplied.

    Attributes
    ----------
    more : Expr
        1 if the caller continues with the next chunk, else 0.
    after : Expr or None
        Element at which the weights begin that are needed after the last chunk; None if not known.
    """

    more: Expr
    after: Expr | None = None


@dataclass(frozen=True)
class Strips:
    """Some strips of a run of tiles, from strip ``first`` of the run on.

    Attributes
    ----------
    first, count : Expr
    kept : bool
        Whether their transformed inputs are on the worker's stack, and not with those of all
        others.
    num_tiles : int
        The tiles of the run, all of them or those of a row.
    before : Expr
        The tiles before the run.
    """

    first: Expr
    count: Expr
    kept: bool
    num_tiles: int
    before: Expr = 0


@dataclass(frozen=True)
class Products:
    """The tiles of some strips for ``width`` blocks of output channels from block ``first``."""

    shape: WinogradShape
    buffers: Buffers
    transformed: Any
    products: Any
    strips: Strips
    first: Expr
    width: int
    prefetch_target: PrefetchTarget

    def multiply(self) -> None:
        """Emit the products at all points, summed over the input channels.

        The last strip may be narrower. If the number of tiles is open, it may also be computed as
        one of a few more tiles, see :meth:`.WinogradEmitter.filled`.
        """
        size, num_tiles = self.shape.strip, self.strips.num_tiles

        def tiles(strip: Expr, index: Expr, count: int) -> None:
            with tile_scope():
                self._multiply(point, strip, index * size, count)

        def multiply_strip(index: Expr) -> None:
            strip = bind(self.strips.first + index)
            if not isinstance(num_tiles, int):
                left = bind(num_tiles - strip * size)
                width = bind(smallest_above(widths_below(size), left))
                one_of(widths_below(size), width, lambda count: tiles(strip, index, count))
                return
            full, rest = divmod(num_tiles, size)
            select(
                strip,
                [
                    (full, lambda _: tiles(strip, index, size)),
                    (1 if rest else 0, lambda _: tiles(strip, index, rest)),
                ],
            )

        with T.serial(self.shape.tiles.points) as point:
            loop(self.strips.count, multiply_strip)

    def _multiply(self, point: Expr, strip: Expr, begin: Expr, count: int) -> None:
        """Emit the products of the tiles of a strip and the chunk's weights at one point.

        Those of its ``count`` tiles are stored from place ``begin`` on.
        """
        shape, width, lanes = self.shape, self.width, self.shape.lanes
        channels = shape.conv.channels
        registers = Accumulators(width * count, lanes, zeros(lanes))
        base = bind((self.first * shape.tiles.points + point * width) * channels * lanes)

        ahead, slot = self._ahead(point, strip), 0 if self.strips.kept else strip

        def step(block: Expr, c: Expr) -> None:
            def multiply_add(k: Expr, i: Expr) -> None:
                place = base + ((block * lanes + c) * width + k) * lanes
                value = splat(self.transformed[slot, point, block * shape.strip + i, c], lanes)
                weights = self.buffers.weights[lanes_of(place, lanes)]
                registers[k * count + i] = registers[k * count + i] + value * weights

            def fetch(k: Expr) -> None:
                later = base + ((block * lanes + c + NEAR) * width + k) * lanes
                fetch_near(self.buffers.weights, [later])

            unroll(0, width, lambda k: unroll(0, count, lambda i: multiply_add(k, i)))
            unroll(0, width, fetch)

        def channel_block(block: Expr, count: int) -> None:
            if ahead:
                ahead.step(block)
            loop(count, lambda c: step(block, c))

        full, rest = divmod(channels, lanes)
        if full:
            loop(full, lambda block: channel_block(block, lanes))
        if rest:
            channel_block(full, rest)

        def store(k: Expr, i: Expr) -> None:
            place = [k, begin + i, point, lanes_of(0, lanes)]
            T.buffer_store(self.products, registers[k * count + i], place)

        unroll(0, width, lambda k: unroll(0, count, lambda i: store(k, i)))

    def _ahead(self, point: Expr, strip: Expr) -> Ahead | None:
        """Return this strip's share of the weights that are needed later, None if there is no gain.

        A group of all strips reads each weight once: those of the next point come into L2, which
        may be too small for a chunk. Several groups read the chunk's weights again, while those of
        the next chunk come. A single strip reads a stream, which processors follow.
        """
        shape, lanes, after = self.shape, self.shape.lanes, self.prefetch_target.after
        strips = hint_of(shape.strips)
        if shape.tiling.fused or strips == 1 or (after is None and shape.chunks == 1):
            return None
        steps, channels = blocks(shape.conv.channels, lanes), shape.conv.channels
        share, row = blocks(self.width * lanes, strips), self.width * channels * lanes
        if shape.conv.is_open:
            strip = T.min(strip, strips)  # what is behind the chunk is not needed yet
        if hint_of(shape.groups) == 1:
            begin = self._next_point(point, row)
        else:
            begin = self._next_chunk() + point * row
        begin = bind(begin + strip * (steps * share * lanes))
        return Ahead(self.buffers.weights, begin, share, lanes)

    def _next_point(self, point: Expr, row: int) -> Expr:
        """Return where the weights of the next point begin, of which a point has ``row``.

        Behind those of the last point of a chunk lie those of the next chunk.
        """
        begin = self.first * self.shape.block_elements + (point + 1) * row
        if self.prefetch_target.after is None:
            return begin
        ended = T.And(self.prefetch_target.more == 0, point == self.shape.tiles.points - 1)
        return T.Select(ended, self.prefetch_target.after, begin)

    def _next_chunk(self) -> Expr:
        """Return where the weights of the next chunk begin, or else the prefetch target."""
        more, after = self.prefetch_target.more, self.prefetch_target.after
        begin = (self.first + self.width * more) * self.shape.block_elements
        return begin if after is None else T.Select(more > 0, begin, after)

    def transform(self) -> None:
        """Emit the outputs of all tiles."""
        shape, vector = self.shape, lanes_of(0, self.shape.lanes)
        first = bind(self.strips.first * shape.strip)
        count = bind(T.min(self.strips.count * shape.strip, self.strips.num_tiles - first))
        with T.serial(self.width) as k, T.serial(count) as i:
            place = shape.tiles.place(self.strips.before + first + i)
            shape.tiles.transform_out(
                place,
                lambda point: self.products[k, i, point, vector],
                lambda pixel, value: self._store(place.image, self.first + k, pixel, value),
            )

    def _store(self, image: Expr, block: Expr, pixel: Expr, value: Expr) -> None:
        """Apply the epilogue to one vector of the result and store it."""
        epilogue, vector = self.shape.conv.epilogue, lanes_of(0, self.shape.lanes)

        def load(a: int) -> Expr:
            if epilogue.arguments[a] == "channel":
                return self.buffers.arguments[a][0, block, 0, vector]
            return self.buffers.arguments[a][image, block, pixel, vector]

        value = apply_epilogue(epilogue, value, load, self.shape.lanes)
        store(self.buffers.result, value, [image, block, pixel, vector])
