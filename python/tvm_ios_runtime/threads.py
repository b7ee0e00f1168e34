# SPDX-License-Identifier: Apache-2.0
"""Settings of TVM's threads that leave the process's affinity unchanged and sleep between calls.

Each thread that runs a model on several threads owns a pool, which is created at its first launch
and never grows. By default TVM binds the workers to the machine's first cores, even if others use
them, binds the calling thread to some of them, and lets workers spin for hundreds of milliseconds.
Settings that the user made in the environment are not changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle, islice
from typing import TypeVar

import tvm_ffi

from tvm_ios_env.machine import spread_cores, usable_cores

SHARE_ALL_CORES = -3  # tvm::runtime::threading::ThreadGroup::kSpecifyThreadShareAllCore

DEFAULTS = {
    "TVM_BIND_THREADS": "0",
    # How often a worker polls for work before it sleeps. It yields in between, which takes
    # 0.3 to 1 us.
    "TVM_THREAD_POOL_SPIN_COUNT": "1000",
}
"""The environment variables that TVM reads."""

T = TypeVar("T")


def set_defaults() -> None:
    """Set the environment variables that are not set; TVM reads them for its first pool."""
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)


@contextmanager
def on_distinct_cores(threads: int) -> Iterator[None]:
    """Start threads inside the ``with`` block on the best cores for this number of threads.

    They inherit this thread's affinity, which is restored at the end.
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


def set_num_threads(workers: int) -> bool:
    """Configure this thread's pool; return False if it exists already and is too small.

    TVM takes as many workers as there are names of cores; with more workers than cores, names are
    repeated. A compiled network, which does not know the cores, does the same without Python, by
    :mod:`tvm_ios.backend.cpu.code.thread_pool`.
    """
    names = [str(core) for core in islice(cycle(usable_cores()), workers)]
    with on_distinct_cores(workers):
        tvm_ffi.get_global_func("runtime.config_threadpool")(SHARE_ALL_CORES, workers, names)
    threads: int = tvm_ffi.get_global_func("runtime.NumThreads")()
    return threads >= workers


class Runner:
    """A runner of functions that need ``workers`` threads, on the calling thread or a helper.

    It belongs to one thread. The helper thread is used if the calling thread's pool is too small.
    """

    def __init__(self, workers: int) -> None:
        self._helper: ThreadPoolExecutor | None = None
        if workers > 1 and not set_num_threads(workers):
            self._helper = ThreadPoolExecutor(1, "tvm_ios", set_num_threads, (workers,))

    def __call__(self, work: Callable[[], T]) -> T:
        return work() if self._helper is None else self._helper.submit(work).result()
