# SPDX-License-Identifier: Apache-2.0
"""Register-tiled direct convolution.

A register tile holds ``w`` output columns x ``b`` blocks of output channels. Each step of the
reduction (input channel, row of taps) loads the weights of the row's taps for all blocks, then one
input value after another. Each input is broadcast and multiplied by the weights of every tap
through which some column reads it. An input is thus loaded once per row, so its layout (blocked or
row-major) matters little. Padding is never materialised: rows in the padding are skipped, and the
code of the tiles at the edges leaves out the columns in the padding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm.tirx.script import builder as T

from ....target import Core
from ....tir.emit import (
    Accumulators,
    bind,
    lanes_of,
    loop,
    select,
    splat,
    tile_scope,
    unroll,
    zeros,
)
from ....tir.epilogue import NOTHING, Epilogue
from ....tir.tensor import TensorSpec
from ....tir.window import Window
from .kernel import Kernel, Phase, Weights
from .layout import Layout, blocks
from .plane import PlaneTiles
from .prefetch import Ahead
from .taps import ColumnTile, add_taps, column_tiles, rows_inside, tap_groups
from .tiling import RegisterTile, choose_tile

Expr = Any


@dataclass(frozen=True)
class Conv2d:
    """The geometry of a convolution.

    Attributes
    ----------
    batch, channels : int
        Images and channels of the input; ``channels`` counts all groups.
    rows, columns : Window
        How the kernel slides over height and width.
    out_channels : tuple of int
        Output channels of each result. Several results stand for several convolutions that read the
        same input through kernels of one size and are merged into one (the ``merge`` strategy).
        Their channels are computed side by side, and each result is written to its own tensor
        without a copy.
    groups : int
    epilogue : Epilogue
        The epilogue, computed on each result in registers. With several results, all its arguments
        are per channel.
    """

    batch: int
    channels: int
    rows: Window
    columns: Window
    out_channels: tuple[int, ...]
    groups: int = 1
    epilogue: Epilogue = NOTHING

    @property
    def pointwise(self) -> bool:
        """Whether the convolution is a matrix product over all pixels."""
        axes = (self.rows, self.columns)
        return all(a.kernel == 1 and a.stride == 1 and not a.padded for a in axes)


def conv2d_kernel(conv: Conv2d, in_layout: Layout, out_layout: Layout, core: Core) -> Kernel:
    """Return the kernel of a direct convolution.

    The kernel's inputs are the feature map, the weights as :func:`.layout.pack_weights` leaves them
    (of all results one after another) and the epilogue's arguments. Per-channel arguments of all
    results are one tensor.

    Parameters
    ----------
    conv : Conv2d
        The convolution.
    in_layout : Layout
        Layout of the feature map, row-major or blocked.
    out_layout : Layout
        Layout of the results and of the epilogue's arguments, blocked by ``core.lanes``.
    core : Core
        The core that runs the kernel.

    Returns
    -------
    Kernel
        A kernel of one phase with one output per result.
    """
    emitter = ConvEmitter(conv, in_layout, out_layout, core)
    return Kernel(
        name="conv2d_pointwise" if conv.pointwise else "conv2d",
        key=("conv2d", conv, in_layout, out_layout, core),
        inputs=emitter.input_specs(),
        outputs=emitter.output_specs(),
        phases=(Phase(emitter.tiles, emitter.emit, weights=emitter.weights()),),
        plane=emitter.plane(),
    )


Place = Callable[[Expr, Expr, int, Expr, Expr], None]
"""``place(image, block, b, place, following)`` emits one tile: row or column tile ``place`` of
``b`` blocks of channels from ``block``. The next chunk begins with block ``following``."""


class ConvEmitter:
    """The code of a convolution; a tile is (image, chunk of channel blocks, row or column tile).

    A convolution that shares its tiles with others takes ``tile`` from the caller, and ``flat`` if
    all of them are pointwise: only then do the pixels of a plane form one row.
    """

    def __init__(
        self,
        conv: Conv2d,
        source: Layout,
        result: Layout,
        core: Core,
        *,
        flat: bool | None = None,
        tile: RegisterTile | None = None,
    ) -> None:
        assert result.block == core.lanes, "an output block is one vector"
        self.conv, self.source, self.result = conv, source, result
        self.lanes = core.lanes
        self.in_block = source.block or 1
        self.group_channels = conv.channels // conv.groups
        self.result_blocks = [blocks(k, self.lanes) for k in conv.out_channels]
        self.rows, self.columns = conv.rows, conv.columns
        self.flat = conv.pointwise if flat is None else flat
        if self.flat:
            pixels = self.rows.out * self.columns.out
            self.rows, self.columns = Window(1, 1, 1), Window(pixels, pixels, 1)
        self.group_blocks = sum(self.result_blocks) // conv.groups
        self.tile = tile or self._choose_tile(core)
        self.taps = tap_groups(core, self.columns)
        self.far_weights = self.input_specs()[1].num_bytes > core.l1_bytes
        self.chunks = blocks(sum(self.result_blocks), self.tile.blocks)
        per_plane = blocks(self.columns.out, self.tile.columns) if self.flat else self.rows.out
        self.plane_tiles = per_plane
        self.tiles = conv.batch * self.chunks * per_plane

    def _choose_tile(self, core: Core) -> RegisterTile:
        """Choose the register tile for the weights of one chunk."""
        block_bytes = math.prod(self.input_specs()[1].shape[1:]) * 4
        return choose_tile(
            core,
            self.columns.out,
            self.group_blocks,
            window=self.columns,
            block_bytes=block_bytes,
            equal=self.conv.groups > 1,
        )

    def plane(self) -> PlaneTiles:
        """Return how the tiles cover the result."""
        conv = self.conv
        outer, pixels = conv.batch * self.chunks, conv.rows.out * conv.columns.out
        reads = partial(
            PlaneTiles,
            outer,
            mixes=conv.groups == 1,
            images=conv.batch,
            blocks=(*map(self._first_block, range(self.chunks)), sum(self.result_blocks)),
        )
        if self.flat:
            return reads(self.plane_tiles, self.tile.columns, pixels)
        return reads(conv.rows.out, conv.columns.out, pixels, conv.rows, conv.columns.size)

    def _first_block(self, chunk: int) -> int:
        """Return the first block of a chunk; see :meth:`_emit_chunk`."""
        step = self.tile.blocks
        full, rest = divmod(sum(self.result_blocks), step)
        return chunk * step - (step - rest if rest and chunk > full // 2 else 0)

    def input_specs(self) -> tuple[TensorSpec, ...]:
        """Return the feature map, the packed weights and the epilogue's arguments."""
        conv = self.conv
        image = (conv.batch, conv.channels, conv.rows.size, conv.columns.size)
        weights = (
            sum(self.result_blocks),
            blocks(self.group_channels, self.in_block),
            conv.rows.kernel,
            self.in_block,
            conv.columns.kernel,
            self.lanes,
        )
        channels = sum(self.result_blocks) * self.lanes
        shapes = {
            "channel": (1, channels, 1, 1),
            "full": (conv.batch, channels, conv.rows.out, conv.columns.out),
        }
        arguments = [self.result.spec(shapes[kind]) for kind in conv.epilogue.arguments]
        return (self.source.spec(image), TensorSpec(weights), *arguments)

    def output_specs(self) -> tuple[TensorSpec, ...]:
        """Return the results."""
        conv = self.conv
        size = (conv.rows.out, conv.columns.out)
        return tuple(self.result.spec((conv.batch, k, *size)) for k in conv.out_channels)

    def weights(self) -> Weights:
        """Return where the weights of a tile begin."""
        block = math.prod(self.input_specs()[1].shape[1:])

        def first(tile: int) -> int:
            return self._first_block(tile // self.plane_tiles % self.chunks) * block

        return Weights(1, first, prefetches=True)

    def emit(
        self, buffers: Sequence[Any], begin: Expr, extent: Expr, following: Expr | None = None
    ) -> None:
        """Emit the tiles ``begin`` to ``begin + extent``.

        Parameters
        ----------
        buffers : sequence of Buffer
            Inputs, then outputs.
        begin, extent : Expr
            The range of tiles.
        following : Expr, optional
            Where the weights begin that are needed after this range, in elements from this kernel's
            own weights.
        """
        count = 2 + len(self.conv.epilogue.arguments)
        bound = ConvBuffers(buffers[0], buffers[1], buffers[2:count], buffers[count:])

        def place(image: Expr, block: Expr, b: int, place: Expr, next_block: Expr) -> None:
            row = 0 if self.flat else place
            tile = ConvTile(self, bound, image, block, b, row, next_block, following)
            self.emit_columns(place, tile.emit)

        self.emit_tiles(begin, extent, place)

    def emit_tiles(self, begin: Expr, extent: Expr, emit: Place) -> None:
        """Call ``emit`` for each tile from ``begin`` to ``begin + extent``.

        Parameters
        ----------
        begin, extent : Expr
            The range of tiles.
        emit : Place
            Emits one tile.
        """
        with T.serial(begin, begin + extent) as t:
            place = bind(t % self.plane_tiles)
            chunk = bind((t // self.plane_tiles) % self.chunks)
            image = bind(t // (self.plane_tiles * self.chunks))
            more = bind(T.Select(t - place + self.plane_tiles < begin + extent, 1, 0))

            def chunk_at(block: Expr, b: int) -> None:
                block = bind(block)
                emit(image, block, b, place, bind(block + b * more))

            self._emit_chunk(chunk, chunk_at)

    def _emit_chunk(self, chunk: Expr, body: Callable[[Expr, int], None]) -> None:
        """Call ``body(first_block, b)`` for a chunk; a narrower chunk lies in the middle.

        Workers divide the tiles evenly by number. With the narrower chunk in the middle, the work
        is divided evenly, too.
        """
        step = self.tile.blocks
        full, rest = divmod(sum(self.result_blocks), step)
        if not rest:
            body(chunk * step, step)
            return
        before = full // 2
        with T.If(chunk == before):
            with T.Then():
                body(before * step, rest)
            with T.Else():
                body(chunk * step - T.Select(chunk > before, step - rest, 0), step)

    def emit_columns(
        self,
        place: Expr,
        emit: Callable[[Expr, ColumnTile], None],
        others: Sequence[Window] = (),
    ) -> None:
        """Emit all columns of one row, or one column tile of a pointwise convolution.

        Parameters
        ----------
        place : Expr
            Index of the column tile of a pointwise convolution; otherwise not read.
        emit : callable
            ``emit(first, tile)`` emits the columns of ``tile`` from column ``first``.
        others : sequence of Window
            Windows of further inputs that are read by the same tiles.
        """
        width = self.tile.columns
        if not self.flat:
            column_tiles(self.columns, width, emit, others)
            return
        full, rest = divmod(self.columns.out, width)
        select(
            place,
            [
                (full, lambda i: emit(i * width, ColumnTile(width))),
                (1 if rest else 0, lambda i: emit(full * width, ColumnTile(rest))),
            ],
        )


@dataclass(frozen=True)
class ConvBuffers:
    """The tensors of a convolution."""

    image: Any
    weights: Any
    arguments: Sequence[Any]
    results: Sequence[Any]


@dataclass(frozen=True)
class ConvTile:
    """One register tile: ``b`` blocks from ``block``, columns of output row ``row``.

    While it is computed, it prefetches the weights of the chunk that begins with block
    ``following``, or after the last chunk those that begin at element ``after``, if it is known.
    """

    conv: ConvEmitter
    buffers: ConvBuffers
    image: Expr
    block: Expr
    b: int
    row: Expr
    following: Expr
    after: Expr | None = None

    def emit(self, first: Expr, tile: ColumnTile) -> None:
        """Emit the columns of ``tile`` from column ``first``: the reduction, then the stores."""
        lanes = self.conv.lanes
        with tile_scope():
            registers = [Accumulators(tile.width, lanes, zeros(lanes)) for _ in range(self.b)]
            self.reduce(registers, first, tile)
            self.store(registers, first, tile.width)

    def reduce(self, registers: Sequence[Accumulators], first: Expr, tile: ColumnTile) -> None:
        """Emit the sums over input channels and taps.

        Parameters
        ----------
        registers : sequence of Accumulators
            The sums, one set per block of output channels.
        first : Expr
            The first column.
        tile : ColumnTile
            The columns and how they read the input.
        """
        conv = self.conv
        begin = bind(conv.columns.position(first, 0))
        ahead = self._ahead(first)

        def channel_block(index: Expr) -> None:
            left = conv.group_channels - index * conv.in_block
            channels = left if isinstance(left, int) else bind(T.min(conv.in_block, left))

            def row_of_taps(r: Expr, row: Expr) -> None:
                if ahead:
                    ahead.step(index * conv.rows.kernel + r)
                for taps in conv.taps:
                    loop(channels, partial(step, r, row, taps))

            def step(r: Expr, row: Expr, taps: range, c: Expr) -> None:
                add_taps(
                    conv.columns,
                    tile,
                    taps,
                    registers,
                    lambda distance: self._input(index, c, row, begin + distance),
                    lambda k, tap: self._weight(k, index, r, c, tap),
                )

            rows_inside(conv.rows, self.row, row_of_taps)

        loop(blocks(conv.group_channels, conv.in_block), channel_block)

    def _ahead(self, first: Expr) -> Ahead | None:
        """Return this tile's share of the next chunk's weights, None if there is no gain."""
        conv, lanes = self.conv, self.conv.lanes
        steps = blocks(conv.group_channels, conv.in_block) * conv.rows.kernel
        per_row = blocks(conv.columns.out, conv.tile.columns)
        tiles = conv.rows.out * per_row
        block = math.prod(conv.input_specs()[1].shape[1:-1])
        last = self.after is None and conv.chunks == 1
        if last or tiles == 1 or not conv.far_weights:
            return None
        share = blocks(conv.tile.blocks * block, tiles * steps)
        tile = self.row * per_row + first // conv.tile.columns
        begin = self.following * (block * lanes)
        if self.after is not None:
            begin = T.Select(self.following == self.block, self.after, begin)
        begin = begin + tile * (steps * share * lanes)
        return Ahead(self.buffers.weights, bind(begin), share, lanes)

    def _weight(self, k: int, index: Expr, r: Expr, c: Expr, tap: int) -> Expr:
        """Return the weights of block ``k`` of this tile for channel ``c`` of block ``index``."""
        vector = lanes_of(0, self.conv.lanes)
        return self.buffers.weights[self.block + k, index, r, c, tap, vector]

    def _input(self, index: Expr, c: Expr, row: Expr, column: Expr) -> Expr:
        """Return the input of channel ``c`` of block ``index`` of this group, in all lanes."""
        conv, image = self.conv, self.buffers.image
        if conv.conv.groups > 1:
            group = self.block // conv.group_blocks
            index = group * (conv.group_channels // conv.in_block) + index
        if conv.source.block:
            value = image[self.image, index, row * conv.columns.size + column, c]
        elif conv.flat:
            width = conv.conv.columns.size
            value = image[self.image, index, column // width, column % width]
        else:
            value = image[self.image, index, row, column]
        return splat(value, conv.lanes)

    def store(self, registers: Sequence[Accumulators], first: Expr, width: int) -> None:
        """Apply the epilogue and write each block to its result.

        Parameters
        ----------
        registers : sequence of Accumulators
            The sums, one set per block of output channels.
        first : Expr
            The first column.
        width : int
            Number of columns.
        """

        def block(k: int, sums: Accumulators) -> None:
            def write(result: int, local: Expr) -> None:
                unroll(0, width, lambda j: self._write(sums[j], first + j, k, result, local))

            counts = self.conv.result_blocks
            select(
                self.block + k,
                [(n, partial(write, i)) for i, n in enumerate(counts)],
            )

        for k, sums in enumerate(registers):
            block(k, sums)

    def _write(self, value: Expr, column: Expr, k: int, result: int, local: Expr) -> None:
        """Write one vector of block ``k``, which is block ``local`` of ``result``."""
        lanes, epilogue = self.conv.lanes, self.conv.conv.epilogue
        vector = lanes_of(0, lanes)
        pixel = self.row * self.conv.columns.out + column

        def load(a: int) -> Expr:
            if epilogue.arguments[a] == "channel":
                return self.buffers.arguments[a][0, self.block + k, 0, vector]
            return self.buffers.arguments[a][self.image, self.block + k, pixel, vector]

        place = [self.image, local, pixel, vector]
        T.buffer_store(self.buffers.results[result], epilogue.apply(value, load, lanes), place)
