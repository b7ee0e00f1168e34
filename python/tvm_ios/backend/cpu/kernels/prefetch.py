# SPDX-License-Identifier: Apache-2.0
"""Weights on their way from memory while others are multiplied with.

A network reads each of its weights once a run, mostly from memory. All tiles of a chunk of output
channels multiply with the chunk's weights, so that the first of them would wait for memory, and
memory for the others. Instead each tile fetches its share of the next chunk's weights into the
second cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.tirx.script import builder as T

from ....tir.emit import bind, unroll

Expr = Any

_LINE = 16  # float32 of a cache line
_READ, _TO_SECOND_CACHE, _DATA = 0, 2, 1  # arguments of llvm.prefetch


@dataclass(frozen=True)
class Ahead:
    """What one tile fetches in steps of its reduction.

    Attributes
    ----------
    weights : Buffer
    first : Expr
        The element at which the tile's share begins.
    vectors : int
        To fetch in each step.
    lanes : int
        Elements of a vector.
    """

    weights: Any
    first: Expr
    vectors: int
    lanes: int

    def step(self, number: Expr) -> None:
        """Fetch what is due in step ``number``."""
        count = self.vectors * self.lanes
        begin = bind(self.first + number * count)

        def fetch(i: Expr) -> None:
            place = self.weights.access_ptr("r", offset=begin + i * _LINE)
            arguments = (place, *map(T.int32, (_READ, _TO_SECOND_CACHE, _DATA)))
            T.evaluate(T.call_llvm_intrin("void", "llvm.prefetch", *arguments))

        unroll(0, -(-count // _LINE), fetch)
