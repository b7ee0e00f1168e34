# SPDX-License-Identifier: Apache-2.0
"""TVM's thread pool, resized to the number of workers of a schedule.

Each host thread that launches parallel work owns a pool. The pool is created at the first launch,
with half the machine's cores unless it was configured before, and never grows.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import TypeVar

from tvm_ios_runtime.threads import set_num_threads

__all__ = ["set_num_threads", "with_num_threads"]

T = TypeVar("T")


def with_num_threads(workers: int, work: Callable[[], T]) -> T:
    """Run ``work()`` on a thread whose pool has ``workers`` threads.

    That is this thread if possible, else a new one. An interrupt is passed on to the new thread.
    """
    if workers == 1 or set_num_threads(workers):
        return work()
    outcome: list[T] = []
    failure: list[BaseException] = []

    def body() -> None:
        try:
            set_num_threads(workers)
            outcome.append(work())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=body, name="tvm_ios-measure", daemon=True)
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        _interrupt(thread)
        raise
    if failure:
        raise failure[0]
    return outcome[0]


def _interrupt(thread: threading.Thread) -> None:
    """Raise KeyboardInterrupt in ``thread`` and wait until it has ended."""
    ident = ctypes.c_ulong(thread.ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(KeyboardInterrupt))
    thread.join(timeout=1.0)
