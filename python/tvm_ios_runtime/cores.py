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
    """A number of cores, granted in the order of requests.

    Parameters
    ----------
    total : int
        The number of cores.
    """

    def __init__(self, total: int) -> None:
        self._total = self._free = total
        self._lock = threading.Lock()
        self._waiting: deque[_Wish] = deque()

    @contextmanager
    def lent(self, wanted: int) -> Iterator[None]:
        """Hold ``wanted`` cores, or all if there are fewer; wait until they are free."""
        count = min(wanted, self._total)
        self._wait(count)
        try:
            yield
        finally:
            self._give_back(count)

    def _wait(self, count: int) -> None:
        wish = _Wish(count)
        with self._lock:
            self._waiting.append(wish)
            self._lend()
        try:
            wish.granted.wait()
        except BaseException:  # an interrupt
            with self._lock:
                if not wish.granted.is_set():
                    self._waiting.remove(wish)
                    count = 0
            self._give_back(count)
            raise

    def _give_back(self, count: int) -> None:
        with self._lock:
            self._free += count
            self._lend()

    def _lend(self) -> None:
        while self._waiting and self._waiting[0].count <= self._free:
            wish = self._waiting.popleft()
            self._free -= wish.count
            wish.granted.set()


class _Wish:
    """A request for a number of cores."""

    def __init__(self, count: int) -> None:
        self.count, self.granted = count, threading.Event()


CORES = Cores(default_threads())
"""The cores of the process."""
