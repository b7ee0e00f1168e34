# SPDX-License-Identifier: Apache-2.0
"""Weights as cold as they are when the whole network runs.

A stage that is run again and again finds its weights in the nearest cache. In the network, all
other weights are read in between. A measured run therefore reads its weights from a place of its
own in a ring arena, which is as large as all weights of the network together, and the next run from
the next place: what was read a round ago has been evicted from where the network would have evicted
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..ops.tensor import TensorSpec

_THIRD = 64  # L2 sizes: more than a share of an L3 cache
_ALIGNMENT = 64  # bytes that TVM's code generator takes for granted


@dataclass(frozen=True)
class Place:
    """Where a tensor lies: a byte of a memory."""

    memory: int
    offset: int = 0


class ColdWeights:
    """A ring arena: it hands out places one after another, and after the last the first again.

    Parameters
    ----------
    specs : iterable of TensorSpec
        All weights of the network.
    allocate : callable
        From bytes to the number of a memory with random values: zeros could be faster to compute
        with than weights are.
    """

    def __init__(self, specs: Iterable[TensorSpec], allocate: Callable[[int], int]) -> None:
        self._allocate, self._next = allocate, 0
        self._grow(arena_bytes(specs))

    def take(self, spec: TensorSpec) -> Place:
        """Return the next place of a tensor."""
        size = _aligned(spec.num_bytes)
        if 2 * size > self._size:  # a merged stage's padded weights
            self._grow(2 * size)
        if self._next + size > self._size:
            self._next = 0
        place = Place(self._memory, self._next)
        self._next += size
        return place

    def _grow(self, size: int) -> None:
        self._size, self._memory, self._next = size, self._allocate(size), 0


def arena_bytes(specs: Iterable[TensorSpec]) -> int:
    """Return the size of the arena, which decides the cache that weights are read from."""
    sizes = [_aligned(spec.num_bytes) for spec in specs]
    return max(sum(sizes), 2 * max(sizes, default=_ALIGNMENT))


def level_of(num_bytes: int, l2_bytes: int) -> str:
    """Return the level of the memory hierarchy that an arena is read from."""
    if num_bytes <= l2_bytes:
        return "L2"
    return "L3" if num_bytes <= _THIRD * l2_bytes else "memory"


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
