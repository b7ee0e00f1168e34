# SPDX-License-Identifier: Apache-2.0
"""Normalisation of groups of channels of a blocked feature map.

The mean and the squared distances from it are computed for each channel of a chunk of pixels, which
is in L1 when it is read the second time. The mean and the variance of a group follow from those of
its channels (Chan, Golub and LeVeque, *Updating Formulae and a Pairwise Algorithm for Computing
Sample Variances*, 1979). No precision is lost in a difference of large sums, and a group may begin
anywhere in a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from .....ops.epilogue import NOTHING, Epilogue
from .....ops.tensor import TensorSpec
from .....ops.tir_function import tile_scope
from .....sizes.arithmetic import ceil_div
from .....sizes.size import AnySize
from ...core import Core
from ...isa.emit import bind, lanes_of, loop, select, splat
from ...isa.epilogue import apply_epilogue
from ...isa.functions import keep, register
from ...isa.storage import store
from ..kernel import Kernel, phase
from ..layout import Layout, blocks
from ..rows.scan import add_vectors
from .norm import argument_loader, tensors

Expr = Any

_COMBINE_WORK = 0.02


@dataclass(frozen=True)
class GroupNorm:
    """A normalisation of groups of neighbouring channels, followed by an epilogue.

    It computes ``(x - mean) / sqrt(variance + epsilon) * gamma + beta``, with the mean and the
    variance of all pixels of a group's channels, and a gamma and a beta for each channel.
    """

    batch: AnySize
    channels: int
    pixels: AnySize
    groups: int
    epsilon: float
    epilogue: Epilogue = NOTHING


def group_norm_kernel(norm: GroupNorm, layout: Layout, core: Core) -> Kernel:
    """Return the kernel of a group normalisation.

    Parameters
    ----------
    norm : GroupNorm
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
    emitter = _GroupNormEmitter(norm, layout, core)
    inputs, result = tensors(norm, layout)
    return Kernel(
        name="group_norm",
        key=("group_norm", norm, layout, core),
        inputs=inputs,
        outputs=(result,),
        scratch=emitter.scratch(),
        phases=(
            phase(emitter.num_tiles, emitter.measure),
            phase(norm.batch * norm.groups, emitter.combine, work=_COMBINE_WORK),
            phase(emitter.num_tiles, emitter.normalise),
        ),
        order="channels",
        narrows=True,
    )


