# SPDX-License-Identifier: Apache-2.0
"""Prefetching: what is multiplied next comes closer while something else is multiplied.

A network reads each of its weights once per run, mostly from memory. All tiles of a chunk of output
channels multiply by the chunk's weights. Without prefetching the first tile waits for memory, and
memory is idle during the others. Instead each tile prefetches its share of the next chunk's weights
into L2.

From there every tile reads them again, in an order that is simple but has a stream for each block
of channels, beside the inputs. Processors follow some of these streams, and late. Each step of a
reduction therefore prefetches into L1 what a step a little later reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx.script import builder as T

from ..isa.emit import bind, loop, unroll

Expr = Any

_LINE = 16  # float32 elements of a cache line
_READ, _DATA = 0, 1  # arguments of llvm.prefetch
_TO_FIRST_CACHE, _TO_SECOND_CACHE = 3, 2

NEAR = 8
"""Steps of a reduction between a prefetch into L1 and the use. A step of a register tile takes ten
to twenty cycles, and L2 answers after about fifteen if it is idle."""


def fetch_near(tensor: Any, place: Sequence[Expr]) -> None:
    """Prefetch the cache line of an element into L1; the place may lie behind the tensor's end."""
    (offset,) = tensor.offset_of(place)
    fetch(tensor, offset, _TO_FIRST_CACHE)


def per_line(elements: int) -> int:
    """Return how many runs of ``elements`` float32 lie in a cache line, at least one."""
    return max(1, _LINE // elements)


def fetch(tensor: Any, offset: Expr, cache: int) -> None:
    """Prefetch the cache line of the element at a flat ``offset`` of a tensor."""
    place = tensor.access_ptr("r", offset=offset)
    arguments = (place, *map(T.int32, (_READ, cache, _DATA)))
    T.evaluate(T.call_llvm_intrin("void", "llvm.prefetch", *arguments))


@dataclass(frozen=True)
class Ahead:
    """The weights that one tile prefetches, step by step of its reduction.

    Attributes
    ----------
    weights : Buffer
        The packed weights.
    first : Expr
        Element at which the tile's share begins.
    vectors : int or Expr
        Vectors to prefetch in each step.
    lanes : int
        Elements of a vector.
    """

    weights: Any
    first: Expr
    vectors: int | Expr
    lanes: int

    def step(self, number: Expr) -> None:
        """Emit the prefetches of step ``number``."""
        count = self.vectors * self.lanes
        begin = bind(self.first + number * count)

        def line(i: Expr) -> None:
            fetch(self.weights, begin + i * _LINE, _TO_SECOND_CACHE)

        if isinstance(count, int):
            unroll(0, -(-count // _LINE), line)
        else:
            loop(T.floordiv(count + (_LINE - 1), _LINE), line)
