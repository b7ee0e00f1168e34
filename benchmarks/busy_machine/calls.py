# SPDX-License-Identifier: Apache-2.0
"""How long calls take that several threads make at the same time."""

from __future__ import annotations

import contextlib
import gc
import resource
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

Call = Callable[[], Any]


@dataclass
class Slice:
    """What was counted.

    Attributes
    ----------
    latencies_ns : list of int
        Of each call.
    others : int
        Calls of the companion meanwhile.
    cpu_s : float
        Seconds of processor time that the process spent, in the system, too.
    wall_s : float
    elsewhere_s : float
        Seconds of processor time that other processes spent in ``span_s`` seconds around it.
    span_s : float
    """

    latencies_ns: list[int] = field(default_factory=list)
    others: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    elsewhere_s: float = 0.0
    span_s: float = 0.0

    def add(self, other: Slice) -> None:
        """Count another slice, too."""
        for value in fields(self):
            both = getattr(self, value.name) + getattr(other, value.name)
            setattr(self, value.name, both)


class Callers:
    """Threads that call for a while whenever they are told to.

    The first caller is the thread that calls :meth:`slice`. The others stay the same threads, as
    runtimes keep what belongs to a thread.

    Parameters
    ----------
    calls : sequence of callable
        One for each caller.
    companion : callable, optional
        What one more thread calls again and again at the same time.
    """

    def __init__(self, calls: Sequence[Call], companion: Call | None = None) -> None:
        self._calls, self._companion = calls, companion
        self._threads = ThreadPoolExecutor(len(calls))
        self._times: list[list[int]] = []
        self._others, self._end = 0, 0.0
        self._over = threading.Event()

    def slice(self, seconds: float, least: int) -> Slice:
        """Call for a time, and until there are enough calls of all together."""
        self._times, self._others = [[] for _ in self._calls], 0
        self._over.clear()
        gc.collect()
        gc.disable()
        try:
            return self._slice(seconds, least)
        finally:
            gc.enable()

    def _slice(self, seconds: float, least: int) -> Slice:
        began = [0.0, 0.0]

        def begin() -> None:
            began[:] = time.perf_counter(), _cpu_seconds()
            self._end = began[0] + seconds

        tasks: list[Callable[[threading.Barrier], None]] = [
            partial(self._repeat, number, least) for number in range(1, len(self._calls))
        ]
        if self._companion is not None:
            tasks.append(self._accompany)
        ready = threading.Barrier(1 + len(tasks), begin)
        running = [self._threads.submit(task, ready) for task in tasks]
        try:
            self._repeat(0, least, ready)
        finally:
            self._over.set()
        for future in running:
            future.result()
        wall, cpu = time.perf_counter() - began[0], _cpu_seconds() - began[1]
        return Slice([t for times in self._times for t in times], self._others, cpu, wall)

    def _repeat(self, number: int, least: int, ready: threading.Barrier) -> None:
        """Call once to warm up, and as soon as all have done so, until the end."""
        call, times = self._calls[number], self._times[number]
        with _aborting(ready):
            call()
            ready.wait()
        while time.perf_counter() < self._end or sum(map(len, self._times)) < least:
            before = time.perf_counter_ns()
            call()
            times.append(time.perf_counter_ns() - before)

    def _accompany(self, ready: threading.Barrier) -> None:
        assert self._companion is not None
        with _aborting(ready):
            self._companion()
            ready.wait()
        while not self._over.is_set():
            self._companion()
            self._others += 1


@contextlib.contextmanager
def _aborting(barrier: threading.Barrier) -> Iterator[None]:
    """Break the barrier if the block fails, so that nobody waits for this thread."""
    try:
        yield
    except BaseException:
        barrier.abort()
        raise


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
