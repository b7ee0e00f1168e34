# SPDX-License-Identifier: Apache-2.0
"""Trials in processes of their own, whose crashes and hangs are outcomes."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .outcome import CRASHES, HANGS, Outcome, Reduction
from .worker import ENVIRONMENT

_START = 120.0  # seconds that a process may take to load TVM
_MOST_TRIALS = 400  # compiled code stays in a process
_TESTS = Path(__file__).resolve().parents[1]


class Process:
    """A process that runs trials, started again when it has ended or has run many.

    Parameters
    ----------
    timeout : float
        Seconds that a trial may take.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._running: _Running | None = None

    def run(self, seed: int, reduction: Reduction | None = None) -> Outcome:
        """The outcome of a trial, whatever it does to the process."""
        if self._running is None or self._running.trials >= _MOST_TRIALS:
            self.close()
            self._running = _Running()
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


class _Running:
    """A process while it runs."""

    def __init__(self) -> None:
        path = os.pathsep.join([str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **ENVIRONMENT, "PYTHONPATH": path},
        )
        assert self._process.stdin, "it has a pipe to be asked by"
        assert self._process.stdout, "it has a pipe to answer by"
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self.trials, self._read = 0, b""
        try:
            self._answer(_START)
        except (TimeoutError, EOFError) as error:
            raise RuntimeError(f"No process can be started: {self.last_words()}") from error

    def ask(self, request: dict[str, Any], timeout: float) -> dict[str, Any]:
        """What the process answers.

        Raises
        ------
        TimeoutError, EOFError
            When it does not answer in time, or has ended.
        """
        self.trials += 1
        self._requests.write(json.dumps(request).encode() + b"\n")
        self._requests.flush()
        return self._answer(timeout)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._requests, self._answers, self._errors):
            stream.close()

    def last_words(self) -> str:
        """How it ended, and what it wrote to standard error before."""
        try:
            ended = f"exit status {self._process.wait(1.0)}"
        except subprocess.TimeoutExpired:
            ended = "no answer"
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").splitlines()
        told = [line for line in lines if "Warning" not in line]
        return "\n".join([*told[-12:], ended])

    def _answer(self, timeout: float) -> Any:
        end = time.monotonic() + timeout
        while b"\n" not in self._read:
            left = max(0.0, end - time.monotonic())
            ready, _, _ = select.select([self._answers], [], [], left)
            if not ready:
                raise TimeoutError
            part = os.read(self._answers.fileno(), 1 << 16)
            if not part:
                raise EOFError
            self._read += part
        line, _, self._read = self._read.partition(b"\n")
        return json.loads(line)
