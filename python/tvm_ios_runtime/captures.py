# SPDX-License-Identifier: Apache-2.0
"""Who may use CUDA while a graph is captured: nobody but the thread that captures it.

TVM captures a model's graph in its first run. Meanwhile CUDA refuses what other threads ask of it,
such as memory, code or a launch on the default stream, and the capture fails, too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Sharing:
    """Many at the same time, or one alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._users = 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        """While nobody is alone."""
        with self._changed:
            self._users += 1
        try:
            yield
        finally:
            with self._changed:
                self._users -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While nobody shares: whoever comes waits."""
        with self._changed:
            self._changed.wait_for(lambda: self._users == 0)
            yield


SHARING = Sharing()
"""That of all models of this process: a capture on one device disturbs those on others, too."""
