# SPDX-License-Identifier: Apache-2.0
"""Weights as cold as they are when the whole network runs.

A stage that is run again and again finds its weights in the nearest cache. In the network, all
other weights are read in between. A measured run therefore reads its weights from a place of its
own in an arena as large as all weights of the network together, and the next run from the next
place: what was read a round ago has been evicted from where the network would have evicted it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import tvm_ffi

from ..kernels.kernel import TensorSpec

_THIRD = 64  # second caches: more than a share of the third one
_ALIGNMENT = 64  # bytes that TVM's code generator takes for granted


class ColdWeights:
    """An arena of float32 that hands out tensors one after another, round and round.

    Parameters
    ----------
    specs : iterable of TensorSpec
        All constants of the network.
    random : numpy.random.Generator
        What the arena is filled with: zeros could be faster to compute with than weights are.
    """

    def __init__(self, specs: Iterable[TensorSpec], random: np.random.Generator) -> None:
        self._grow(arena_bytes(specs) // 4, random)
        self._random = random
        self._next = 0

    def take(self, spec: TensorSpec) -> tvm_ffi.Tensor:
        """A tensor of the next place; its values are random."""
        count = _aligned(spec.num_bytes) // 4
        if 2 * count > self._floats:  # a merged stage's padded weights
            self._grow(2 * count, self._random)
        if self._next + count > self._floats:
            self._next = 0
        place = self._arena[self._next : self._next + spec.num_bytes // 4]
        self._next += count
        return tvm_ffi.from_dlpack(place.reshape(spec.shape))

    def _grow(self, floats: int, random: np.random.Generator) -> None:
        self._floats = floats
        memory = np.empty(floats + _ALIGNMENT // 4, "float32")
        begin = -(memory.ctypes.data // 4) % (_ALIGNMENT // 4)
        self._arena = memory[begin : begin + floats]
        self._arena[:] = random.standard_normal(floats, "float32")


def arena_bytes(specs: Iterable[TensorSpec]) -> int:
    """The size of the arena: it decides which cache the weights are read from."""
    sizes = [_aligned(spec.num_bytes) for spec in specs if spec.dtype == "float32"]
    return max(sum(sizes), 2 * max(sizes, default=_ALIGNMENT))


def level_of(num_bytes: int, l2_bytes: int) -> str:
    """The level of the hierarchy that an arena is read from, by the size of a second cache."""
    if num_bytes <= l2_bytes:
        return "second cache"
    return "third cache" if num_bytes <= _THIRD * l2_bytes else "memory"


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
