# SPDX-License-Identifier: Apache-2.0
"""What the cores of a machine share, and what it takes them to tell each other something."""

from __future__ import annotations

import math
import os
import statistics
import threading
import time
from dataclasses import dataclass

import numpy as np

import pool
from tvm_ios.backend.cpu.core import core_of
from tvm_ios.backend.cpu.measure import memory_bandwidth
from tvm_ios.backend.cpu.measure.peak_flops import MultiplyAdds
from tvm_ios.target import available_cores, resolve
from tvm_ios_env.machine import data_caches

_TRIES = 5
_BEYOND = 64  # sizes of L2: more than a core's share of L3
_BUFFER, _REPEAT = 1 << 16, 101  # float32 numbers, a quarter of a usual L2


@dataclass(frozen=True)
class Machine:
    """A machine with a core for each worker.

    Attributes
    ----------
    bandwidth : float
        Bytes per second that all cores together read from memory.
    transfer : float
        Seconds by which reading a byte takes longer if another core wrote it last.
    signal : float
        Seconds until a worker that waits sees what another one has noted.
    barrier_per_worker, launch_per_worker : float
        Seconds of a barrier and of a launch by worker: all of them write to one that reads.
    clock : float
        The clock of a core alone, in those of a core while all are busy.
    cores : int
        That many share this clock, bandwidth and cache.
    cache_bytes : int
        The last cache, from which weights are read that fit.
    """

    bandwidth: float
    transfer: float
    signal: float
    barrier_per_worker: float
    launch_per_worker: float
    clock: float
    cores: int
    cache_bytes: int

    def slowdown(self, workers: int) -> float:
        """Return how much slower a core computes while so many are busy."""
        if workers == 1 or self.cores == 1:
            return 1.0
        return 1 + (self.clock - 1) * min(1.0, math.log(workers) / math.log(self.cores))

    def barrier(self, workers: int) -> float:
        """Return the seconds of a barrier."""
        return self.barrier_per_worker * workers if workers > 1 else 0.0

    def launch(self, workers: int) -> float:
        """Return the seconds until all workers have begun."""
        return self.launch_per_worker * workers if workers > 1 else 0.0


def this_machine() -> Machine:
    """Measure this machine several times, and take the best: others may use it."""
    cores = available_cores()
    found = [_measure(cores) for _ in range(_TRIES)]
    alone, together, bandwidth, launch, barrier, transfer = zip(*found, strict=True)
    return Machine(
        bandwidth=max(bandwidth),
        transfer=statistics.median(transfer),
        signal=min(barrier) / 2,  # a barrier is a signal to one, and one back
        barrier_per_worker=min(barrier) / cores,
        launch_per_worker=min(launch) / cores,
        clock=max(1.0, cores * max(alone) / max(together)),
        cores=cores,
        cache_bytes=max((cache.size for cache in data_caches()), default=0),
    )


def _measure(cores: int) -> tuple[float, float, float, float, float, float]:
    """Return GFLOP/s of one core and of all, bytes per second that all read from memory, and the
    seconds of a launch, of a barrier, and of moving a byte."""
    alone, together = (resolve("llvm", threads=n) for n in (1, cores))
    bytes_each = _BEYOND * core_of(together).l2_bytes
    costs = pool.measure(together) if cores > 1 else pool.PoolCosts(1, 0.0, 0.0, 0.0)
    return (
        MultiplyAdds(alone).gflops(),
        MultiplyAdds(together).gflops(),
        memory_bandwidth.measure_kinds(together, bytes_each, ["read"])["read"] * 1e9,
        1e-6 * costs.launch,
        1e-6 * costs.barrier,
        _transfer() if cores > 1 else 0.0,
    )


def _transfer() -> float:
    """Return by how much reading a byte takes longer if another core wrote it last, in seconds."""
    first, second, *_ = sorted(os.sched_getaffinity(0))
    buffer, copy, taken = np.zeros(_BUFFER, "float32"), np.ones(_BUFFER, "float32"), {}
    turns = [threading.Barrier(2) for _ in range(2)]

    def write() -> None:
        os.sched_setaffinity(0, {second})
        for number in range(2 * _REPEAT):
            if number % 2:
                buffer.fill(number)
            for turn in turns:
                turn.wait()

    def read() -> None:
        os.sched_setaffinity(0, {first})
        samples: tuple[list[float], list[float]] = ([], [])
        for number in range(2 * _REPEAT):
            if number % 2 == 0:
                buffer.fill(number)
            turns[0].wait()
            begin = time.perf_counter()
            np.copyto(copy, buffer)
            samples[number % 2].append(time.perf_counter() - begin)
            turns[1].wait()
        taken.update(own=min(samples[0]), foreign=min(samples[1]))

    threads = [threading.Thread(target=each) for each in (write, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return max(0.0, float(taken["foreign"] - taken["own"])) / buffer.nbytes
