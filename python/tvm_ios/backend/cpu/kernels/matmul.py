# SPDX-License-Identifier: Apache-2.0
"""Register-tiled matrix products ``[M, K] x [K, N]`` of row-major matrices.

Vectors of the right matrix and of the result lie along ``N``. Constant weights are packed at
compile time so that ``b`` neighbouring columns lie together, as the output channels of a
convolution do. A computed right matrix is read in place, unless it is so deep that its rows lie in
more pages than the TLB holds. Such a matrix is packed in a phase of its own.

Where the left side and a chunk of weights do not fit into L2 together, the left side comes from
memory for every chunk. With few rows the weights come from there nearly as often, and together they
take more time than the multiplications. The depth is then divided into *slabs* whose parts fit. The
sums of a slab are kept in the result until the next slab adds to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm.tirx.script import builder as T

from ....target import Core
from ....tir.emit import (
    bind,
    lanes_of,
    loop,
    select,
    splat,
    tile_scope,
    unroll,
)
from ....tir.storage import store
from ....tir.tensor import TensorSpec
from ...shared.product import Matmul
from .factors import Factors, Multiplication
from .kernel import Kernel, Phase, Weights
from .layout import blocks
from .matmul_packing import PACK_WORK, Packing
from .plane import PlaneTiles
from .prefetch import NEAR, Ahead, fetch_near
from .tiling import choose_tile

Expr = Any

_MAX_STRIDED_DEPTH = 2048  # rows of a wide matrix, each in its own page
_MIN_PACKED_ROWS = 64
_MAX_SLABS = 16
_MOST_SLAB_ROWS = 256
_DEPTH_SHARE, _SLAB_SHARE = 0.75, 0.45  # of L2, for what is read of the whole depth or of a slab


def matmul_kernel(matmul: Matmul, core: Core, factors: Factors = "single") -> Kernel:
    """Return the kernel of a matrix product.

    Its inputs are the left and the right side and the epilogue's arguments. If there are several
    results, the right side and the arguments are packed by
    :func:`.matmul_packing.pack_side_by_side`. A step of the depth multiplies ``factors``, which the
    tensors of both sides consist of.
    """
    m, emitter = matmul, _MatmulEmitter(matmul, core, factors)
    assert not m.results or (m.weights and m.batch == 1 and sum(m.results) == m.columns)
    assert not m.results or set(m.epilogue.arguments) <= {"last"}, "one value a column"
    results = tuple(TensorSpec((m.batch, m.rows, part)) for part in m.parts)
    last = m.packed(core.lanes).shape[0] * core.lanes if m.results else m.columns
    specs = {"full": results[0], "last": TensorSpec((last,))}
    right = m.right
    scratch: tuple[TensorSpec, ...] = ()
    phases: tuple[Phase, ...] = (Phase(emitter.tiles, emitter.emit, weights=emitter.weights()),)
    if m.weights:
        right = m.packed(core.lanes)
    elif emitter.packs:
        pack = Packing(m, core.lanes)
        scratch = (m.packed(core.lanes),)
        phases = (Phase(pack.tiles, pack.emit, work=PACK_WORK / m.rows), *phases)
    return Kernel(
        name="matmul",
        key=("matmul", matmul, core),
        inputs=(m.left, right, *(specs[kind] for kind in m.epilogue.arguments)),
        outputs=results,
        scratch=scratch,
        phases=phases,
        plane=emitter.plane(),
        narrows=emitter.slabs == 1,
    )


class _MatmulEmitter:
    """The code of a product; a tile is (matrix, chunk of column blocks, group of rows).

    Partly filled blocks come last. All rows are multiplied by a chunk of columns before the next
    chunk begins, so that the chunk's weights, which every group of rows reads, stay in L2.
    """

    def __init__(self, matmul: Matmul, core: Core, factors: Factors) -> None:
        self.matmul, self.lanes, self.factors = matmul, core.lanes, factors
        self.multiplication = Multiplication.of(factors, core)
        self.full = [part // core.lanes for part in matmul.parts]
        # (result, columns) of each partly filled block.
        tails = enumerate(part % core.lanes for part in matmul.parts)
        self.tails = [(result, width) for result, width in tails if width]
        self.tile = choose_tile(
            core,
            matmul.rows,
            max(sum(self.full), 1),
            block_bytes=4 * core.lanes * matmul.depth,
        )
        self.full_chunks, self.rest_blocks = divmod(sum(self.full), self.tile.blocks)
        self.chunks = self.full_chunks + (self.rest_blocks > 0) + len(self.tails)
        self.row_tiles = blocks(matmul.rows, self.tile.columns)
        self.tiles = matmul.batch * self.chunks * self.row_tiles
        self.slabs = self._count_slabs(core)
        self.slab = matmul.depth // self.slabs
        self.far_weights = matmul.weights and matmul.packed(core.lanes).num_bytes > core.l1_bytes
        self.prefetches = (
            matmul.weights
            and min(self.chunks, self.row_tiles) > 1
            and matmul.depth >= core.lanes
            and matmul.packed(core.lanes).num_bytes > core.l2_bytes // 4
        )
        self.packs = (
            not matmul.weights
            and matmul.depth > _MAX_STRIDED_DEPTH
            and matmul.rows >= _MIN_PACKED_ROWS
        )

    def _count_slabs(self, core: Core) -> int:
        """Return how many slabs the depth is divided into; they are equal, and whole vectors."""
        m, chunk = self.matmul, self.tile.blocks * core.lanes
        read = 4 * m.depth * (m.rows + 2 * chunk)  # one chunk is multiplied, one is prefetched
        fits = read <= core.l2_bytes * _DEPTH_SHARE
        # Results of others may be stored in fewer bits, and sums of quads are no results.
        if (
            fits
            or self.factors != "single"
            or not m.weights
            or m.batch > 1
            or m.rows > _MOST_SLAB_ROWS
        ):
            return 1
        counts = (n for n in range(2, _MAX_SLABS + 1) if m.depth % (n * core.lanes) == 0)
        return next((n for n in counts if read <= n * core.l2_bytes * _SLAB_SHARE), 1)

    def weights(self) -> Weights | None:
        """Return where the weights of a tile begin; None if the right side is computed."""
        m = self.matmul
        if not m.weights or m.batch > 1:
            return None

        def first(tile: int) -> int:
            return self._first_block(tile // self.row_tiles) * m.depth * self.lanes

        return Weights(1, first, prefetches=self.prefetches and self.slabs == 1)

    def _first_block(self, chunk: int) -> int:
        """Return the first block of columns of a chunk."""
        if chunk < self.full_chunks:
            return chunk * self.tile.blocks
        rest = self.full_chunks + (self.rest_blocks > 0)
        return (
            self.full_chunks * self.tile.blocks if chunk < rest else sum(self.full) + chunk - rest
        )

    def plane(self) -> PlaneTiles | None:
        """Return how the tiles cover the result: a row of the left side is a pixel.

        A computed right side is read as a whole, and has no plane.
        """
        m = self.matmul
        if not m.weights or m.batch > 1:
            return None
        return PlaneTiles(
            self.chunks,
            self.row_tiles,
            self.tile.columns,
            m.rows,
            mixes=True,
            matrix=True,
            repeatable=self.slabs == 1,
        )

    def emit(
        self, buffers: Sequence[Any], begin: Expr, extent: Expr, following: Expr | None = None
    ) -> None:
        """Emit the tiles ``begin`` to ``begin + extent``, slab by slab.

        ``following`` is where the weights begin that are needed afterwards, if it is known.
        """
        loop(self.slabs, lambda slab: self._emit_slab(buffers, begin, extent, slab, following))

    def _emit_slab(
        self,
        buffers: Sequence[Any],
        begin: Expr,
        extent: Expr,
        slab: Expr,
        following: Expr | None,
    ) -> None:
        step, lanes = self.tile.blocks, self.lanes
        rest = self.full_chunks * step
        with T.serial(begin, begin + extent) as t:
            place, chunk = t % self.row_tiles, t // self.row_tiles % self.chunks
            more = bind(T.Select(t - place + self.row_tiles < begin + extent, 1, 0))
            matrix = t // (self.row_tiles * self.chunks)
            rows = _Tile(self, buffers, matrix, place, more, slab, following)

            def columns(columns: _Columns) -> None:
                full, last = divmod(self.matmul.rows, self.tile.columns)
                height = self.tile.columns
                select(
                    place,
                    [
                        (full, lambda i: rows.emit(i * height, height, columns)),
                        (1 if last else 0, lambda i: rows.emit(full * height, last, columns)),
                    ],
                )

            select(
                chunk,
                [
                    (self.full_chunks, lambda i: columns(_Columns(i * step, step, lanes))),
                    (
                        1 if self.rest_blocks else 0,
                        lambda i: columns(_Columns(rest, self.rest_blocks, lanes)),
                    ),
                    *((1, lambda i, k=k: columns(self._tail(k))) for k in range(len(self.tails))),
                ],
            )

    def _tail(self, k: int) -> _Columns:
        """Return the columns of the partly filled block number ``k``."""
        result, width = self.tails[k]
        return _Columns(sum(self.full) + k, 1, width, result)


@dataclass(frozen=True)
class _Columns:
    """A range of ``count`` blocks of ``width`` columns from block ``first`` on.

    ``result`` is the result that a partly filled block belongs to. For full blocks it follows from
    their numbers.
    """

    first: Expr
    count: int
    width: int
    result: int | None = None


class _Tile:
    """The register tile of one matrix: its reads and its stores.

    ``more`` is 1 if the caller continues with the next chunk, else 0. While the group ``place`` of
    rows is computed, its share of that chunk's weights is prefetched. Of the depth, slab ``slab``
    is multiplied.
    """

    def __init__(
        self,
        emitter: _MatmulEmitter,
        buffers: Sequence[Any],
        matrix: Expr,
        place: Expr,
        more: Expr,
        slab: Expr,
        after: Expr | None,
    ) -> None:
        self.emitter, self.matmul, self.lanes = emitter, emitter.matmul, emitter.lanes
        self.full, self.buffers, self.matrix = emitter.full, buffers, matrix
        self.place, self.more, self.slab, self.after = place, more, slab, after

    def emit(self, row: Expr, height: int, columns: _Columns) -> None:
        """Emit ``height`` rows from ``row`` for these columns."""
        left = self.matrix if self.matmul.left_batch else 0
        first, count, width = columns.first, columns.count, columns.width
        with tile_scope():
            multiplication = self.emitter.multiplication
            registers = multiplication.accumulators(height * count, width)

            def load(i: Expr, j: Expr) -> None:
                def read(tensor: Any, place: Sequence[Expr]) -> None:
                    registers[i * height + j] = tensor[tuple(place)]

                self._at(row + j, i, columns, read)

            def multiply_add(k: Expr, i: Expr, j: Expr) -> None:
                at = i * height + j
                value = splat(self.buffers[0][left, row + j, k], width)
                right = self._right(first + i, k, width)
                registers[at] = multiplication.multiply_add(registers[at], value, right)

            def store(i: Expr, j: Expr) -> None:
                def write(tensor: Any, place: Sequence[Expr]) -> None:
                    T.buffer_store(tensor, registers[i * height + j], place)

                self._at(row + j, i, columns, write)

            def finish(i: Expr, j: Expr) -> None:
                total = multiplication.result(registers[i * height + j])
                self._store(total, row + j, i, columns)

            def outer(body: Callable[[Expr, Expr], None]) -> None:
                unroll(0, height, lambda j: unroll(0, count, lambda i: body(i, j)))

            def step(k: Expr) -> None:
                outer(lambda i, j: multiply_add(k, i, j))
                if self.emitter.far_weights:
                    unroll(
                        0, count, lambda i: fetch_near(self.buffers[1], [first + i, k + NEAR, 0])
                    )

            def reduce() -> None:
                self._reduce(step, columns)

            if self.emitter.slabs == 1:
                reduce()
                outer(finish)
                return
            with T.If(self.slab > 0), T.Then():
                outer(load)
            reduce()
            with T.If(self.slab == self.emitter.slabs - 1):
                with T.Then():
                    outer(finish)
                with T.Else():
                    outer(store)

    def _reduce(self, step: Callable[[Expr], None], columns: _Columns) -> None:
        """Emit ``step(k)`` for the depth of the slab."""
        depth, lanes = self.emitter.slab, self.lanes
        base = self.slab * depth
        if not self.emitter.prefetches:
            loop(depth, lambda k: step(base + k))
            return
        full, rest = divmod(depth, lanes)
        ahead = list(self._ahead(columns, full))

        def part(index: Expr) -> None:
            for weights in ahead:
                weights.step(index)
            loop(lanes, lambda k: step(base + index * lanes + k))

        loop(full, part)
        if rest:
            loop(rest, lambda k: step(full * lanes + k))

    def _ahead(self, columns: _Columns, steps: int) -> Iterator[Ahead]:
        """Yield this tile's shares of the next chunk's weights, which are read in ``steps`` steps.

        A slab has a part of each block, the whole depth is one part.
        """
        emitter, lanes, depth = self.emitter, self.lanes, self.matmul.depth
        parts = 1 if emitter.slabs == 1 else columns.count
        length = columns.count * depth if emitter.slabs == 1 else emitter.slab
        share = blocks(length, emitter.row_tiles * steps)
        following = columns.first + columns.count * self.more
        for part in range(parts):
            begin = ((following + part) * depth + self.slab * emitter.slab) * lanes
            if self.after is not None:
                begin = T.Select(self.more > 0, begin, self.after)
            begin = begin + self.place * (steps * share * lanes)
            yield Ahead(self.buffers[1], bind(begin), share, lanes)

    def _right(self, block: Expr, k: Expr, width: int) -> Expr:
        """Return row ``k`` of a block of columns."""
        matrix = self.matrix if self.matmul.right_batch else 0
        if self.matmul.weights:
            return self.buffers[1][block, k, lanes_of(0, width)]
        if self.emitter.packs:
            return self.buffers[-1][matrix, block, k, lanes_of(0, width)]
        return self.buffers[1][matrix, k, lanes_of(block * self.lanes, width)]

    def _store(self, value: Expr, row: Expr, i: Expr, columns: _Columns) -> None:
        """Apply the epilogue to block ``i`` of the columns and write it to its result."""
        epilogue, width = self.matmul.epilogue, columns.width
        block = columns.first + i

        def load(a: int) -> Expr:
            argument, column = self.buffers[2 + a], lanes_of(block * self.lanes, width)
            last = epilogue.arguments[a] == "last"
            return argument[column] if last else argument[self.matrix, row, column]

        def write(tensor: Any, place: Sequence[Expr]) -> None:
            store(tensor, epilogue.apply(value, load, width), place)

        self._at(row, i, columns, write)

    def _at(
        self,
        row: Expr,
        i: Expr,
        columns: _Columns,
        body: Callable[[Any, Sequence[Expr]], None],
    ) -> None:
        """Call ``body(tensor, place)`` with where block ``i`` of the columns lies in its result."""

        def found(result: int, local: Expr) -> None:
            tensor = self.buffers[2 + len(self.matmul.epilogue.arguments) + result]
            body(tensor, [self.matrix, row, lanes_of(local * self.lanes, columns.width)])

        if columns.result is not None:
            found(columns.result, self.full[columns.result])
        else:
            select(columns.first + i, [(n, partial(found, k)) for k, n in enumerate(self.full)])
