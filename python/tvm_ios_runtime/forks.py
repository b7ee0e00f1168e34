# SPDX-License-Identifier: Apache-2.0
"""Models in a process that was forked after one had run.

A fork leaves the threads of TVM's pool behind: whoever goes on in the child would wait for ever for
workers that are not there. Nor can the pool be made anew there, as it waits for the end of those
threads first. So the child is told.
"""

from __future__ import annotations

import os

_owner: int | None = None  # the process in which a model has run on several threads


class ForkError(RuntimeError):
    """A model that is called where its threads are not."""


def check_threads() -> None:
    """Note that a model runs on several threads of this process.

    Raises
    ------
    ForkError
        When one has run in the process that this one was forked from.
    """
    global _owner
    if _owner is None:
        _owner = os.getpid()
    elif _owner != os.getpid():
        raise ForkError(
            "A model on several threads cannot be called in a process that was forked after one "
            "had run; fork before the first call, or start processes by multiprocessing's 'spawn'."
        )
