# SPDX-License-Identifier: Apache-2.0
"""Attention: ``softmax(scale * Q K^T + bias) V`` without its scores in memory.

A tile is a strip of queries of one head. The scores of a block of keys lie on the worker's stack.

The rows of a head lie at the distance of all heads, which is often a multiple of a large power of
two. Such rows displace each other from L1. Where there are many, the keys and the values of each
head are copied together first. In half precision they always are: the values of two keys become
pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm.tirx.script import builder as T

from .....ops.tensor import TensorSpec
from .....ops.tir_function import tile_scope
from .....sizes.arithmetic import ceil_div
from .....sizes.size import hint_of, is_open
from ...core import Core
from ...isa.amx import COLUMNS
from ...isa.bfloat16 import DOT2, as_dot2, joined
from ...isa.emit import along, bind, lanes_of, loop, select, splat
from ..factors import Factors, Multiplication
from ..kernel import Kernel, Phase, phase
from ..layout import blocks
from ..row_tiles import number
from .amx import PAIRS, AmxStrip, depth_pairs
from .open_strip import OpenStrip
from .strip import Attention, Head, Strip

Expr = Any

MOST_DEPTH = 512
"""The largest size of a head, so that a strip fits on the stack."""

_STRIP = 2  # vectors of queries, if heads are not larger than
_WIDE_DEPTH = 256
_KEYS = 512  # in a block, about
_L1_PERIOD = 4096  # bytes; lines at this distance share a set
_MOST_SCATTERED = 128  # rows that are read where they lie
_GATHER_WORK = 2.0  # copying a row takes as long as so many queries take with it


def pack_bias(bias: np.ndarray, lanes: int) -> np.ndarray:
    """Pack ``[batch, heads, queries, keys]`` as ``[batch, heads, keys, padded queries]``."""
    queries = bias.shape[2]
    padding = blocks(queries, lanes) * lanes - queries
    padded = np.pad(bias, ((0, 0), (0, 0), (0, padding), (0, 0)))
    return np.ascontiguousarray(padded.transpose(0, 1, 3, 2))


def attention_kernel(attention: Attention, core: Core, factors: Factors = "single") -> Kernel:
    """Return the kernel of an attention.

    Its inputs are the queries, the keys and the values, ``[batch, rows, heads, columns]``, then the
    bias if there is one, ``[batch, heads, 1, keys]`` or packed, and the epilogue's arguments. Of
    ``pairs``, the first three are bits of bfloat16, and the depth is even.
    """
    a, emitter = attention, _AttentionEmitter(attention, core, factors)
    operand = emitter.multiplication.left
    result = TensorSpec((a.batch, a.queries, a.heads, a.columns))
    specs = {"full": result, "last": TensorSpec((a.columns,))}
    return Kernel(
        name="attention",
        key=("attention", attention, core, factors),
        inputs=(
            TensorSpec((a.batch, a.queries, a.heads, a.depth), operand),
            TensorSpec((a.batch, a.keys, a.heads, a.depth), operand),
            TensorSpec((a.batch, a.keys, a.heads, a.columns), operand),
            *emitter.bias_specs(),
            *(specs[kind] for kind in a.epilogue.arguments),
        ),
        outputs=(result,),
        scratch=emitter.scratch(),
        phases=emitter.phases(),
        narrows=True,
    )


class _AttentionEmitter:
    """The tiles; those of a head follow each other and read the same keys and values."""

    def __init__(self, attention: Attention, core: Core, factors: Factors) -> None:
        a = self.attention = attention
        assert max(a.depth, a.columns) <= MOST_DEPTH, "a strip fits on the stack"
        self.multiplication = Multiplication.of(factors, core)
        self.step = self.multiplication.step
        assert a.depth % self.step == 0, "the depth consists of pairs"
        self.core, self.lanes = core, core.lanes
        self.amx = self.step > 1 and depth_pairs(a, core) > 0
        most = _STRIP if max(a.depth, a.columns) <= _WIDE_DEPTH else 1
        self.is_open = is_open((a.queries, a.keys))
        vectors = most if self.is_open else blocks(hint_of(a.queries), core.lanes)
        self.strip = min(most, vectors) * core.lanes
        self.strips = ceil_div(a.queries, self.strip)
        self.num_tiles = a.batch * a.heads * self.strips
        self.together = 2 * PAIRS if self.amx else self.step
        self.block = _KEYS if self.is_open else self._block(hint_of(a.keys))
        distances = {4 * a.heads * size for size in (a.depth, a.columns)}
        conflicts = any(distance % _L1_PERIOD == 0 for distance in distances)
        scattered = a.heads > 1 and (conflicts or hint_of(a.keys) > _MOST_SCATTERED)
        self.gathers = scattered or self.step > 1

    def _block(self, keys: int) -> int:
        """Return the keys of a block; all blocks are of about the same size."""
        parts = blocks(keys, _KEYS)
        return blocks(keys, parts * self.together) * self.together

    def bias_specs(self) -> tuple[TensorSpec, ...]:
        a = self.attention
        if a.bias is None:
            return ()
        padded = ceil_div(a.queries, self.lanes) * self.lanes
        last = (a.keys, padded) if a.bias.of_queries else (1, a.keys)
        return (TensorSpec((a.bias.batch, a.bias.heads, *last)),)

    def scratch(self) -> tuple[TensorSpec, ...]:
        a, step = self.attention, self.step
        if not self.gathers:
            return ()
        kind = "float32" if step == 1 else DOT2
        values, columns = ceil_div(a.keys, self.together) * self.together // step, a.columns
        if self.amx:
            columns = blocks(columns, COLUMNS) * COLUMNS
        sizes = (a.keys, a.depth // step), (values, columns)
        return tuple(TensorSpec((a.batch, a.heads, *size), kind) for size in sizes)

    def phases(self) -> tuple[Phase, ...]:
        a, tensors = self.attention, Head(self.attention, (), 0, 0, self.gathers)
        rows = {self.strip}
        if isinstance(a.queries, int):
            rows = {min(self.strip, a.queries), a.queries % self.strip} - {0}
        sources = frozenset().union(*(self._strip(tensors, 0, n).sources() for n in rows))
        strips = phase(self.num_tiles, self.emit, sources=sources)
        if not self.gathers:
            return (strips,)
        work = _GATHER_WORK / hint_of(a.queries)
        return phase(2 * a.batch * a.heads, self.gather, work=work), strips

    def gather(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        """Emit the copies of keys and of values; a tile is one of them for one head."""
        a, step = self.attention, self.step
        matrices = a.batch * a.heads
        keys = self._together(buffers[1], (a.batch, a.keys, a.heads, a.depth))

        def values(matrix: Expr) -> None:
            if step == 1:
                self._copy(buffers[2], buffers[-1], a.columns, matrix)
            else:
                self._pair_rows(buffers[2], buffers[-1], matrix)

        with T.serial(begin, begin + extent) as t, T.If(t < matrices):
            with T.Then():
                self._copy(keys, buffers[-2], a.depth // step, t)
            with T.Else():
                values(t - matrices)

    def _copy(self, source: Any, result: Any, size: int, matrix: Expr) -> None:
        """Copy the rows of a matrix together."""
        image, head = matrix // self.attention.heads, matrix % self.attention.heads

        def row(key: Expr) -> None:
            def part(at: Expr, width: int) -> None:
                place = lanes_of(at, width)
                value = source[image, key, head, place]
                T.buffer_store(result, value, [image, head, key, place])

            along(size, self.lanes, part)

        loop(self.attention.keys, row)

    def _pair_rows(self, source: Any, result: Any, matrix: Expr) -> None:
        """Bring every two rows of a matrix together; the last one may be beside zeros.

        Zeros fill up the last step.
        """
        image, head = matrix // self.attention.heads, matrix % self.attention.heads

        def rows(pair: Expr, count: int) -> None:
            def part(at: Expr, width: int) -> None:
                place = lanes_of(at, width)
                both = [source[image, pair * 2 + i, head, place] for i in range(count)]
                T.buffer_store(result, joined(*both), [image, head, pair, place])

            along(self.attention.columns, self.lanes, part)

        whole, lone = divmod(self.attention.keys, 2)
        if whole:
            loop(whole, lambda i: rows(i, 2))
        if lone:
            rows(whole, 1)
        first = whole + lone

        def clear(pair: Expr) -> None:
            def part(at: Expr, width: int) -> None:
                zero = splat(T.int32(0), width)
                T.buffer_store(result, zero, [image, head, pair, lanes_of(at, width)])

            along(self.attention.columns, self.lanes, part)

        if first < int(result.shape[2]):
            loop(int(result.shape[2]) - first, lambda i: clear(first + i))

    def _strip(self, tensors: Head, first: Expr, rows: int) -> Strip:
        """Return the strip of ``rows`` queries from ``first`` on."""
        kind = AmxStrip if self.amx else Strip
        return kind(tensors, self.multiplication, self.block, self.core, first, rows)

    def _together(self, buffer: Any, shape: Sequence[int]) -> Any:
        """Return queries or keys as what a step multiplies."""
        return buffer if self.step == 1 else as_dot2(buffer, (*shape[:-1], shape[-1] // 2))

    def emit(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        """Emit strips of queries."""
        a = self.attention
        queries = self._together(buffers[0], (a.batch, a.queries, a.heads, a.depth))
        buffers = [queries, *buffers[1:]]
        with T.serial(begin, begin + extent) as t, tile_scope():
            strip = bind(t % self.strips)
            head = bind(t // self.strips % a.heads)
            image = bind(t // (self.strips * a.heads))
            tensors = Head(a, buffers, image, head, self.gathers)

            if self.is_open:
                self._emit_open(tensors, strip)
            else:
                self._emit_strip(tensors, strip)

    def _emit_strip(self, tensors: Head, strip: Expr) -> None:
        def rows(first: Expr, count: int) -> None:
            self._strip(tensors, first, count).emit()

        full, rest = divmod(self.attention.queries, self.strip)
        last = (1 if rest else 0, lambda _: rows(full * self.strip, rest))
        select(strip, [(full, lambda i: rows(i * self.strip, self.strip)), last])

    def _emit_open(self, tensors: Head, strip: Expr) -> None:
        """Emit a strip of an open number of queries, with room for as many vectors as it needs."""
        first = bind(strip * self.strip)
        left = bind(T.min(number(self.attention.queries) - first, self.strip))

        def rows(room: int) -> None:
            common = (tensors, self.multiplication, self.block, self.core)
            OpenStrip(*common, first, room, left).emit()

        def emit(room: int) -> None:
            if room == self.lanes:
                rows(room)
                return
            with T.If(left > room - self.lanes):
                with T.Then():
                    rows(room)
                with T.Else():
                    emit(room - self.lanes)

        emit(self.strip)
