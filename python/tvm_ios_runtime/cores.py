# SPDX-License-Identifier: Apache-2.0
"""Allocation of the process's cores to calls, so that concurrent calls run on different cores.

The workers of a model wait for each other without sleeping. If two models ran on the same cores,
each would wait for workers that the system has suspended.

An interrupt may come between any two steps, also of what gives cores back. So there is no count of
free cores that could become wrong: it is computed from the requests that have been granted, and
what was interrupted is done again from the beginning.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from tvm_ios_env.machine import default_threads

T = TypeVar("T")


class Cores:
    """A FIFO semaphore that counts cores: it grants requests in the order in which they were made.

    A request for many cores is not passed over by later ones for fewer.

    Parameters
    ----------
    total : int
        The number of cores.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._lock = threading.Lock()
        self._requests: list[_Request] = []  # those that wait, and those that were granted

    def run(self, wanted: int, work: Callable[[], T]) -> T:
        """Return ``work()``, which has ``wanted`` cores meanwhile, or all if there are fewer.

        The call waits until they are free. They are free again afterwards, also if an interrupt
        comes while they are waited for, used or given back.
        """
        request = _Request(min(wanted, self._total))
        try:
            try:
                self._wait(request)
                return work()
            finally:
                self._release(request)
        except BaseException:
            self._release(request)  # the interrupt may have come in the midst of it
            raise

    def _wait(self, request: _Request) -> None:
        with self._lock:
            self._requests.append(request)
            self._grant()
        request.gate.acquire()

    def _release(self, request: _Request) -> None:
        """Take a request back, at whatever step of it; do nothing if that was done."""
        with self._lock:
            if request in self._requests:
                self._requests.remove(request)
            self._grant()

    def _grant(self) -> None:
        free = self._total - sum(r.count for r in self._requests if r.granted)
        for request in self._requests:
            if not request.granted:
                if request.count > free:
                    break
                request.granted = True
                free -= request.count
            if request.gate.locked():  # also one that was granted when an interrupt came
                request.gate.release()


class _Request:
    """A request for a number of cores; the gate is open once it is granted."""

    def __init__(self, count: int) -> None:
        self.count, self.granted = count, False
        self.gate = threading.Lock()
        self.gate.acquire()


CORES = Cores(default_threads())
"""The cores of the process."""
