# SPDX-License-Identifier: Apache-2.0
"""Mutual exclusion of CUDA graph capture and all other use of CUDA in the process.

TVM captures a model's graph in its first run. Meanwhile CUDA rejects calls of other threads, such
as allocations, module loads or launches on the default stream, and the capture fails, too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ReadersWriterLock:
    """A readers-writer lock: many threads hold it shared, or one thread holds it exclusively."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the lock shared, as a reader."""
        with self._changed:
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock exclusively, as the writer; all other threads wait."""
        with self._changed:
            self._changed.wait_for(lambda: self._readers == 0)
            yield


CAPTURE_LOCK = ReadersWriterLock()
"""The lock of all models of this process: a capture on one device disturbs other devices, too."""
