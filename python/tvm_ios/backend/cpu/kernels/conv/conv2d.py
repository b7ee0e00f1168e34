# SPDX-License-Identifier: Apache-2.0
"""Register-tiled direct convolution.

A register tile holds ``w`` output columns (MR) x ``b`` blocks of output channels (NR). Each step of
the reduction (input channel, row of taps) loads the weights of the row's taps for all blocks, then
one input value after another. Each input is broadcast and multiplied by the weights of every tap
through which some column reads it. An input is thus loaded once per row, so its layout (blocked or
row-major) matters little. Padding is never materialised: rows in the padding are skipped, and the
code of the tiles at the edges leaves out the columns in the padding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tvm.tirx.script import builder as T

from .....ops.window import Window
from ...core import Core
from ...isa import amx, bfmmla
from ...isa.emit import bind, select
from ..factors import Factors
from ..kernel import SHARES, Kernel, Weights, phase
from ..layout import Layout
from ..open_row import cover_row, open_tile
from ..plane import PlaneTiles, segment_window
from ..taps import ColumnTile, Part
from .amx import AmxTile
from .bfmmla import BfmmlaTile
from .shape import Conv2d, ConvShape
from .tile import ConvBuffers, ConvTile

Expr = Any


def conv2d_kernel(
    conv: Conv2d,
    in_layout: Layout,
    out_layout: Layout,
    core: Core,
    *,
    factors: Factors = "single",
    low: int = 0,
) -> Kernel:
    """Return the kernel of a direct convolution.

    The kernel's inputs are the feature map, the weights as :func:`.layout.pack_weights` leaves them
    (of all results one after another) and the epilogue's arguments. Per-channel arguments of all
    results are one tensor.

    For bf16 dot2, weights are packed by :func:`.layout.pack_bf16_dot2`, and for int8 dot4 by
    :func:`.layout.pack_int8_dot4`. Sums of bytes are the anchor's result as they are: a factor of
    the grids belongs to the epilogue. If the lowest value of the feature map is not zero, the third
    input is what :func:`.layout.pack_lowest` returns.

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
    factors : Factors
        What is multiplied. A feature map in reduced precision is blocked.
    low : int
        The lowest value of a feature map of bytes.

    Returns
    -------
    Kernel
        A kernel of one phase with one output per result.
    """
    emitter = ConvEmitter(conv, in_layout, out_layout, core, factors=factors, low=low)
    tiles = phase(
        emitter.num_tiles,
        emitter.emit,
        weights=emitter.weights(),
        sources=emitter.tile_type.sources(emitter),
    )
    return Kernel(
        name="conv2d_pointwise" if conv.pointwise else "conv2d",
        key=("conv2d", conv, in_layout, out_layout, core, factors, low),
        inputs=emitter.input_specs(),
        outputs=emitter.output_specs(),
        phases=(tiles,),
        plane=None if conv.is_open else emitter.plane(),
        order="channels" if conv.is_open else None,
        narrows=True,
    )


Place = Callable[[Expr, Expr, int, Expr, Expr], None]
"""``place(image, block, b, place, next_block)`` emits one tile: row or column tile ``place`` of
``b`` blocks of channels from ``block``. The next chunk begins with block ``next_block``."""


_TILES: dict[str | None, type[ConvTile]] = {
    None: ConvTile,
    amx.PRODUCTS: AmxTile,
    bfmmla.PRODUCTS: BfmmlaTile,
}
"""The register tiles of the tile-matmul instructions."""


class ConvEmitter(ConvShape):
    """The code of a convolution; a tile is (image, chunk of channel blocks, row or column tile)."""

    @property
    def tile_type(self) -> type[ConvTile]:
        """The register tiles that the core has for what is multiplied."""
        return _TILES[self.tile_matmul]

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
            return reads(self.plane_tiles, self.tile.mr, pixels)
        if self.segment is not None:
            length = self.segment * self.tile.mr
            segments = segment_window(self.columns, length)
            return reads(self.plane_tiles, length, pixels, segments, 1)
        return reads(conv.rows.out, conv.columns.out, pixels, conv.rows, conv.columns.size)

    def _first_block(self, chunk: int) -> int:
        """Return the first block of a chunk; see :meth:`_emit_chunk`."""
        step = self.tile.nr
        full, rest = divmod(sum(self.result_blocks), step)
        return chunk * step - (step - rest if rest and chunk > full // 2 else 0)

    def weights(self) -> Weights:
        """Return where the weights of a tile begin."""
        block = math.prod(self.weights_shape[1:])

        def first(tile: int) -> int:
            if isinstance(self.num_tiles, int):
                chunk = tile // self.plane_tiles % self.chunks
            else:  # it is one of the shares; those of one image lie in the order of the chunks
                chunk = tile * self.chunks // SHARES
            return self._first_block(chunk) * block

        return Weights(1, first, prefetches=True)

    def emit(
        self, buffers: Sequence[Any], begin: Expr, extent: Expr, prefetch_target: Expr | None = None
    ) -> None:
        """Emit the tiles ``begin`` to ``begin + extent``.

        Parameters
        ----------
        buffers : sequence of Buffer
            Inputs, then outputs.
        begin, extent : Expr
            The range of tiles.
        prefetch_target : Expr, optional
            Where the weights begin that are needed after this range, in elements from this kernel's
            own weights.
        """
        first = 3 if self.low else 2
        count = first + len(self.conv.epilogue.arguments)
        image, weights = self.operands(buffers)
        lowest = buffers[2] if self.low else None
        bound = ConvBuffers(image, weights, buffers[first:count], buffers[count:], lowest)

        def place(image: Expr, block: Expr, b: int, place: Expr, next_block: Expr) -> None:
            row = 0 if self.by_columns else place
            tile = self.tile_type(self, bound, image, block, b, row, next_block, prefetch_target)
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
        step = self.tile.nr
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
        """Emit all columns of one row, a segment, or one column tile of a pointwise convolution.

        Parameters
        ----------
        place : Expr
            Index of the segment, or of the column tile of a pointwise convolution; otherwise not
            read.
        emit : callable
            ``emit(first, tile)`` emits the columns of ``tile`` from column ``first``.
        others : sequence of Window
            Windows of further inputs that are read by the same tiles.
        """
        width = self.tile.mr
        if not self.flat:
            part = None if self.segment is None else Part(bind(place * self.segment), self.segment)
            guards = self.tile_matmul is None
            cover_row(self.columns, width, emit, others, part=part, guards=guards)
            return
        if self.conv.is_open:
            open_tile(self.columns, width, place, emit)
            return
        full, rest = divmod(self.columns.out, width)
        select(
            place,
            [
                (full, lambda i: emit(i * width, ColumnTile(width))),
                (1 if rest else 0, lambda i: emit(full * width, ColumnTile(rest))),
            ],
        )
