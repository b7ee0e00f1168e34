# SPDX-License-Identifier: Apache-2.0
"""Trials in processes of their own, whose crashes and hangs are outcomes."""

from __future__ import annotations

from dataclasses import asdict

from support.answering_process import AnsweringProcess

from .outcome import CRASHES, HANGS, Outcome, Reduction
from .worker import ENVIRONMENT

_MOST_TRIALS = 400  # compiled code stays in a process


class Process:
    """A process that runs trials, started again when it has ended or has run many.

    Parameters
    ----------
    timeout : float
        Seconds that a trial may take.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._running: AnsweringProcess | None = None

    def run(self, seed: int, reduction: Reduction | None = None) -> Outcome:
        """The outcome of a trial, whatever it does to the process."""
        if self._running is None or self._running.requests >= _MOST_TRIALS:
            self.close()
            self._running = AnsweringProcess("fuzz.worker", ENVIRONMENT)
        request = {"seed": seed, "reduction": asdict(reduction or Reduction())}
        try:
            return Outcome(**self._running.ask(request, self.timeout))
        except TimeoutError:
            status = HANGS
        except EOFError:
            status = CRASHES
        detail = self._running.last_words()
        self.close()
        return Outcome(seed, status, detail)

    def close(self) -> None:
        """End the process."""
        if self._running is not None:
            self._running.close()
            self._running = None
