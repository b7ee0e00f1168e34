# SPDX-License-Identifier: Apache-2.0
"""One register tile of a matrix product: its sums, and what is prefetched meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm.tirx.script import builder as T

from .....ops.tir_function import tile_scope
from .....sizes.size import Size
from ...isa.emit import Accumulators, bind, lanes_of, loop, select, splat, unroll
from ...isa.epilogue import apply_epilogue
from ...isa.storage import store
from ..prefetch import NEAR, Ahead, fetch_near
from ..row_tiles import number
from ..tiling import CHAINS
from .shape import MatmulShape

Expr = Any


@dataclass(frozen=True)
class Columns:
    """A range of ``count`` blocks of ``width`` columns from block ``first`` on.

    ``result`` is the result that a partly filled block belongs to. For full blocks it follows from
    their numbers.
    """

    first: Expr
    count: int
    width: int
    result: int | None = None


class MatmulTile:
    """The microkernel of one matrix: the reads and the stores of a register tile.

    ``more`` is 1 if the caller continues with the next chunk, else 0. While the group ``place`` of
    rows is computed, its share of that chunk's weights is prefetched. Of the depth, k-block
    ``k_block`` is multiplied.
    """

    def __init__(
        self,
        shape: MatmulShape,
        buffers: Sequence[Any],
        matrix: Expr,
        place: Expr,
        more: Expr,
        k_block: Expr,
        prefetch_target: Expr | None,
    ) -> None:
        self.shape, self.matmul, self.lanes = shape, shape.matmul, shape.lanes
        self.full, self.buffers, self.matrix = shape.full, buffers, matrix
        self.place, self.more, self.k_block = place, more, k_block
        self.prefetch_target = prefetch_target

    def _ways(self, sums: int) -> int:
        """Return into how many sums each is divided, so that they hide the latency of additions.

        Code for open rows has tiles of few rows, too, with few sums.
        """
        depth = self.shape.kc
        if not self.shape.open_rows or isinstance(depth, Size):
            return 1
        return max(w for w in (1, 2, 4, 8) if depth % w == 0 and (w == 1 or w * sums <= CHAINS))

    @staticmethod
    def sources(shape: MatmulShape) -> frozenset[str]:
        """Return the LLVM IR of the functions that the tiles of a product call."""
        return shape.multiplication.sources

    def emit(self, row: Expr, height: int, columns: Columns) -> None:
        """Emit ``height`` rows from ``row`` for these columns."""
        left = self.matrix if self.matmul.left_batch else 0
        first, count, width = columns.first, columns.count, columns.width
        with tile_scope():
            multiplication = self.shape.multiplication
            lanes = self.lanes if multiplication.whole else width
            number_of_sums = height * count
            ways = self._ways(number_of_sums)
            registers = self._sums(height, columns, lanes, ways)

            def load(i: Expr, j: Expr) -> None:
                def read(tensor: Any, place: Sequence[Expr]) -> None:
                    registers[i * height + j] = tensor[tuple(place)]

                self._at(row + j, i, columns, read)

            def multiply_add(k: Expr, i: Expr, j: Expr, begin: int = 0) -> None:
                at = i * height + (j + begin)
                value = splat(self.buffers[0][left, row + j, k], lanes)
                right = self._right(first + i, k, lanes * multiplication.words)
                registers[at] = multiplication.multiply_add(registers[at], value, right)

            def store(i: Expr, j: Expr) -> None:
                def write(tensor: Any, place: Sequence[Expr]) -> None:
                    T.buffer_store(tensor, registers[i * height + j], place)

                self._at(row + j, i, columns, write)

            def finish(i: Expr, j: Expr) -> None:
                total = registers.first(i * height + j, width)
                for way in range(1, ways):
                    at = i * height + (j + way * number_of_sums)
                    total = total + registers.first(at, width)
                self._store(multiplication.result(total), row + j, i, columns)

            def outer(body: Callable[[Expr, Expr], None]) -> None:
                unroll(0, height, lambda j: unroll(0, count, lambda i: body(i, j)))

            def step(k: Expr) -> None:
                outer(lambda i, j: multiply_add(k, i, j))
                for n in range(1, ways):
                    outer(partial(multiply_add, k + n, begin=n * number_of_sums))
                if self.shape.far_weights:
                    unroll(
                        0, count, lambda i: fetch_near(self.buffers[1], [first + i, k + NEAR, 0])
                    )

            def reduce() -> None:
                self._reduce(step, columns, ways)

            if self.shape.num_k_blocks == 1:
                reduce()
                outer(finish)
                return
            with T.If(self.k_block > 0), T.Then():
                outer(load)
            reduce()
            with T.If(self.k_block == self.shape.num_k_blocks - 1):
                with T.Then():
                    outer(finish)
                with T.Else():
                    outer(store)

    def _sums(self, height: int, columns: Columns, lanes: int, ways: int) -> Accumulators:
        """Allocate the sums: zero, or what the lowest value of the left side adds to a column."""
        number_of_sums = ways * height * columns.count
        sums = self.shape.multiplication.accumulators(number_of_sums, lanes)

        def lowest(i: Expr, j: Expr) -> None:
            sums[i * height + j] = self.buffers[2][columns.first + i, lanes_of(0, lanes)]

        if self.shape.low:
            unroll(0, height, lambda j: unroll(0, columns.count, lambda i: lowest(i, j)))
        return sums

    def _reduce(self, step: Callable[[Expr], None], columns: Columns, pace: int = 1) -> None:
        """Emit ``step(k)`` for each ``pace``-th ``k`` of the depth of the k-block."""
        depth = self.shape.kc
        base = self.k_block * depth
        if not self.shape.prefetches:
            loop(depth // pace, lambda n: step(base + n * pace))
            return
        steps = max(self.lanes // pace, 1)
        full, rest = divmod(depth, steps * pace)
        ahead = list(self._ahead(columns, full))

        def part(index: Expr) -> None:
            for weights in ahead:
                weights.step(index)
            loop(steps, lambda n: step(base + (index * steps + n) * pace))

        loop(full, part)
        if rest:
            loop(rest // pace, lambda n: step((full * steps + n) * pace))

    def _ahead(self, columns: Columns, steps: int) -> Iterator[Ahead]:
        """Yield this tile's shares of the next chunk's weights, which are read in ``steps`` steps.

        A k-block has a part of each block, the whole depth is one part.
        """
        shape, vector, depth = self.shape, self.shape.vector, self.matmul.depth
        parts = 1 if shape.num_k_blocks == 1 else columns.count
        length = columns.count * depth if shape.num_k_blocks == 1 else shape.kc
        tiles = shape.row_tiles * steps
        share = (length + tiles - 1) // tiles
        if isinstance(share, Size):
            share = bind(T.Select(number(shape.row_tiles) > 1, number(share), 0))
        next_chunk = columns.first + columns.count * self.more
        for part in range(parts):
            begin = ((next_chunk + part) * depth + self.k_block * shape.kc) * vector
            if self.prefetch_target is not None:
                begin = T.Select(self.more > 0, begin, self.prefetch_target)
            begin = begin + self.place * (steps * share * vector)
            yield Ahead(self.buffers[1], bind(begin), share, vector)

    def _right(self, block: Expr, k: Expr, width: int) -> Expr:
        """Return row ``k`` of a block of columns."""
        matrix = self.matrix if self.matmul.right_batch else 0
        if self.matmul.weights:
            return self.buffers[1][block, k, lanes_of(0, width)]
        if self.shape.packs:
            return self.buffers[-1][matrix, block, k, lanes_of(0, width)]
        return self.buffers[1][matrix, k, lanes_of(block * self.lanes, width)]

    def _store(self, value: Expr, row: Expr, i: Expr, columns: Columns) -> None:
        """Apply the epilogue to block ``i`` of the columns and write it to its result."""
        epilogue, width = self.matmul.epilogue, columns.width
        block = columns.first + i

        def load(a: int) -> Expr:
            argument = self.buffers[self.shape.arguments + a]
            column = lanes_of(block * self.lanes, width)
            last = epilogue.arguments[a] == "last"
            return argument[column] if last else argument[self.matrix, row, column]

        def write(tensor: Any, place: Sequence[Expr]) -> None:
            store(tensor, apply_epilogue(epilogue, value, load, width), place)

        self._at(row, i, columns, write)

    def _at(
        self,
        row: Expr,
        i: Expr,
        columns: Columns,
        body: Callable[[Any, Sequence[Expr]], None],
    ) -> None:
        """Call ``body(tensor, place)`` with where block ``i`` of the columns lies in its result."""

        def found(result: int, local: Expr) -> None:
            results = self.shape.arguments + len(self.matmul.epilogue.arguments)
            tensor = self.buffers[results + result]
            body(tensor, [self.matrix, row, lanes_of(local * self.lanes, columns.width)])

        if columns.result is not None:
            found(columns.result, self.full[columns.result])
        else:
            select(columns.first + i, [(n, partial(found, k)) for k, n in enumerate(self.full)])
