# SPDX-License-Identifier: Apache-2.0
"""Convolution by Winograd's minimal filtering, along one axis or both.

The output is cut into tiles of ``m`` x ``m``, each computed from ``n`` x ``n`` inputs; along an
axis of one tap, ``m`` and ``n`` are 1. The inputs of a tile are transformed to as many points, each
of which is a vector of channels. At each point, the matrix of all tiles is multiplied by the matrix
of the weights, which are transformed at compile time. The products are transformed to outputs while
they are in the core's L1 cache.

A *strip* is as many tiles as one set of registers multiplies. A *chunk* is as many blocks of output
channels. If there are many strips, a worker computes each strip from its inputs to its outputs, and
the intermediate values stay in its cache (``fused``). If there are few, a first phase transforms
all inputs, and the second phase works on one strip of one chunk at a time. Strips vary fastest, so
that a chunk's weights, which are large, come from memory once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.tirx.script import builder as T

from ....target import Core
from ....tir.emit import (
    Accumulators,
    bind,
    lanes_of,
    loop,
    on_stack,
    select,
    splat,
    tile_scope,
    unroll,
    zeros,
)
from ....tir.storage import store
from ....tir.tensor import TensorSpec
from .conv2d_shape import Conv2d
from .kernel import Kernel, Phase, Weights
from .layout import Layout, blocks
from .prefetch import NEAR, Ahead, fetch_near
from .winograd_model import WinogradTiling, winograd_times
from .winograd_tiles import Tiles
from .winograd_transform import transforms

Expr = Any


def pack_winograd(
    weights: np.ndarray, conv: Conv2d, tiling: WinogradTiling, lanes: int
) -> np.ndarray:
    """Transform and pack weights ``[K, C, R, S]`` in the order in which the kernel reads them.

    Parameters
    ----------
    weights : numpy.ndarray
        Weights, ``[K, C, R, S]``.
    conv : Conv2d
        The convolution.
    tiling : WinogradTiling
        The tiling of the kernel that reads them.
    lanes : int
        Elements of a vector.

    Returns
    -------
    numpy.ndarray
        ``[points, C, b, lanes]`` of each chunk of ``b`` blocks of output channels, one after
        another. Points are in column-major order.
    """
    down, across = transforms(conv, tiling.outputs)
    matrix, chunk = np.kron(across.filter, down.filter), tiling.registers.blocks
    k, c = weights.shape[:2]
    padded = np.zeros((blocks(k, lanes) * lanes, c, *weights.shape[2:]), weights.dtype)
    padded[:k] = weights
    taps = padded.swapaxes(2, 3).reshape(-1, lanes, c, matrix.shape[1])
    parts = []
    for first in range(0, len(taps), chunk):
        points = taps[first : first + chunk].astype("float64") @ matrix.T
        parts.append(points.transpose(3, 2, 0, 1).astype("float32").ravel())
    return np.concatenate(parts)


def winograd_kernel(conv: Conv2d, tiling: WinogradTiling, layout: Layout, core: Core) -> Kernel:
    """Return the kernel of a convolution whose windows have :func:`.tile_sizes`.

    The kernel's inputs are the feature map, the weights as :func:`pack_winograd` leaves them and
    the epilogue's arguments.

    Parameters
    ----------
    conv : Conv2d
        The convolution.
    tiling : WinogradTiling
        How the kernel cuts it.
    layout : Layout
        Layout of the inputs and of the result, blocked by ``core.lanes``.
    core : Core
        The core that runs the kernel.

    Returns
    -------
    Kernel
        A kernel of one phase if the tiling is fused, else of two phases.
    """
    assert layout.block == core.lanes, "a block of channels is one vector"
    emitter = _Emitter(conv, tiling, core)
    image = (conv.batch, conv.channels, conv.rows.size, conv.columns.size)
    result = (conv.batch, *conv.out_channels, conv.rows.out, conv.columns.out)
    arguments = {"channel": (1, *conv.out_channels, 1, 1), "full": result}
    return Kernel(
        name="conv2d_winograd",
        key=("winograd", conv, tiling, layout, core),
        inputs=(
            layout.spec(image),
            TensorSpec((emitter.out_blocks * emitter.tiles.points * conv.channels * core.lanes,)),
            *(layout.spec(arguments[kind]) for kind in conv.epilogue.arguments),
        ),
        outputs=(layout.spec(result),),
        scratch=() if tiling.fused else (TensorSpec(emitter.transformed(emitter.strips)),),
        phases=emitter.phases(),
        order="rows" if tiling.fused else "channels",
        narrows=True,
    )


@dataclass(frozen=True)
class _Buffers:
    image: Any
    weights: Any
    arguments: Sequence[Any]
    result: Any


class _Emitter:
    def __init__(self, conv: Conv2d, tiling: WinogradTiling, core: Core) -> None:
        self.conv, self.tiling, self.core, self.lanes = conv, tiling, core, core.lanes
        self.tiles = Tiles(conv, tiling.outputs, core.lanes)
        self.strip, self.chunk = tiling.registers.columns, tiling.registers.blocks
        assert self.strip <= self.tiles.count, "every strip but the last is full"
        self.strips = blocks(self.tiles.count, self.strip)
        self.in_blocks = blocks(conv.channels, core.lanes)
        self.out_blocks = blocks(conv.out_channels[0], core.lanes)
        self.chunks = blocks(self.out_blocks, self.chunk)

    def transformed(self, strips: int) -> tuple[int, ...]:
        """Return the shape of the transformed inputs of ``strips`` strips.

        The values that one set of registers multiplies lie together. The number of vectors of a
        point is odd: a tile's points are written one after the other, and with an odd distance they
        fall into different sets of the cache.
        """
        return (strips, self.tiles.points, self.in_blocks * self.strip | 1, self.lanes)

    def phases(self) -> tuple[Phase, ...]:
        if self.tiling.fused:
            return (Phase(self.strips, self._emit_fused, weights=Weights(1, lambda _: 0)),)
        times = winograd_times(self.conv, self.tiling, self.core)
        return (
            Phase(self.tiles.count * self.in_blocks, self._emit_inputs, times.inputs),
            Phase(
                self.strips * self.chunks,
                self._emit_products,
                times.products,
                weights=Weights(1, self._first_weight, prefetches=True),
            ),
        )

    def _first_weight(self, tile: int) -> int:
        """Return the element at which the weights of a strip's chunk begin."""
        return tile // self.strips * self.chunk * self.block_elements

    @property
    def block_elements(self) -> int:
        """The weights of a block of output channels at all points."""
        return self.tiles.points * self.conv.channels * self.lanes

    def _emit_fused(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        """Emit a range of strips, each from its inputs to its outputs."""
        bound, transformed = self._bind(buffers), on_stack(self.transformed(1))
        products = self._products()
        with T.serial(begin, begin + extent) as strip:
            first = bind(strip * self.strip)
            count = bind(T.min(self.strip, self.tiles.count - first))
            with T.serial(self.in_blocks) as block, T.serial(count) as i:
                self._transform(bound.image, transformed, 0, block, bind(first + i), i)
            with T.serial(self.chunks) as chunk:
                self._emit_chunk(bound, transformed, products, 0, strip, chunk, _Next(0))

    def _emit_inputs(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        """Emit the transforms of the inputs; the unit is one tile of one block of channels."""
        with T.serial(begin, begin + extent) as t:
            block, tile = bind(t // self.tiles.count), bind(t % self.tiles.count)
            strip, i = bind(tile // self.strip), bind(tile % self.strip)
            self._transform(buffers[0], buffers[-1], strip, block, tile, i)

    def _emit_products(
        self, buffers: Sequence[Any], begin: Expr, extent: Expr, following: Expr | None = None
    ) -> None:
        """Emit the products and the outputs; the unit is one strip of one chunk."""
        bound, products = self._bind(buffers), self._products()
        with T.serial(begin, begin + extent) as t:
            chunk, strip = bind(t // self.strips), bind(t % self.strips)
            more = bind(T.Select(t - strip + self.strips < begin + extent, 1, 0))
            following_chunk = _Next(more, following)
            self._emit_chunk(bound, buffers[-1], products, strip, strip, chunk, following_chunk)

    def _bind(self, buffers: Sequence[Any]) -> _Buffers:
        count = 2 + len(self.conv.epilogue.arguments)
        return _Buffers(buffers[0], buffers[1], buffers[2:count], buffers[count])

    def _products(self) -> Any:
        return on_stack((self.chunk, self.strip, self.tiles.points, self.lanes))

    def _transform(
        self, image: Any, transformed: Any, slot: Expr, block: Expr, tile: Expr, i: Expr
    ) -> None:
        """Transform a tile's inputs to tile ``i`` of the strip in ``slot``."""
        position, vector = bind(block * self.strip + i), lanes_of(0, self.lanes)

        def store(point: Expr, value: Expr) -> None:
            T.buffer_store(transformed, value, [slot, point, position, vector])

        self.tiles.transform_in(image, block, tile, store)

    def _emit_chunk(
        self,
        buffers: _Buffers,
        transformed: Any,
        products: Any,
        slot: Expr,
        strip: Expr,
        chunk: Expr,
        following: _Next,
    ) -> None:
        """Emit the outputs of one strip and one chunk; the last chunk may be narrower."""
        full, rest = divmod(self.out_blocks, self.chunk)

        def part(width: int, first: Expr) -> None:
            strip_of_chunk = _Part(
                self, buffers, transformed, products, slot, strip, bind(first), width, following
            )
            strip_of_chunk.multiply()
            strip_of_chunk.transform()

        select(
            chunk,
            [
                (full, lambda i: part(self.chunk, i * self.chunk)),
                (1 if rest else 0, lambda i: part(rest, full * self.chunk)),
            ],
        )


@dataclass(frozen=True)
class _Next:
    """What comes after a chunk.

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
class _Part:
    """The tiles of ``strip`` for ``width`` blocks of output channels from block ``first``.

    The transformed inputs are in ``slot``.
    """

    shape: _Emitter
    buffers: _Buffers
    transformed: Any
    products: Any
    slot: Expr
    strip: Expr
    first: Expr
    width: int
    following: _Next

    def multiply(self) -> None:
        """Emit the products at all points, summed over the input channels.

        The last strip may be narrower.
        """
        full, rest = divmod(self.shape.tiles.count, self.shape.strip)

        def tiles(count: int) -> None:
            with T.serial(self.shape.tiles.points) as point, tile_scope():
                self._multiply(point, count)

        select(
            self.strip,
            [(full, lambda _: tiles(self.shape.strip)), (1 if rest else 0, lambda _: tiles(rest))],
        )

    def _multiply(self, point: Expr, count: int) -> None:
        """Emit the product of ``count`` tiles by this part's weights at one point."""
        shape, width, lanes = self.shape, self.width, self.shape.lanes
        channels = shape.conv.channels
        registers = Accumulators(width * count, lanes, zeros(lanes))
        base = bind((self.first * shape.tiles.points + point * width) * channels * lanes)

        ahead = self._ahead(point)

        def step(block: Expr, c: Expr) -> None:
            def multiply_add(k: Expr, i: Expr) -> None:
                place = base + ((block * lanes + c) * width + k) * lanes
                value = splat(self.transformed[self.slot, point, block * shape.strip + i, c], lanes)
                weights = self.buffers.weights[lanes_of(place, lanes)]
                registers[k * count + i] = registers[k * count + i] + value * weights

            def fetch(k: Expr) -> None:
                later = base + ((block * lanes + c + NEAR) * width + k) * lanes
                fetch_near(self.buffers.weights, [later])

            unroll(0, width, lambda k: unroll(0, count, lambda i: multiply_add(k, i)))
            unroll(0, width, fetch)

        full, rest = divmod(channels, lanes)
        if full:

            def channel_block(block: Expr) -> None:
                if ahead:
                    ahead.step(block)
                loop(lanes, lambda c: step(block, c))

            loop(full, channel_block)
        if rest:
            loop(rest, lambda c: step(full, c))

        def store(k: Expr, i: Expr) -> None:
            place = [k, i, point, lanes_of(0, lanes)]
            T.buffer_store(self.products, registers[k * count + i], place)

        unroll(0, width, lambda k: unroll(0, count, lambda i: store(k, i)))

    def _ahead(self, point: Expr) -> Ahead | None:
        """Return this strip's share of the next chunk's weights at ``point``, None if no gain."""
        shape, lanes = self.shape, self.shape.lanes
        channels, strips = shape.conv.channels, shape.strips
        more, after = self.following.more, self.following.after
        last = after is None and shape.chunks == 1
        if shape.tiling.fused or last or strips == 1:
            return None
        steps = blocks(channels, lanes)
        share = blocks(self.width * lanes, strips)
        begin = (self.first + self.width * more) * shape.block_elements
        if after is not None:
            begin = T.Select(more > 0, begin, after)
        begin = begin + (point * (self.width * channels) + self.strip * (steps * share)) * lanes
        return Ahead(self.buffers.weights, bind(begin), share, lanes)

    def transform(self) -> None:
        """Emit the outputs of all tiles."""
        shape, vector = self.shape, lanes_of(0, self.shape.lanes)
        first = bind(self.strip * shape.strip)
        count = bind(T.min(shape.strip, shape.tiles.count - first))
        with T.serial(self.width) as k, T.serial(count) as i:
            place = shape.tiles.place(first + i)
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

        value = epilogue.apply(value, load, self.shape.lanes)
        store(self.buffers.result, value, [image, block, pixel, vector])
