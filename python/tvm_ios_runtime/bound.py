# SPDX-License-Identifier: Apache-2.0
"""Calls of a model that read and write the same arrays each time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np


class BoundCall:
    """A model with the arrays that it reads and writes, as :meth:`.Model.bind` returns it.

    It may be called from any thread, but from one at a time.

    Attributes
    ----------
    inputs, outputs : tuple of numpy.ndarray
        The arrays.
    """

    def __init__(
        self,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        run: Callable[[], object],
    ) -> None:
        self.inputs, self.outputs, self._run = tuple(inputs), tuple(outputs), run

    def __call__(self) -> tuple[np.ndarray, ...]:
        """Run the network on what the inputs hold, and return the outputs.

        Raises
        ------
        RuntimeError
            If another thread is in such a call, or the machine's CPU lacks an extension that the
            library needs.
        """
        self._run()
        return self.outputs


def exclusive(run: Callable[[], object]) -> Callable[[], None]:
    """Return a function that calls another one, but not while it is being called."""
    running = threading.Lock()

    def run_alone() -> None:
        if not running.acquire(blocking=False):
            raise RuntimeError("Another thread runs this bound call; bind one for each thread.")
        try:
            run()
        finally:
            running.release()

    return run_alone
