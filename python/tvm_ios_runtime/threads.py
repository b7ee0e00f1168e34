# SPDX-License-Identifier: Apache-2.0
"""TVM's threads as a guest of the process: they narrow nobody's cores, and sleep between calls.

Each thread that runs a model on several threads owns a pool of TVM's, which is made at its first
launch and never grows. By itself TVM binds the workers to the machine's first cores, whoever else
is there, binds the thread that calls to some of them, and has workers spin for hundreds of
milliseconds. What the user has set in the environment is left alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import tvm_ffi

from tvm_ios_env.machine import spread_cores

SHARE_ALL_CORES = -3  # tvm::runtime::threading::ThreadGroup::kSpecifyThreadShareAllCore

DEFAULTS = {
    "TVM_BIND_THREADS": "0",
    # How often a worker looks for work before it sleeps, and lets others run in between, which
    # takes 0.3 to 1 us.
    "TVM_THREAD_POOL_SPIN_COUNT": "1000",
}
"""What TVM is told by the environment."""

T = TypeVar("T")


def set_defaults() -> None:
    """Set what the user has not; TVM looks when the first pool of the process is made."""
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)


@contextmanager
def on_distinct_cores(threads: int) -> Iterator[None]:
    """Threads that are started inside may run on what is best for so many.

    They inherit it from this thread, which has its own cores back in the end.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, spread_cores(threads) & before or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def make_pool(workers: int) -> bool:
    """Make this thread's pool; False where it has one that is too small."""
    with on_distinct_cores(workers):
        names = [str(core) for core in range(workers)]
        tvm_ffi.get_global_func("runtime.config_threadpool")(SHARE_ALL_CORES, workers, names)
    threads: int = tvm_ffi.get_global_func("runtime.NumThreads")()
    return threads >= workers


class Runner:
    """Runs what takes ``workers`` threads: on the thread that asks, or on one with a larger pool.

    It belongs to one thread.
    """

    def __init__(self, workers: int) -> None:
        self._helper: ThreadPoolExecutor | None = None
        if workers > 1 and not make_pool(workers):
            self._helper = ThreadPoolExecutor(1, "tvm_ios", make_pool, (workers,))

    def __call__(self, work: Callable[[], T]) -> T:
        return work() if self._helper is None else self._helper.submit(work).result()
