# SPDX-License-Identifier: Apache-2.0
"""The lock under which PyTorch traces programs, one thread at a time."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any


def tracing() -> AbstractContextManager[Any]:
    """Return the lock to hold while PyTorch exports, decomposes or reads a program.

    PyTorch keeps in variables of the process which program it traces. The lock is the one under
    which Dynamo compiles, as it calls this package as a back end: with another one, that thread and
    one that exports would wait for each other. A thread may take it several times.
    """
    from torch._dynamo.convert_frame import compile_lock

    return compile_lock
