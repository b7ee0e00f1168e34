# SPDX-License-Identifier: Apache-2.0
"""The process of one runtime, as the one that coordinates them sees it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from busy_machine.calls import Slice
from busy_machine.limits import stopped_in_turns
from busy_machine.processor import machine_seconds, process_seconds
from busy_machine.runtimes import RUNTIMES
from peer.process import ContenderError, Worker

_BENCHMARKS = Path(__file__).parents[1]
_PATIENCE = 300.0  # seconds; a first run may compile
LEAST = 20
"""Calls of a slice, however long they take."""


class Process(Worker):
    """A runtime that has loaded a network, alive until :meth:`close`.

    Parameters
    ----------
    runtime : str
        One of :data:`~busy_machine.runtimes.RUNTIMES`.
    models : sequence of (Path, Path)
        What it runs, and the inputs (.npz); of the network, and perhaps of its companion.
    outputs : Path
        Where the outputs of its first run go (.npz).
    threads : int
    prefix : sequence of str
        What its command begins with.

    Raises
    ------
    ContenderError
        When it cannot take part.
    """

    def __init__(
        self,
        runtime: str,
        models: Sequence[tuple[Path, Path]],
        outputs: Path,
        threads: int,
        prefix: Sequence[str] = (),
    ) -> None:
        request = {
            "runtime": runtime,
            "models": [[str(path) for path in pair] for pair in models],
            "outputs": str(outputs),
            "threads": threads,
        }
        launcher = [] if RUNTIMES[runtime].torch else ["peer.without_torch"]
        command = [sys.executable, "-m", *launcher, "busy_machine.worker", json.dumps(request)]
        with outputs.with_suffix(".log").open("w") as log:
            self._process = subprocess.Popen(
                [*prefix, *command],
                cwd=_BENCHMARKS,
                env={**os.environ, "OMP_NUM_THREADS": str(threads)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        try:
            self.ready = self._answer(_PATIENCE)
            self._settle()
        except BaseException:
            self.close()
            raise

    def slice(self, seconds: float, callers: int = 1, share: float = 1.0) -> Slice:
        """Let it be called for a while, and wait until its threads have come to rest.

        Parameters
        ----------
        seconds : float
        callers : int
            Threads that call.
        share : float
            The part of the time for which it may run; the rest of the time it is stopped.
        """
        assert self._process.stdin is not None
        request = {"seconds": seconds, "callers": callers, "least": LEAST}
        try:
            print(json.dumps(request), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise ContenderError(self._end()) from None
        begin, before = time.perf_counter(), self._elsewhere()
        with stopped_in_turns(self._signal, share):
            found = Slice(**self._answer(_PATIENCE))
        found.elsewhere_s = self._elsewhere() - before
        found.span_s = time.perf_counter() - begin
        self._settle()
        return found

    def _elsewhere(self) -> float:
        """Seconds of processor time that were not this process's."""
        return machine_seconds() - process_seconds(self._process.pid)

    def _signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
