# SPDX-License-Identifier: Apache-2.0
"""Who may use the process's cores: calls from several threads do not run on the same ones.

The workers of a model wait for each other without sleeping. Two models at once on the same cores
would each wait for workers that the system has taken off their core.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from tvm_ios_env.machine import default_threads


class Cores:
    """Cores that are lent in the order in which they were asked for.

    Parameters
    ----------
    total : int
    """

    def __init__(self, total: int) -> None:
        self._total = self._free = total
        self._lock = threading.Lock()
        self._waiting: deque[_Wish] = deque()

    @contextmanager
    def lent(self, wanted: int) -> Iterator[None]:
        """Wait until so many are free, or all where there are fewer, and have them meanwhile."""
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
    """How many cores somebody waits for."""

    def __init__(self, count: int) -> None:
        self.count, self.granted = count, threading.Event()


CORES = Cores(default_threads())
"""Those of the process."""
