# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C that no layer below can lose.

A KeyboardInterrupt that passes through a frame of C++ arrives as another exception, and one raised
in a destructor is ignored. So it is remembered that it came.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_received = threading.Event()


@contextlib.contextmanager
def watch() -> Iterator[None]:
    """Remember Ctrl-C in the block, which then ends with KeyboardInterrupt whatever happens."""
    _received.clear()
    previous = signal.signal(signal.SIGINT, _remember)
    try:
        yield
        check()
    except Exception as error:
        if _received.is_set():
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, previous)


def check() -> None:
    """Raise KeyboardInterrupt if Ctrl-C came; to be called before anything is made to last."""
    if _received.is_set():
        raise KeyboardInterrupt


def _remember(_number: int, _frame: FrameType | None) -> None:
    _received.set()
    raise KeyboardInterrupt
