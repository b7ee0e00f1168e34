# SPDX-License-Identifier: Apache-2.0
"""The figures of a machine that describe its stages to the learned cost model.

In units of these figures, stages of machines of different speeds resemble each other.
"""

from __future__ import annotations

from dataclasses import dataclass

_FLOPS = 1e11  # of one worker, where nothing is known of the machine
_BANDWIDTH = 2e10
_BARRIER = 2e-6


@dataclass(frozen=True)
class Machine:
    """The figures of a machine.

    Attributes
    ----------
    workers : int
        What computes tiles at the same time.
    cache_bytes : int
        The size of one worker's share of the L2 caches, in bytes.
    flops : float
        The peak of all workers together, in floating-point operations per second.
    bandwidth : float
        The bytes per second that all workers together read from memory.
    barrier : float
        The seconds of one synchronisation of all workers.
    """

    workers: int
    cache_bytes: int
    flops: float
    bandwidth: float
    barrier: float = _BARRIER

    @classmethod
    def typical(cls, workers: int, cache_bytes: int) -> Machine:
        """Return typical figures for a machine of which only these are known."""
        return cls(workers, cache_bytes, _FLOPS * workers, _BANDWIDTH * workers)
