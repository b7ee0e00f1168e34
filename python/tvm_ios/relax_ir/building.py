# SPDX-License-Identifier: Apache-2.0
"""The lock under which functions are built by TVM's ``BlockBuilder``.

TVM keeps one stack of open functions for the whole process, not one for each thread. Two threads
that have functions open at once take each other's from it.
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager
from typing import Any

_lock: AbstractContextManager[Any] = threading.RLock()


def building() -> AbstractContextManager[Any]:
    """Return the lock to hold while a function of a ``BlockBuilder`` is open.

    Use it as ``with building(), builder.function(...):``. A thread may take it several times. It is
    the lock itself, and not a generator around it, so that an interrupt cannot come between taking
    it and the block that gives it back. Hold it neither while stages are measured nor while PyTorch
    works: Dynamo calls this package under a lock of its own.
    """
    return _lock


def _renew() -> None:
    """Make a lock for a forked process, which lacks the thread that may hold that of its parent."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew)
