# SPDX-License-Identifier: Apache-2.0
"""Attention: ``softmax(scale * Q K^T + bias) V`` without its scores in memory.

A tile is a strip of queries of one head. The scores of a block of keys lie on the worker's stack.

The rows of a head lie at the distance of all heads, which is often a multiple of a large power of
two. Such rows displace each other from L1. Where there are many, the keys and the values of each
head are copied together first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm.tirx.script import builder as T

from ....target import Core
from ....tir.emit import bind, lanes_of, loop, select, tile_scope
from ....tir.tensor import TensorSpec
from .attention_strip import Attention, Head, Strip
from .kernel import Kernel, Phase
from .layout import blocks
from .scan import along

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


def attention_kernel(attention: Attention, core: Core) -> Kernel:
    """Return the kernel of an attention.

    Its inputs are the queries, the keys and the values, ``[batch, rows, heads, columns]``, then the
    bias if there is one, ``[batch, heads, 1, keys]`` or packed, and the epilogue's arguments.
    """
    a, emitter = attention, _AttentionEmitter(attention, core)
    result = TensorSpec((a.batch, a.queries, a.heads, a.columns))
    specs = {"full": result, "last": TensorSpec((a.columns,))}
    return Kernel(
        name="attention",
        key=("attention", attention, core),
        inputs=(
            TensorSpec((a.batch, a.queries, a.heads, a.depth)),
            TensorSpec((a.batch, a.keys, a.heads, a.depth)),
            TensorSpec((a.batch, a.keys, a.heads, a.columns)),
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

    def __init__(self, attention: Attention, core: Core) -> None:
        a = self.attention = attention
        assert max(a.depth, a.columns) <= MOST_DEPTH, "a strip fits on the stack"
        self.core, self.lanes = core, core.lanes
        most = _STRIP if max(a.depth, a.columns) <= _WIDE_DEPTH else 1
        self.strip = min(most, blocks(a.queries, core.lanes)) * core.lanes
        self.strips = blocks(a.queries, self.strip)
        self.tiles = a.batch * a.heads * self.strips
        self.block = blocks(a.keys, blocks(a.keys, _KEYS))
        distances = {4 * a.heads * size for size in (a.depth, a.columns)}
        conflicts = any(distance % _L1_PERIOD == 0 for distance in distances)
        self.gathers = a.heads > 1 and (conflicts or a.keys > _MOST_SCATTERED)

    def bias_specs(self) -> tuple[TensorSpec, ...]:
        a = self.attention
        if a.bias is None:
            return ()
        padded = blocks(a.queries, self.lanes) * self.lanes
        last = (a.keys, padded) if a.bias.of_queries else (1, a.keys)
        return (TensorSpec((a.bias.batch, a.bias.heads, *last)),)

    def scratch(self) -> tuple[TensorSpec, ...]:
        a = self.attention
        sizes = (a.depth, a.columns) if self.gathers else ()
        return tuple(TensorSpec((a.batch, a.heads, a.keys, size)) for size in sizes)

    def phases(self) -> tuple[Phase, ...]:
        a, strips = self.attention, Phase(self.tiles, self.emit)
        if not self.gathers:
            return (strips,)
        return Phase(2 * a.batch * a.heads, self.gather, work=_GATHER_WORK / a.queries), strips

    def gather(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        """Emit the copies of keys and of values; a tile is one of them for one head."""
        a = self.attention

        def copy(source: Any, result: Any, size: int, matrix: Expr) -> None:
            image, head = matrix // a.heads, matrix % a.heads

            def row(key: Expr) -> None:
                def part(at: Expr, width: int) -> None:
                    place = lanes_of(at, width)
                    value = source[image, key, head, place]
                    T.buffer_store(result, value, [image, head, key, place])

                along(size, self.lanes, part)

            loop(a.keys, row)

        matrices = a.batch * a.heads
        keys, values = ((buffers[1], buffers[-2]), (buffers[2], buffers[-1]))
        with T.serial(begin, begin + extent) as t:
            select(
                t,
                [
                    (matrices, lambda i: copy(*keys, a.depth, i)),
                    (matrices, lambda i: copy(*values, a.columns, i)),
                ],
            )

    def emit(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        """Emit strips of queries."""
        a = self.attention
        with T.serial(begin, begin + extent) as t, tile_scope():
            strip = bind(t % self.strips)
            head = bind(t // self.strips % a.heads)
            image = bind(t // (self.strips * a.heads))
            tensors = Head(a, buffers, image, head, self.gathers)

            def rows(first: Expr, count: int) -> None:
                Strip(tensors, self.block, self.core, first, count).emit()

            full, rest = divmod(a.queries, self.strip)
            last = (1 if rest else 0, lambda _: rows(full * self.strip, rest))
            select(strip, [(full, lambda i: rows(i * self.strip, self.strip)), last])
