# SPDX-License-Identifier: Apache-2.0
"""Machine balance: the cost of memory in units of arithmetic, by which kernels are chosen."""

from __future__ import annotations

import functools

import tvm

from ....database import DeviceIdentity, MeasurementDatabase
from ....measure.cache import MeasurementCache, WorkloadKey
from ....support.errors import TargetError
from ....target import num_workers
from ..core import TYPICAL, MachineBalance, check_runnable, core_of
from .memory_bandwidth import measure_kinds
from .peak_flops import MultiplyAdds

_FAR, _MEMORY = 4, 64  # in sizes of L2: more than L2 holds; more than a core's share of L3
_REPEAT = 10
_NAMES = ("multiply_add", "far", "memory")


def machine_balance(
    target: tvm.target.Target, database: MeasurementDatabase | None = None
) -> MachineBalance:
    """Return this machine's balance, measured once, or a typical one for other machines.

    Kernels are chosen by it. A database keeps it, so that the next compilation chooses the same
    kernels.
    """
    try:
        check_runnable(target)
    except TargetError:
        return TYPICAL
    seconds = _measure(str(target)) if database is None else _recalled(target, database)
    multiply_add, far, memory = (seconds[name] for name in _NAMES)
    return MachineBalance(
        far / multiply_add,
        max(far, memory) / multiply_add,
        multiply_add * num_workers(target),  # all workers were busy
    )


def _recalled(target: tvm.target.Target, database: MeasurementDatabase) -> dict[str, float]:
    cache = MeasurementCache(database, DeviceIdentity.here(target))
    workload = WorkloadKey(
        "transfers", (), ("transfers", core_of(target)), "a vector read from afar"
    )
    cache.lookup([workload])
    if not cache.samples(workload.key):
        measured = _measure(str(target))
        cache.add(workload, {name: [seconds] for name, seconds in measured.items()})
    samples = cache.samples(workload.key)
    return {name: samples[name][0] for name in _NAMES}


@functools.cache
def _measure(description: str) -> dict[str, float]:
    """Measure the seconds of a vector multiply-add, and of reading a vector on all workers."""
    target = tvm.target.Target(description)
    core = core_of(target)
    vectors = MultiplyAdds(target).gflops(_REPEAT) * 1e9 / (2 * core.lanes)

    def read(bytes_per_worker: int) -> float:
        speed = measure_kinds(target, bytes_per_worker, ["read"])["read"] * 1e9
        return 4 * core.lanes / speed

    far, memory = (read(n * core.l2_bytes) for n in (_FAR, _MEMORY))
    return dict(zip(_NAMES, (1 / vectors, far, memory), strict=True))
