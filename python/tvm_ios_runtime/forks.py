# SPDX-License-Identifier: Apache-2.0
"""Models in a process that was forked from one in which a model had run.

A fork leaves the threads of TVM's pool behind: the thread that goes on in the child would wait for
ever for workers that are not there. So the child makes that thread's pool anew, at once: before
other threads are given the memory of those that are gone, by which the pool would take them for its
own when it waits for their end.
"""

from __future__ import annotations

import ctypes
import os

_RESET = "_ZN3tvm7runtime9threading15ResetThreadPoolEv"  # tvm::runtime::threading::ResetThreadPool


_resets: list[ctypes._CFuncPtr] = []
_has_run = False


def watch(runtime: ctypes.CDLL) -> None:
    """Keep the pool of TVM's runtime library working in forked processes."""
    if not _resets:
        _resets.append(getattr(runtime, _RESET))
        os.register_at_fork(after_in_child=_after_fork)


def note_run() -> None:
    """Say that a model runs, and that there is a pool."""
    global _has_run
    _has_run = True


def _after_fork() -> None:
    if _has_run:
        for reset in _resets:
            reset()
