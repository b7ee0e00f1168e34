# SPDX-License-Identifier: Apache-2.0
"""A process that answers requests: a line of JSON in for each, and one out.

What crashes or hangs takes the process with it, and nothing else.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_START = 120.0  # seconds that a process may take to load TVM
_TESTS = Path(__file__).resolve().parents[1]


class AnsweringProcess:
    """A process while it runs.

    Parameters
    ----------
    module : str
        What it runs; its first answer says that it is ready.
    environment : mapping of str to str
        Variables that must be set before it begins.

    Attributes
    ----------
    requests : int
        How many it has been given.
    """

    def __init__(self, module: str, environment: Mapping[str, str]) -> None:
        path = os.pathsep.join([str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **environment, "PYTHONPATH": path},
        )
        assert self._process.stdin, "it has a pipe to be asked by"
        assert self._process.stdout, "it has a pipe to answer by"
        self._questions, self._answers = self._process.stdin, self._process.stdout
        self.requests, self._read = 0, b""
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
        self.requests += 1
        self._questions.write(json.dumps(request).encode() + b"\n")
        self._questions.flush()
        return self._answer(timeout)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._questions, self._answers, self._errors):
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
