# SPDX-License-Identifier: Apache-2.0
"""Messages of TVM's C++ code, which go to the log instead of the terminal."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from . import _ffi_api

_logger = logging.getLogger(__name__)


@contextmanager
def logged() -> Iterator[None]:
    """Log what TVM's C++ code says in this thread; it does not concern the user of a model.

    TVM warns of pragmas that it does not know, of constants that it saves, and of blocks that an
    error leaves open. What makes a model fail is an exception.
    """
    _ffi_api.BeginCerrCapture()
    try:
        yield
    finally:
        for line in str(_ffi_api.EndCerrCapture()).splitlines():
            _logger.debug("%s", line)
