# SPDX-License-Identifier: Apache-2.0
"""How far away memory is, in units of arithmetic: what decides between two ways to compute."""

from __future__ import annotations

import functools

import tvm

from ..errors import TargetError
from ..target import TYPICAL, Transfers, check_runnable, core_of
from .fma import MultiplyAdds
from .streams import measure_kinds

_FAR, _MEMORY = 4, 64  # second caches: more than it holds; more than a share of the third one
_REPEAT = 10


def transfers_of(target: tvm.target.Target) -> Transfers:
    """What this machine takes, measured once; what is typical where ``target`` does not run."""
    try:
        check_runnable(target)
    except TargetError:
        return TYPICAL
    return _measure(str(target))


@functools.cache
def _measure(description: str) -> Transfers:
    target = tvm.target.Target(description)
    core = core_of(target)
    vectors = MultiplyAdds(target).gflops(_REPEAT) * 1e9 / (2 * core.lanes)

    def multiply_adds(bytes_per_worker: int) -> float:
        """That all workers do while they read a vector."""
        speed = measure_kinds(target, bytes_per_worker, ["read"])["read"] * 1e9
        return vectors * 4 * core.lanes / speed

    far, memory = (multiply_adds(n * core.l2_bytes) for n in (_FAR, _MEMORY))
    return Transfers(far, max(far, memory))
