# SPDX-License-Identifier: Apache-2.0
"""What importers print and raise, as this package tells it."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator

_logger = logging.getLogger(__name__)


@contextlib.contextmanager
def captured() -> Iterator[io.StringIO]:
    """Keep what the importer prints off the terminal; it and the warnings go to the log."""
    printed = io.StringIO()
    with (
        warnings.catch_warnings(record=True) as caught,
        contextlib.redirect_stdout(printed),
    ):
        warnings.simplefilter("always")
        try:
            yield printed
        finally:
            for line in [*printed.getvalue().splitlines(), *(str(w.message) for w in caught)]:
                _logger.debug("%s", line)


def first_line(error: Exception) -> str:
    """The first line of what an error says, where PyTorch has the reason."""
    return _line(error, 0)


def last_line(error: Exception) -> str:
    """The last line of what an error says, where TVM has the reason."""
    return _line(error, -1)


def _line(error: Exception, index: int) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[index].rstrip(".:") if lines else type(error).__name__
