# SPDX-License-Identifier: Apache-2.0
"""The levels of this machine's memory hierarchy."""

from __future__ import annotations

from collections.abc import Sequence

from machine import Cache
from tvm_ios.backend.cpu.measure.memory_bandwidth import Level

_MEMORY = 256 << 20  # bytes that no cache holds, where the system does not name its caches


def levels(caches: Sequence[Cache], workers: int) -> list[Level]:
    """One level a cache and one for memory, each filled half by what is streamed.

    A worker's share of a shared cache may be no larger than its private ones; such a level cannot
    be told from the one before and is left out.
    """
    found: list[Level] = []
    for cache in caches:
        share = cache.size // min(workers, cache.shared_by) // 2
        if not found or share >= 2 * found[-1].bytes_per_worker:
            found.append(Level(f"L{cache.level}", share))
    beyond = max([_MEMORY, *(8 * cache.size for cache in caches)])
    return [*found, Level("memory", beyond // workers)]
