# SPDX-License-Identifier: Apache-2.0
"""Handling of what libraries print, and of builders that are left open, while a model is read."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, TextIO, cast

from tvm.relax import BlockBuilder

from ..support.messages import logged

_logger = logging.getLogger(__name__)


class _Router:
    """A standard output that captures the text of some threads and passes on all other text."""

    def __init__(self, original: TextIO) -> None:
        self.original, self.captures = original, threading.local()

    def write(self, text: str) -> int:
        kept = getattr(self.captures, "kept", None)
        return (self.original if kept is None else kept).write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)


_lock = threading.Lock()
_captures = 0  # active captures in all threads


@contextlib.contextmanager
def _printed() -> Iterator[io.StringIO]:
    """Capture what this thread prints, without affecting other threads."""
    global _captures
    with _lock:
        if not _captures:
            sys.stdout = cast(TextIO, _Router(sys.stdout))
        _captures += 1
        router = cast(_Router, sys.stdout)
    before = getattr(router.captures, "kept", None)
    kept = router.captures.kept = io.StringIO()
    try:
        yield kept
    finally:
        router.captures.kept = before
        with _lock:
            _captures -= 1
            if not _captures:
                sys.stdout = router.original


@contextlib.contextmanager
def captured() -> Iterator[io.StringIO]:
    """Capture what is printed; it goes to the log, together with warnings.

    Outside the main thread warnings are shown, because Python has one list of filters for all
    threads.
    """
    main = threading.current_thread() is threading.main_thread()
    quiet: contextlib.AbstractContextManager[list[warnings.WarningMessage] | None]
    quiet = warnings.catch_warnings(record=True) if main else contextlib.nullcontext()
    with _printed() as printed, quiet as caught, logged():
        if main:
            warnings.simplefilter("always")
        try:
            yield printed
        finally:
            for line in [*printed.getvalue().splitlines(), *(str(w.message) for w in caught or [])]:
                _logger.debug("%s", line)


@contextlib.contextmanager
def closing_builders() -> Iterator[None]:
    """Close the blocks that a reader leaves open when it fails; TVM warns of them otherwise."""
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None:
            for frame, _ in traceback.walk_tb(cause.__traceback__):
                _close_builders(frame.f_locals)
            cause = cause.__cause__
        raise


def _close_builders(variables: Mapping[str, Any]) -> None:
    attributes = getattr(variables.get("self"), "__dict__", {})
    for builder in [*variables.values(), *attributes.values()]:
        if isinstance(builder, BlockBuilder):
            with contextlib.suppress(Exception):  # no block is left
                while True:
                    builder._end_block()
