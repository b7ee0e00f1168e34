# SPDX-License-Identifier: Apache-2.0
"""Register-tiled direct convolution.

A tile of registers holds ``w`` output columns x ``b`` blocks of output channels. Each step of the
reduction (input channel, row tap, column tap) loads ``b`` vectors of weights and broadcasts ``w``
input values, so the input's layout matters little to it: blocked or row-major. Padding is never
materialised: rows outside are skipped, columns outside are left out of the edge tiles' code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx.script import builder as T

from ..target import Core
from .elementwise import NOTHING, Program
from .emit import (
    Accumulators,
    ColumnTile,
    Window,
    bind,
    column_tiles,
    lanes_of,
    loop,
    rows_inside,
    select,
    splat,
    taps,
    tile_scope,
    unroll,
    zeros,
)
from .kernel import Kernel, Phase, TensorSpec
from .layout import Layout, blocks
from .plane import PlaneTiles
from .tiling import RegisterTile, choose_tile

Expr = Any


@dataclass(frozen=True)
class Conv2d:
    """Geometry of a convolution.

    Attributes
    ----------
    batch, channels : int
        Of the input; ``channels`` counts all groups.
    rows, columns : Window
        How the kernel slides over height and width.
    out_channels : tuple of int
        One entry a result. Several results mean several convolutions that read the same input
        through kernels of one size, merged into one (the ``merge`` strategy): the channels are
        computed side by side and each result is written where it belongs, without a copy.
    groups : int
    program : Program
        Computed on each result in registers. Of several results all arguments are per channel.
    """

    batch: int
    channels: int
    rows: Window
    columns: Window
    out_channels: tuple[int, ...]
    groups: int = 1
    program: Program = NOTHING

    @property
    def pointwise(self) -> bool:
        """Whether it is a matrix product over all pixels."""
        axes = (self.rows, self.columns)
        return all(a.kernel == 1 and a.stride == 1 and not a.padded for a in axes)


def conv2d_kernel(conv: Conv2d, in_layout: Layout, out_layout: Layout, core: Core) -> Kernel:
    """The kernel of a convolution.

    Inputs are the feature map in ``in_layout`` (row-major or blocked), the weights as
    :func:`~tvm_ios.kernels.layout.pack_weights` leaves them (of all results one after another) and
    the program's arguments in ``out_layout``, per-channel ones of all results in one tensor.
    Outputs are the results in ``out_layout``, which is blocked by ``core.lanes``.
    """
    emitter = _ConvEmitter(conv, in_layout, out_layout, core)
    return Kernel(
        name="conv2d_pointwise" if conv.pointwise else "conv2d",
        key=("conv2d", conv, in_layout, out_layout, core),
        inputs=emitter.input_specs(),
        outputs=emitter.output_specs(),
        phases=(Phase(emitter.tiles, emitter.emit),),
        plane=emitter.plane(),
    )


class _ConvEmitter:
    """Emits a range of tiles; a tile is (image, chunk of channel blocks, row or column tile)."""

    def __init__(self, conv: Conv2d, source: Layout, result: Layout, core: Core) -> None:
        assert result.block == core.lanes, "an output block is one vector"
        self.conv, self.source, self.result = conv, source, result
        self.lanes = core.lanes
        self.in_block = source.block or 1
        self.group_channels = conv.channels // conv.groups
        self.result_blocks = [blocks(k, self.lanes) for k in conv.out_channels]
        self.rows, self.columns = conv.rows, conv.columns
        if conv.pointwise:
            pixels = self.rows.out * self.columns.out
            self.rows, self.columns = Window(1, 1, 1), Window(pixels, pixels, 1)
        group_blocks = sum(self.result_blocks) // conv.groups
        self.tile: RegisterTile = choose_tile(core, self.columns.out, group_blocks)
        if group_blocks % self.tile.blocks and conv.groups > 1:
            self.tile = RegisterTile(self.tile.columns, 1)
        self.chunks = blocks(sum(self.result_blocks), self.tile.blocks)
        per_plane = blocks(self.columns.out, self.tile.columns) if conv.pointwise else self.rows.out
        self.plane_tiles = per_plane
        self.tiles = conv.batch * self.chunks * per_plane

    def plane(self) -> PlaneTiles:
        conv = self.conv
        outer, pixels = conv.batch * self.chunks, conv.rows.out * conv.columns.out
        if conv.pointwise:
            return PlaneTiles(outer, self.plane_tiles, self.tile.columns, pixels)
        rows, width = conv.rows, conv.columns.out
        return PlaneTiles(outer, rows.out, width, pixels, rows, conv.columns.size)

    def input_specs(self) -> tuple[TensorSpec, ...]:
        conv = self.conv
        image = (conv.batch, conv.channels, conv.rows.size, conv.columns.size)
        weights = (
            sum(self.result_blocks),
            blocks(self.group_channels, self.in_block),
            conv.rows.kernel,
            conv.columns.kernel,
            self.in_block,
            self.lanes,
        )
        channels = sum(self.result_blocks) * self.lanes
        shapes = {
            "channel": (1, channels, 1, 1),
            "full": (conv.batch, channels, conv.rows.out, conv.columns.out),
        }
        arguments = [self.result.spec(shapes[kind]) for kind in conv.program.arguments]
        return (self.source.spec(image), TensorSpec(weights), *arguments)

    def output_specs(self) -> tuple[TensorSpec, ...]:
        conv = self.conv
        size = (conv.rows.out, conv.columns.out)
        return tuple(self.result.spec((conv.batch, k, *size)) for k in conv.out_channels)

    def emit(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        count = 2 + len(self.conv.program.arguments)
        bound = _Buffers(buffers[0], buffers[1], buffers[2:count], buffers[count:])
        full, rest = divmod(sum(self.result_blocks), self.tile.blocks)

        with T.serial(begin, begin + extent) as t:
            place = bind(t % self.plane_tiles)
            chunk = bind((t // self.plane_tiles) % self.chunks)
            image = bind(t // (self.plane_tiles * self.chunks))

            def channels(width: int, first: Expr) -> None:
                self._emit_place(bound, image, bind(first), width, place)

            step = self.tile.blocks
            select(
                chunk,
                [
                    (full, lambda i: channels(step, i * step)),
                    (1 if rest else 0, lambda i: channels(rest, full * step)),
                ],
            )

    def _emit_place(self, buffers: _Buffers, image: Expr, block: Expr, b: int, place: Expr) -> None:
        """All columns of one row, or one column tile of a pointwise convolution."""
        if not self.conv.pointwise:
            tile = _Tile(self, buffers, image, block, b, place)
            column_tiles(self.columns, self.tile.columns, tile.emit)
            return
        width = self.tile.columns
        full, rest = divmod(self.columns.out, width)
        tile = _Tile(self, buffers, image, block, b, 0)
        select(
            place,
            [
                (full, lambda i: tile.emit(i * width, ColumnTile(width))),
                (1 if rest else 0, lambda i: tile.emit(full * width, ColumnTile(rest))),
            ],
        )


@dataclass(frozen=True)
class _Buffers:
    image: Any
    weights: Any
    arguments: Sequence[Any]
    results: Sequence[Any]


@dataclass(frozen=True)
class _Tile:
    """One tile of registers: ``b`` blocks from ``block``, columns of output row ``row``."""

    conv: _ConvEmitter
    buffers: _Buffers
    image: Expr
    block: Expr
    b: int
    row: Expr

    def emit(self, first: Expr, tile: ColumnTile) -> None:
        with tile_scope():
            lanes = self.conv.lanes
            registers = Accumulators(self.b * tile.width, lanes, zeros(lanes))
            self._reduce(registers, first, tile)
            self._store(registers, first, tile.width)

    def _reduce(self, registers: Accumulators, first: Expr, tile: ColumnTile) -> None:
        """Sum over input channels and taps."""
        full, rest = divmod(self.conv.group_channels, self.conv.in_block)

        def channel_block(index: Expr, channels: int) -> None:
            def step(r: Expr, row: Expr, s: Expr) -> None:
                loop(channels, lambda c: self._step(registers, first, tile, index, r, row, s, c))

            rows_inside(
                self.conv.rows,
                self.row,
                lambda r, row: taps(self.conv.columns, tile, lambda s: step(r, row, s)),
            )

        if full:
            loop(full, lambda index: channel_block(index, self.conv.in_block))
        if rest:
            channel_block(full, rest)

    def _step(
        self,
        registers: Accumulators,
        first: Expr,
        tile: ColumnTile,
        index: Expr,
        r: Expr,
        row: Expr,
        s: Expr,
        c: Expr,
    ) -> None:
        """Multiply-adds of one input channel and one tap."""
        conv, vector = self.conv, lanes_of(0, self.conv.lanes)

        def multiply_add(j: Expr, k: Expr) -> None:
            column = conv.columns.position(first + j, s)
            value = splat(self._load(index, c, row, column), conv.lanes)
            i = k * tile.width + j
            weights = self.buffers.weights[self.block + k, index, r, s, c, vector]
            registers[i] = registers[i] + value * weights

        begin, end = tile.columns(s)
        unroll(0, self.b, lambda k: unroll(begin, end, lambda j: multiply_add(j, k)))

    def _load(self, index: Expr, c: Expr, row: Expr, column: Expr) -> Expr:
        """The input value of channel ``c`` of block ``index`` of this tile's group."""
        conv = self.conv
        if conv.conv.groups > 1:
            group_blocks = sum(conv.result_blocks) // conv.conv.groups
            index = (self.block // group_blocks) * (conv.group_channels // conv.in_block) + index
        width = conv.columns.size
        if conv.source.block:
            return self.buffers.image[self.image, index, row * width + column, c]
        if conv.conv.pointwise:
            original = conv.conv.columns.size
            return self.buffers.image[self.image, index, column // original, column % original]
        return self.buffers.image[self.image, index, row, column]

    def _store(self, registers: Accumulators, first: Expr, width: int) -> None:
        """Apply the program and write each block to the result that it belongs to."""

        def block(k: Expr) -> None:
            def write(result: int, local: Expr) -> None:
                unroll(
                    0, width, lambda j: self._write(registers, first, width, k, j, result, local)
                )

            counts = self.conv.result_blocks
            select(
                self.block + k,
                [(n, lambda local, i=i: write(i, local)) for i, n in enumerate(counts)],
            )

        unroll(0, self.b, block)

    def _write(
        self,
        registers: Accumulators,
        first: Expr,
        width: int,
        k: Expr,
        j: Expr,
        result: int,
        local: Expr,
    ) -> None:
        lanes, program = self.conv.lanes, self.conv.conv.program
        vector = lanes_of(0, lanes)
        pixel = self.row * self.conv.columns.out + first + j

        def load(a: int) -> Expr:
            if program.arguments[a] == "channel":
                return self.buffers.arguments[a][0, self.block + k, 0, vector]
            return self.buffers.arguments[a][self.image, self.block + k, pixel, vector]

        value = program.apply(registers[k * width + j], load, lanes)
        T.buffer_store(self.buffers.results[result], value, [self.image, local, pixel, vector])