class _GroupNormEmitter:
    """The phases; a tile is a chunk of the pixels of one block of channels, or a group.

    The scratch tensors hold means and squared distances of chunks, and what a channel is moved and
    multiplied by.
    """

    def __init__(self, norm: GroupNorm, layout: Layout, core: Core) -> None:
        assert layout.block == core.lanes, "a block of channels is one vector"
        self.norm, self.lanes = norm, core.lanes
        self.blocks = blocks(norm.channels, core.lanes)
        most = core.l1_bytes // 2 // (4 * core.lanes)
        pixels = norm.pixels
        known = isinstance(pixels, int)
        self.chunk = blocks(pixels, blocks(pixels, most)) if known else most
        self.full_chunks: Any = pixels // self.chunk
        self.rest: Any = pixels % self.chunk
        self.chunks = ceil_div(pixels, self.chunk)
        self.num_tiles = norm.batch * self.blocks * self.chunks

    def scratch(self) -> tuple[TensorSpec, ...]:
        chunks = TensorSpec((self.norm.batch, self.blocks, self.chunks, 2, self.lanes))
        return chunks, TensorSpec((self.norm.batch, self.blocks, 2, self.lanes))

    def measure(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        """Emit the mean and the squared distances of chunks."""
        source, chunks, vector = buffers[0], buffers[-2], lanes_of(0, self.lanes)

        def tile(image: Expr, block: Expr, chunk: Expr, first: Expr, count: int) -> None:
            def load(pixel: Expr) -> Expr:
                return source[image, block, first + pixel, vector]

            def squared(pixel: Expr) -> Expr:
                distance = keep(load(pixel) - mean)
                return distance * distance

            share = splat(_inverse(count), self.lanes)
            mean = keep(add_vectors(count, self.lanes, load) * share)
            squares = add_vectors(count, self.lanes, squared)
            for i, value in enumerate((mean, squares)):
                T.buffer_store(chunks, value, [image, block, chunk, i, vector])

        self._each(begin, extent, tile)

    def combine(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        """Emit the mean of groups, and the factor of each of their channels."""
        norm, gamma, factors = self.norm, buffers[1], buffers[-1]
        per_group = norm.channels // norm.groups
        share = _inverse(per_group * norm.pixels)
        with T.serial(begin, begin + extent) as t, tile_scope():
            image, group = t // norm.groups, t % norm.groups
            channels = _Channels(self, buffers[-2], image, group * per_group, per_group)
            mean = keep(channels.add(lambda mean, _, count: mean * _number(count)) * share)

            def squared(own: Expr, squares: Expr, count: int) -> Expr:
                distance = keep(own - mean)
                return squares + distance * distance * _number(count)

            variance = channels.add(squared) * share
            scale = keep(T.float32(1) / tirx.sqrt(variance + T.float32(norm.epsilon)))
            with T.serial(per_group) as i:
                channel = group * per_group + i
                block, lane = channel // self.lanes, channel % self.lanes
                T.buffer_store(factors, mean, [image, block, 0, lane])
                value = scale * gamma[0, block, 0, lane]
                T.buffer_store(factors, value, [image, block, 1, lane])

    def normalise(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        """Emit the results of chunks."""
        epilogue, vector = self.norm.epilogue, lanes_of(0, self.lanes)
        source, _, beta = buffers[:3]
        arguments = buffers[3 : 3 + len(epilogue.arguments)]
        result, factors = buffers[3 + len(epilogue.arguments)], buffers[-1]

        def tile(image: Expr, block: Expr, _: Expr, first: Expr, count: int) -> None:
            mean, scale = (keep(factors[image, block, i, vector]) for i in range(2))
            shift = keep(beta[0, block, 0, vector])

            def pixel(number: Expr) -> None:
                place = (image, block, first + number, vector)
                load = argument_loader(epilogue, arguments, place)
                with tile_scope():
                    value = (source[place] - mean) * scale + shift
                    store(result, apply_epilogue(epilogue, value, load, self.lanes), place)

            loop(count, pixel)

        self._each(begin, extent, tile)

    def each_chunk(self, body: Callable[[Expr, Expr], None]) -> None:
        """Emit ``body(chunk, pixels)`` for all chunks of a channel."""
        if not isinstance(self.chunks, int):
            loop(self.chunks, lambda chunk: body(chunk, self._count(chunk)))
            return
        if self.full_chunks:
            loop(self.full_chunks, lambda chunk: body(chunk, self.chunk))
        if self.rest:
            body(self.full_chunks, self.rest)

    def _count(self, chunk: Expr) -> Expr:
        """Return the pixels of a chunk of an open number."""
        return bind(T.min(self.chunk, self.norm.pixels - chunk * self.chunk))

    def _each(self, begin: Expr, extent: Expr, tile: Callable[..., None]) -> None:
        """Emit ``tile(image, block, chunk, first_pixel, pixels)`` for a range of tiles."""
        with T.serial(begin, begin + extent) as t, tile_scope():
            chunk = bind(t % self.chunks)
            block = bind(t // self.chunks % self.blocks)
            image = bind(t // (self.chunks * self.blocks))

            def emit(count: int) -> Callable[[Expr], None]:
                return lambda _: tile(image, block, chunk, chunk * self.chunk, count)

            if not isinstance(self.chunks, int):
                tile(image, block, chunk, bind(chunk * self.chunk), self._count(chunk))
                return
            rest = 1 if self.rest else 0
            select(chunk, [(self.full_chunks, emit(self.chunk)), (rest, emit(self.rest))])


def _number(count: Expr) -> Expr:
    return T.float32(count) if isinstance(count, int) else T.cast(count, "float32")


def _inverse(count: Expr) -> Expr:
    return T.float32(1.0 / count) if isinstance(count, int) else T.float32(1) / _number(count)


@dataclass(frozen=True)
class _Channels:
    """The channels of a group: ``count`` from ``first`` on."""

    emitter: _GroupNormEmitter
    chunks: Any
    image: Expr
    first: Expr
    count: int

    def add(self, term: Callable[[Expr, Expr, int], Expr]) -> Expr:
        """Add ``term(mean, squares, pixels)`` of all chunks of the channels."""
        total = register(1)
        T.buffer_store(total, T.float32(0), [0])
        with T.serial(self.count) as i:
            channel = self.first + i
            block, lane = channel // self.emitter.lanes, channel % self.emitter.lanes

            def add(chunk: Expr, pixels: int) -> None:
                mean, squares = (self.chunks[self.image, block, chunk, k, lane] for k in range(2))
                T.buffer_store(total, total[0] + term(mean, squares, pixels), [0])

            self.emitter.each_chunk(add)
        return total[0]
