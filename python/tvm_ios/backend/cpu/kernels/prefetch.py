# SPDX-License-Identifier: Apache-2.0
"""Prefetching of weights: they come from memory while others are multiplied.

A network reads each of its weights once per run, mostly from memory. All tiles of a chunk of output
channels multiply by the chunk's weights. Without prefetching the first tile waits for memory, and
memory is idle during the others. Instead each tile prefetches its share of the next chunk's weights
into L2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.tirx.script import builder as T

from ....tir.emit import bind, unroll

Expr = Any

_LINE = 16  # float32 elements of a cache line
_READ, _TO_SECOND_CACHE, _DATA = 0, 2, 1  # arguments of llvm.prefetch


@dataclass(frozen=True)
class Ahead:
    """The weights that one tile prefetches, step by step of its reduction.

    Attributes
    ----------
    weights : Buffer
        The packed weights.
    first : Expr
        Element at which the tile's share begins.
    vectors : int
        Vectors to prefetch in each step.
    lanes : int
        Elements of a vector.
    """

    weights: Any
    first: Expr
    vectors: int
    lanes: int

    def step(self, number: Expr) -> None:
        """Emit the prefetches of step ``number``."""
        count = self.vectors * self.lanes
        begin = bind(self.first + number * count)

        def fetch(i: Expr) -> None:
            place = self.weights.access_ptr("r", offset=begin + i * _LINE)
            arguments = (place, *map(T.int32, (_READ, _TO_SECOND_CACHE, _DATA)))
            T.evaluate(T.call_llvm_intrin("void", "llvm.prefetch", *arguments))

        unroll(0, -(-count // _LINE), fetch)
