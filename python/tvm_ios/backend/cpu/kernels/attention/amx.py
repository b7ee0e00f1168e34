# SPDX-License-Identifier: Apache-2.0
"""The code of an attention for a strip of queries, whose products are AMX's.

Of scores, keys are the left matrices and the strip's queries the right ones. Of results, the
exponentials of a query are a row of a left matrix, so that they are transposed, and values are the
right ones. The pairs of a block of keys are filled up with zeros to whole steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from tvm.tirx.script import builder as T

from .....ops.tir_function import on_stack, tile_scope
from ...core import Core
from ...isa import amx
from ...isa.amx import COLUMNS, DOT2_BYTES, Step, address, split
from ...isa.bfloat16 import DOT2
from ...isa.emit import lanes_of, loop, splat, unroll
from ...isa.functions import keep, transposed
from ..layout import blocks
from ..tiling import RegisterTile, tile_matmul_register_tile
from .strip import Attention, Strip

Expr = Any

PAIRS = amx.ROWS
"""The pairs of keys of a step."""


def depth_pairs(attention: Attention, core: Core) -> int:
    """Return the pairs of elements that a step of the scores multiplies; 0 if AMX is not used."""
    if core.tile_matmul != amx.PRODUCTS:
        return 0
    return amx.whole_pairs(attention.depth // 2)


class AmxStrip(Strip):
    """The code of a strip; a block is a whole number of steps, or all keys."""

    def sources(self) -> frozenset[str]:
        return super().sources().union(*(step.sources for step in self._steps()))

    def _steps(self) -> Iterator[Step]:
        """Yield the shapes of all steps."""
        a = self.attention
        full, rest = divmod(a.keys, self.block)
        for count in {self.block if full else rest, rest or self.block}:
            tile = self._key_tile(count)
            for height in _sizes(count, tile.mr):
                yield self._score_step(height)
        whole, last = divmod(a.columns, self.lanes)
        tile = self._value_tile(whole)
        numbers = set(_sizes(whole, tile.nr)) | ({1} if last else set())
        for height in _sizes(self.rows, tile.mr):
            yield from (Step(split(height), number, PAIRS) for number in numbers)

    def _score_step(self, height: int) -> Step:
        pairs = depth_pairs(self.attention, self.core)
        return Step(split(height), self.vectors, pairs)

    def _new_weights(self) -> Any:
        padded = blocks(self.block, 2 * PAIRS) * PAIRS
        self._transposed = on_stack([self.width, padded], DOT2)
        return on_stack([padded, self.width], DOT2)

    def _key_tile(self, count: int) -> RegisterTile:
        return tile_matmul_register_tile(amx.PRODUCTS, count, self.vectors)

    def _value_tile(self, full: int) -> RegisterTile:
        return tile_matmul_register_tile(amx.PRODUCTS, self.rows, max(full, 1))

    def _score(self, begin: Expr, first: Expr, height: int) -> None:
        a, lanes = self.attention, self.lanes
        step, depth = self._score_step(height), a.depth // 2
        with tile_scope():
            sums = on_stack([self.vectors, height, COLUMNS])
            step.begin()

            def multiply(k: Expr) -> None:
                at = k * step.pairs
                keys = [
                    address(*self.head.key_place(begin + first + row, at)) for row in step.starts
                ]
                queries = [address(self.queries, [at, v * lanes]) for v in range(self.vectors)]
                step.multiply(keys, depth * DOT2_BYTES, queries, self.width * DOT2_BYTES)

            loop(depth // step.pairs, multiply)
            step.end([address(sums, place, "w") for place in step.sums()])

            def store(j: Expr, v: Expr) -> None:
                self._store_score(begin, first + j, v, sums[v, j, lanes_of(0, lanes)])

            unroll(0, height, lambda j: unroll(0, self.vectors, lambda v: store(j, v)))

    def _weigh_all(self, count: int) -> None:
        super()._weigh_all(count)
        steps = blocks(count, 2 * PAIRS)
        for pair in range(blocks(count, 2), steps * PAIRS):
            self._each_vector(partial(self._clear_weights, pair))

        def square(begin: Expr, vector: Expr) -> None:
            with tile_scope():
                loaded = [keep(self.weights[begin + i, self._at(vector)]) for i in range(PAIRS)]
                for i, row in enumerate(transposed(loaded)):
                    place = [vector * self.lanes + i, lanes_of(begin, PAIRS)]
                    T.buffer_store(self._transposed, row, place)

        loop(steps, lambda i: loop(self.vectors, lambda vector: square(i * PAIRS, vector)))

    def _clear_weights(self, pair: int, at: Expr) -> None:
        T.buffer_store(self.weights, splat(T.int32(0), self.lanes), [pair, at])

    def _add(
        self,
        begin: Expr,
        count: int,
        row: Expr,
        height: int,
        first: Expr,
        number: int,
        width: int,
    ) -> None:
        step, lanes = Step(split(height), number, PAIRS), self.lanes
        row_bytes = int(self._transposed.shape[1]) * DOT2_BYTES
        value_bytes = int(self.head.value_place(0, 0)[0].shape[-1]) * DOT2_BYTES
        with tile_scope():
            sums = on_stack([number, height, COLUMNS])
            step.begin()

            def multiply(k: Expr) -> None:
                pair = k * PAIRS
                rows = [address(self._transposed, [row + start, pair]) for start in step.starts]
                places = (
                    self.head.value_place(begin // 2 + pair, first + i * lanes)
                    for i in range(number)
                )
                values = [address(*place) for place in places]
                step.multiply(rows, row_bytes, values, value_bytes)

            loop(blocks(count, 2 * PAIRS), multiply)
            step.end([address(sums, place, "w") for place in step.sums()])

            def finish(j: Expr, i: Expr) -> None:
                at = lanes_of(first + i * lanes, width)
                before = self.sums[row + j, at] * splat(self.factor[row + j], width)
                T.buffer_store(self.sums, before + sums[i, j, lanes_of(0, width)], [row + j, at])

            unroll(0, height, lambda j: unroll(0, number, lambda i: finish(j, i)))


def _sizes(extent: int, size: int) -> list[int]:
    """Return the sizes of the parts of ``extent``, of which the last may be smaller."""
    return [n for n, there in ((size, extent >= size), (extent % size, True)) if n and there]
