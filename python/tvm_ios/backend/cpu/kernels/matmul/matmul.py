# SPDX-License-Identifier: Apache-2.0
"""Register-tiled matrix products ``[M, K] x [K, N]`` of row-major matrices.

Vectors of the right matrix and of the result lie along ``N``. Constant weights are packed at
compile time so that ``b`` neighbouring columns lie together, as the output channels of a
convolution do. A computed right matrix is read in place, unless it is so deep that its rows lie in
more pages than the TLB holds. Such a matrix is packed in a phase of its own.

Where the left side and a chunk of weights do not fit into L2 together, the left side comes from
memory for every chunk. With few rows the weights come from there nearly as often, and together they
take more time than the multiplications. The depth is then divided into *k-blocks* of KC whose parts
fit. The sums of a k-block are kept in the result until the next k-block adds to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx.script import builder as T

from .....lowering.product import Matmul
from .....ops.tensor import TensorSpec
from .....sizes.size import hint_of
from ...core import Core
from ...isa import amx, bfmmla
from ...isa.emit import bind, loop, select
from ...isa.masked import masked_source
from ..factors import Factors
from ..kernel import SHARES, Kernel, Phase, Weights, phase
from ..plane import PlaneTiles
from ..row_tiles import cover_rows, number
from .amx import AmxTile
from .bfmmla import BfmmlaTile
from .open_columns import OpenColumnsTile, emit_open_columns
from .packing import PACK_WORK, Packing
from .shape import MatmulShape
from .tile import Columns, MatmulTile

Expr = Any


def matmul_kernel(
    matmul: Matmul, core: Core, factors: Factors = "single", low: bool = False
) -> Kernel:
    """Return the kernel of a matrix product.

    Its inputs are the left and the right side and the epilogue's arguments. If there are several
    results, the right side and the arguments are packed by
    :func:`.matmul_packing.pack_side_by_side`. A step of the depth multiplies ``factors``, which the
    tensors of both sides consist of. If there is a ``low``, the third input is what the sums of
    each column begin with, int32 ``[ceil(N / lanes), lanes]``.
    """
    m, emitter = matmul, _MatmulEmitter(matmul, core, factors, low)
    assert not m.results or (m.weights and m.batch == 1 and sum(m.results) == m.columns)
    assert not m.results or set(m.epilogue.arguments) <= {"last"}, "one value a column"
    results = tuple(TensorSpec((m.batch, m.rows, part)) for part in m.parts)
    last = m.packed(core.lanes).shape[0] * core.lanes if m.results else m.columns
    specs = {"full": results[0], "last": TensorSpec((last,))}
    right = m.right
    begin = [TensorSpec((m.packed(core.lanes).shape[0], core.lanes), "int32")] if low else []
    scratch: tuple[TensorSpec, ...] = ()
    product = phase(
        emitter.num_tiles,
        emitter.emit,
        weights=emitter.weights(),
        sources=emitter.sources(),
    )
    phases: tuple[Phase, ...] = (product,)
    if m.weights:
        right = TensorSpec((*m.packed(core.lanes).shape[:2], emitter.vector))
    elif emitter.packs:
        pack = Packing(m, core.lanes)
        scratch = (m.packed(core.lanes),)
        work = PACK_WORK / hint_of(m.rows)
        phases = (phase(pack.num_tiles, pack.emit, work=work), *phases)
    return Kernel(
        name="matmul",
        key=("matmul", matmul, core, low),
        inputs=(m.left, right, *begin, *(specs[kind] for kind in m.epilogue.arguments)),
        outputs=results,
        scratch=scratch,
        phases=phases,
        plane=emitter.plane(),
        narrows=emitter.num_k_blocks == 1 and not emitter.open_columns,
    )


_TILES: dict[str | None, type[MatmulTile]] = {
    None: MatmulTile,
    amx.PRODUCTS: AmxTile,
    bfmmla.PRODUCTS: BfmmlaTile,
}
"""The register tiles of the tile-matmul instructions."""


class _MatmulEmitter(MatmulShape):
    """The code of a product."""

    @property
    def tile_type(self) -> type[MatmulTile]:
        """The register tiles that the core has for what is multiplied."""
        return OpenColumnsTile if self.open_columns else _TILES[self.tile_matmul]

    def sources(self) -> frozenset[str]:
        """Return the LLVM IR of the functions that the code calls."""
        masked = {masked_source(self.lanes)} if self.open_columns else set()
        return self.tile_type.sources(self) | masked

    def weights(self) -> Weights | None:
        """Return where the weights of a tile begin; None if the right side is computed.

        All chunks have as many tiles as there are groups of rows. A part of the tiles of open rows
        therefore begins in the same chunk, however many there are.
        """
        m = self.matmul
        if not m.weights or m.batch > 1:
            return None

        def first(tile: int) -> int:
            chunk = tile * self.chunks // SHARES if self.open_rows else tile // self.row_tiles
            return self._first_block(chunk) * m.depth * self.vector

        return Weights(1, first, prefetches=self.prefetches and self.num_k_blocks == 1)

    def _first_block(self, chunk: int) -> int:
        """Return the first block of columns of a chunk."""
        if chunk < self.full_chunks:
            return chunk * self.tile.nr
        rest = self.full_chunks + (self.rest_blocks > 0)
        return self.full_chunks * self.tile.nr if chunk < rest else sum(self.full) + chunk - rest

    def plane(self) -> PlaneTiles | None:
        """Return how the tiles cover the result: a row of the left side is a pixel.

        A computed right side is read as a whole, and has no plane. Neither have open rows.
        """
        m = self.matmul
        if not m.weights or self.open_rows or m.batch > 1:
            return None
        return PlaneTiles(
            self.chunks,
            self.row_tiles,
            self.tile.mr,
            m.rows,
            mixes=True,
            matrix=True,
            repeatable=self.num_k_blocks == 1,
        )

    def emit(
        self, buffers: Sequence[Any], begin: Expr, extent: Expr, prefetch_target: Expr | None = None
    ) -> None:
        """Emit the tiles ``begin`` to ``begin + extent``, k-block by k-block.

        ``prefetch_target`` is where the weights begin that are needed afterwards, if it is known.
        """
        loop(
            self.num_k_blocks,
            lambda k_block: self._emit_k_block(buffers, begin, extent, k_block, prefetch_target),
        )

    def _emit_k_block(
        self,
        buffers: Sequence[Any],
        begin: Expr,
        extent: Expr,
        k_block: Expr,
        prefetch_target: Expr | None,
    ) -> None:
        step, lanes = self.tile.nr, self.lanes
        rest = self.full_chunks * step
        with T.serial(begin, begin + extent) as t:
            place, chunk = bind(t % self.row_tiles), bind(t // self.row_tiles % self.chunks)
            more = bind(T.Select(t - place + self.row_tiles < begin + extent, 1, 0))
            matrix = bind(t // (self.row_tiles * self.chunks))
            rows = self.tile_type(self, buffers, matrix, place, more, k_block, prefetch_target)

            def columns(columns: Columns) -> None:
                if self.open_rows:
                    count = bind(number(self.matmul.rows))
                    cover_rows(count, place, self.tile.mr, lambda i, h: rows.emit(i, h, columns))
                    return
                full, last = divmod(self.matmul.rows, self.tile.mr)
                height = self.tile.mr
                select(
                    place,
                    [
                        (full, lambda i: rows.emit(i * height, height, columns)),
                        (1 if last else 0, lambda i: rows.emit(full * height, last, columns)),
                    ],
                )

            if isinstance(rows, OpenColumnsTile):
                emit_open_columns(self, rows, chunk, columns)
                return
            select(
                chunk,
                [
                    (self.full_chunks, lambda i: columns(Columns(i * step, step, lanes))),
                    (
                        1 if self.rest_blocks else 0,
                        lambda i: columns(Columns(rest, self.rest_blocks, lanes)),
                    ),
                    *((1, lambda i, k=k: columns(self._tail(k))) for k in range(len(self.tails))),
                ],
            )

    def _tail(self, k: int) -> Columns:
        """Return the columns of the partly filled block number ``k``."""
        result, width = self.tails[k]
        return Columns(sum(self.full) + k, 1, width, result)
