# SPDX-License-Identifier: Apache-2.0
"""The code of an attention for a strip of queries of one head.

The softmax is computed for one block of keys after the other. If a later block has a larger score,
what was summed before is scaled down (Milakov and Gimelshein, *Online normalizer calculation for
softmax*, 2018; Dao et al., *FlashAttention*, 2022).

The scores of a strip lie as ``[key][query]``. Maxima, exponentials and sums are then operations on
whole vectors, and both products multiply a vector by a number: scores are sums of queries, which
are transposed once for a strip, times elements of keys, and results are sums of rows of values
times single scores.

In half precision, a number is a pair of bfloat16: of neighbouring elements of queries and keys, and
of the exponentials and the values of two keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx.script import builder as T

from .....ops.epilogue import NOTHING, Epilogue
from .....ops.tir_function import on_stack, tile_scope
from .....sizes.size import AnySize, known_equal
from ...core import Core
from ...isa.bfloat16 import DOT2, bits_of, joined, round_source, widened
from ...isa.emit import Accumulators, along, lanes_of, loop, splat, unroll, zeros
from ...isa.epilogue import apply_epilogue
from ...isa.functions import exp, keep, transposed
from ...isa.storage import store
from ..factors import Multiplication
from ..layout import blocks
from ..rows.scan import LOWEST
from ..tiling import RegisterTile, choose_tile

Expr = Any


@dataclass(frozen=True)
class Bias:
    """What is added to the scores.

    Attributes
    ----------
    batch, heads : int or Size
        Extents, each 1 if all have the same.
    of_queries : bool
        Whether queries differ. The bias is then constant, packed by :func:`pack_bias`.
    """

    batch: AnySize
    heads: AnySize
    of_queries: bool


@dataclass(frozen=True)
class Attention:
    """An attention of several heads, followed by an epilogue.

    A ``last`` argument of the epilogue has one value for each position of a head's result.

    Attributes
    ----------
    visible : int, Size or None
        Of a causal attention, how many keys more than its number a query sees, at least one.
    """

    batch: AnySize
    heads: int
    queries: AnySize
    keys: AnySize
    depth: int
    columns: int
    scale: float
    bias: Bias | None = None
    epilogue: Epilogue = NOTHING
    visible: AnySize | None = None


@dataclass(frozen=True)
class Head:
    """The tensors of one head of one image; its keys and values may be gathered in two more.

    Tensors of pairs have half as many columns, gathered values half as many rows.
    """

    attention: Attention
    buffers: Sequence[Any]
    image: Expr
    head: Expr
    gathered: bool

    def query(self, row: Expr, at: Expr) -> Expr:
        return self.buffers[0][self.image, row, self.head, at]

    def key(self, row: Expr, at: Expr) -> Expr:
        tensor, place = self.key_place(row, at)
        return tensor[tuple(place)]

    def value(self, row: Expr, at: Expr) -> Expr:
        tensor, place = self.value_place(row, at)
        return tensor[tuple(place)]

    def key_place(self, row: Expr, at: Expr) -> tuple[Any, list[Expr]]:
        """Return where elements of a key are: the tensor, and the place in it."""
        return self._place(1, row, at)

    def value_place(self, row: Expr, at: Expr) -> tuple[Any, list[Expr]]:
        """Return where elements of a value are: the tensor, and the place in it."""
        return self._place(2, row, at)

    def bias(self, key: Expr, queries: Expr, width: int) -> Expr:
        """Return what is added to the scores of a key."""
        bias = self.attention.bias
        if bias is None:
            return zeros(width)
        extents = ((bias.batch, self.image), (bias.heads, self.head))
        place = [0 if known_equal(extent, 1) else index for extent, index in extents]
        if bias.of_queries:
            return self.buffers[3][(*place, key, queries)]
        return splat(self.buffers[3][(*place, 0, key)], width)

    def store(self, row: Expr, at: Expr, value: Expr, width: int) -> None:
        """Store elements of the result, with the epilogue applied to them."""
        epilogue, place = self.attention.epilogue, (self.image, row, self.head, at)
        first = 3 + (self.attention.bias is not None)
        result = self.buffers[first + len(epilogue.arguments)]

        def load(i: int) -> Expr:
            last = epilogue.arguments[i] == "last"
            return self.buffers[first + i][at if last else place]

        store(result, apply_epilogue(epilogue, value, load, width), place)

    def _place(self, operand: int, row: Expr, at: Expr) -> tuple[Any, list[Expr]]:
        if self.gathered:
            return self.buffers[operand - 3], [self.image, self.head, row, at]
        return self.buffers[operand], [self.image, row, self.head, at]


class Strip:
    """The code of ``rows`` queries from ``first`` on, with ``block`` keys at a time.

    The lanes of the last vector that have no query repeat the last one.
    """

    def __init__(
        self,
        head: Head,
        multiplication: Multiplication,
        block: int,
        core: Core,
        first: Expr,
        rows: int,
    ) -> None:
        assert block % multiplication.step == 0, "a block consists of pairs"
        self.attention, self.head, self.block = head.attention, head, block
        self.multiplication, self.step = multiplication, multiplication.step
        self.core, self.lanes, self.first, self.rows = core, core.lanes, first, rows
        self.vectors = blocks(rows, self.lanes)
        self.width = self.vectors * self.lanes
        self.existing: Expr = rows
        self.spare = 0  # rows that a tile may compute beyond those of the strip

    def sources(self) -> frozenset[str]:
        """Return the LLVM IR of the functions that the code calls."""
        rounding = round_source(self.core.bf16_dot2_lanes) if self.step > 1 else frozenset()
        return self.multiplication.sources | rounding

    def emit(self) -> None:
        """Emit the strip, one block of keys after the other."""
        a, width = self.attention, self.width
        kind = "float32" if self.step == 1 else DOT2
        with tile_scope():
            self.queries = on_stack([a.depth // self.step, width], kind)
            self.scores = on_stack([self.block + (self.spare > 0), width])
            self.weights = self._new_weights()
            self.sums = on_stack([self.rows + self.spare, a.columns])
            # What was subtracted from the scores, the sum of exponentials, and the factor by which
            # a block changes the sums.
            self.largest, self.total = (on_stack([width]) for _ in range(2))
            self.factor = on_stack([width + self.spare])
            self._load_queries()
            self._each_vector(lambda at: self._begin(at))
            rows = self.rows + self.spare
            loop(rows, lambda row: self._each_column(lambda at, n: self._clear(row, at, n)))
            self._all_keys()
            loop(self.existing, self._finish)

    def _all_keys(self) -> None:
        """Emit the blocks of keys."""
        full, rest = divmod(self.attention.keys, self.block)
        loop(full, lambda i: self._keys(i * self.block, self.block))
        if rest:
            self._keys(full * self.block, rest)

    def _new_weights(self) -> Any:
        """Allocate the exponentials, as what is multiplied by values."""
        if self.step == 1:
            return self.scores
        return on_stack([self.block // self.step, self.width], DOT2)

    def _key_tile(self, count: int) -> RegisterTile:
        """Return the register tile of the scores of ``count`` keys."""
        return choose_tile(self.core, count, self.vectors)

    def _value_tile(self, full: int) -> RegisterTile:
        """Return the register tile of a result of ``full`` whole vectors."""
        return choose_tile(self.core, self.rows, max(full, 1))

    def _begin(self, at: Expr) -> None:
        T.buffer_store(self.largest, splat(T.float32(LOWEST), self.lanes), [at])
        T.buffer_store(self.total, zeros(self.lanes), [at])

    def _clear(self, row: Expr, at: Expr, width: int) -> None:
        T.buffer_store(self.sums, zeros(width), [row, at])

    def _load_queries(self) -> None:
        """Transpose the strip's queries."""
        a, lanes = self.attention, self.lanes
        full, rest = divmod(a.depth // self.step, lanes)

        def row(vector: Expr, lane: int) -> Expr:
            return T.min(self.first + vector * lanes + lane, a.queries - 1)

        def read(vector: Expr, lane: int, at: Expr) -> Expr:
            return self.head.query(row(vector, lane), at)

        def square(vector: Expr, begin: Expr) -> None:
            with tile_scope():
                loaded = [read(vector, i, lanes_of(begin, lanes)) for i in range(lanes)]
                for i, value in enumerate(transposed([keep(v) for v in loaded])):
                    T.buffer_store(self.queries, value, [begin + i, self._at(vector)])

        def single(vector: Expr, k: int) -> None:
            for i in range(lanes):
                T.buffer_store(self.queries, read(vector, i, k), [k, vector * lanes + i])

        def vector(v: Expr) -> None:
            if full:
                loop(full, lambda i: square(v, i * lanes))
            for k in range(full * lanes, full * lanes + rest):
                single(v, k)

        loop(self.vectors, vector)

    def _keys(self, begin: Expr, count: int) -> None:
        """Emit a block of keys: scores, exponentials, and the product with values."""
        tile = self._key_tile(count)
        self._key_tiles(count, tile.mr, lambda key, height: self._score(begin, key, height))
        self._each_vector(lambda at: self._rescale(count, at))
        self._weigh_all(count)
        a = self.attention
        full, rest = divmod(a.columns, self.lanes)
        tile = self._value_tile(full)

        def columns(first: Expr, number: int, width: int) -> None:
            self._value_tiles(
                tile.mr,
                lambda row, height: self._add(begin, count, row, height, first, number, width),
            )

        chunks, over = divmod(full, tile.nr)
        if chunks:
            loop(chunks, lambda i: columns(i * tile.nr * self.lanes, tile.nr, self.lanes))
        if over:
            columns(chunks * tile.nr * self.lanes, over, self.lanes)
        if rest:
            columns(full * self.lanes, 1, rest)

    def _score(self, begin: Expr, first: Expr, height: int) -> None:
        """Emit the scores of ``height`` keys, ``first`` after ``begin``."""
        a, lanes = self.attention, self.lanes
        with tile_scope():
            registers = Accumulators(height * self.vectors, lanes, zeros(lanes))

            def each(body: Callable[[Expr, Expr], None]) -> None:
                unroll(0, height, lambda j: unroll(0, self.vectors, lambda v: body(j, v)))

            def step(k: Expr) -> None:
                def multiply_add(j: Expr, v: Expr) -> None:
                    at = j * self.vectors + v
                    key = splat(self.head.key(begin + first + j, k), lanes)
                    query = self.queries[k, self._at(v)]
                    registers[at] = self.multiplication.multiply_add(registers[at], key, query)

                each(multiply_add)

            def store(j: Expr, v: Expr) -> None:
                self._store_score(begin, first + j, v, registers[j * self.vectors + v])

            loop(a.depth // self.step, step)
            each(store)

    def _store_score(self, begin: Expr, key: Expr, v: Expr, product: Expr) -> None:
        """Store the scores of vector ``v`` of queries and a key, of which this is the product."""
        a, lanes = self.attention, self.lanes
        queries = lanes_of(self.first + v * lanes, lanes)
        bias = self.head.bias(begin + key, queries, lanes)
        score = product * splat(T.float32(a.scale), lanes) + bias
        if a.visible is not None:
            hidden = splat(begin + key - a.visible, lanes) >= queries
            score = T.Select(hidden, splat(T.float32(-math.inf), lanes), keep(score))
        T.buffer_store(self.scores, score, [key, self._at(v)])

    def _rescale(self, count: int, at: Expr) -> None:
        """Emit the largest scores so far, and by what this scales what was summed before."""
        with tile_scope():
            largest = Accumulators(1, self.lanes, self.largest[at])

            def compare(key: Expr) -> None:
                largest[0] = T.max(largest[0], self.scores[key, at])

            loop(count, compare)
            factor = keep(exp(self.largest[at] - largest[0]))
            T.buffer_store(self.factor, factor, [at])
            T.buffer_store(self.total, self.total[at] * factor, [at])
            T.buffer_store(self.largest, largest[0], [at])

    def _weigh_all(self, count: int) -> None:
        """Emit the exponentials of ``count`` keys."""
        whole, lone = (count, 0) if self.step == 1 else divmod(count, self.step)
        if not isinstance(whole, int) or whole > 0:
            loop(whole, lambda i: self._each_vector(lambda at: self._weigh(i, self.step, at)))
        if lone:
            self._each_vector(lambda at: self._weigh(whole, lone, at))

    def _weigh(self, index: Expr, count: int, at: Expr) -> None:
        """Emit the exponentials of ``count`` keys, of which a pair consists, or one is left."""
        with tile_scope():
            scores = [self.scores[index * self.step + i, at] for i in range(count)]
            values = [keep(exp(score - self.largest[at])) for score in scores]
            if self.step > 1:  # what is multiplied is added up, so that the weights' sum is one
                rounded = [keep(bits_of(value, self.core.bf16_dot2_lanes)) for value in values]
                T.buffer_store(self.weights, joined(*rounded), [index, at])
                values = list(map(widened, rounded))
            else:
                T.buffer_store(self.weights, values[0], [index, at])
            for value in values:
                T.buffer_store(self.total, self.total[at] + value, [at])

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
        """Add a block's values, times their weights, to the sums of some rows and columns."""
        with tile_scope():
            registers = Accumulators(height * number, width, zeros(width))

            def each(body: Callable[[Expr, Expr], None]) -> None:
                unroll(0, height, lambda j: unroll(0, number, lambda i: body(j, i)))

            def at(i: Expr) -> Expr:
                return lanes_of(first + i * width, width)

            def load(j: Expr, i: Expr) -> None:
                before = self.sums[row + j, at(i)]
                registers[j * number + i] = before * splat(self.factor[row + j], width)

            def step(key: Expr) -> None:
                def multiply_add(j: Expr, i: Expr) -> None:
                    value = self.head.value(begin // self.step + key, at(i))
                    weight = splat(self.weights[key, row + j], width)
                    total = registers[j * number + i]
                    added = self.multiplication.multiply_add(total, weight, value)
                    registers[j * number + i] = added

                each(multiply_add)

            def store(j: Expr, i: Expr) -> None:
                T.buffer_store(self.sums, registers[j * number + i], [row + j, at(i)])

            each(load)
            loop(count if self.step == 1 else blocks(count, self.step), step)
            each(store)

    def _finish(self, row: Expr) -> None:
        """Divide a row by the sum of its exponentials, and apply the epilogue."""
        with tile_scope():
            scale = keep(T.float32(1) / self.total[row])

            def column(at: Expr, width: int) -> None:
                value = self.sums[row, at] * splat(scale, width)
                self.head.store(self.first + row, at, value, width)

            self._each_column(column)

    def _at(self, vector: Expr) -> Expr:
        return lanes_of(vector * self.lanes, self.lanes)

    def _each_vector(self, body: Callable[[Expr], None]) -> None:
        """Emit ``body(lanes)`` for each vector of queries."""
        unroll(0, self.vectors, lambda v: body(self._at(v)))

    def _each_column(self, body: Callable[[Expr, int], None]) -> None:
        """Emit ``body(lanes, width)`` for each vector of a row of the result."""
        along(self.attention.columns, self.lanes, lambda at, n: body(lanes_of(at, n), n))

    def _key_tiles(self, count: Expr, size: int, body: Callable[[Expr, int], None]) -> None:
        """Emit ``body(first, height)`` for the tiles of a block's keys."""
        self._tiles(count, size, body)

    def _value_tiles(self, size: int, body: Callable[[Expr, int], None]) -> None:
        """Emit ``body(first, height)`` for the tiles of the result's rows."""
        self._tiles(self.rows, size, body)

    @staticmethod
    def _tiles(extent: int, size: int, body: Callable[[Expr, int], None]) -> None:
        """Emit ``body(first, size)`` for tiles that cover ``extent``; the last may be smaller."""
        full, rest = divmod(extent, size)
        if full:
            loop(full, lambda i: body(i * size, size))
        if rest:
            body(full * size, rest)
