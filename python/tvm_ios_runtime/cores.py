# SPDX-License-Identifier: Apache-2.0
"""Allocation of the process's cores to calls, so that concurrent calls run on different cores.

The workers of a model wait for each other without sleeping. If two models ran on the same cores,
each would wait for workers that the system has suspended.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from tvm_ios_env.machine import default_threads


class Cores:
    """A FIFO semaphore that counts cores: it grants requests in the order in which they were made.

    A request for many cores is not passed over by later ones for fewer.

    Parameters
    ----------
    total : int
        The number of cores.
    """

    def __init__(self, total: int) -> None:
        self._total = self._free = total
        self._lock = threading.Lock()
        self._waiting: deque[_Request] = deque()

    @contextmanager
    def acquire(self, wanted: int) -> Iterator[None]:
        """Acquire ``wanted`` cores, or all if there are fewer, and release them after the block.

        The call waits until they are free.
        """
        count = min(wanted, self._total)
        self._wait(count)
        try:
            yield
        finally:
            self._release(count)

    def _wait(self, count: int) -> None:
        request = _Request(count)
        with self._lock:
            self._waiting.append(request)
            self._grant()
        try:
            request.granted.wait()
        except BaseException:  # an interrupt
            with self._lock:
                if not request.granted.is_set():
                    self._waiting.remove(request)
                    count = 0
            self._release(count)
            raise

    def _release(self, count: int) -> None:
        with self._lock:
            self._free += count
            self._grant()

    def _grant(self) -> None:
        while self._waiting and self._waiting[0].count <= self._free:
            request = self._waiting.popleft()
            self._free -= request.count
            request.granted.set()


class _Request:
    """A request for a number of cores."""

    def __init__(self, count: int) -> None:
        self.count, self.granted = count, threading.Event()


CORES = Cores(default_threads())
"""The cores of the process."""
