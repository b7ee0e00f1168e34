# SPDX-License-Identifier: Apache-2.0
"""Detection of models in a process that was forked after a model had run.

A fork does not copy the threads of TVM's pool. A call in the child would wait forever for workers
that do not exist. The pool cannot be created again there, because TVM first waits for the old
threads. The child therefore gets an error.
"""

from __future__ import annotations

import os

_owner: int | None = None  # the process in which a model has run on several threads


class ForkError(RuntimeError):
    """A call of a model in a forked process that does not have its threads."""


def check_threads() -> None:
    """Record that a model runs on several threads of this process.

    Raises
    ------
    ForkError
        If a model had run in the process that this one was forked from.
    """
    global _owner
    if _owner is None:
        _owner = os.getpid()
    elif _owner != os.getpid():
        raise ForkError(
            "A model on several threads cannot be called in a process that was forked after one "
            "had run; fork before the first call, or start processes by multiprocessing's 'spawn'."
        )
