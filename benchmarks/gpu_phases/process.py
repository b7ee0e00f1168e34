# SPDX-License-Identifier: Apache-2.0
"""A process of a step, which ends with all that it has started, and with this one."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpu_phases.messages import merged

_BENCHMARKS = Path(__file__).resolve().parents[1]

_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl  # looked up here, as little is safe after a fork


class Process:
    """A command that runs beside this process.

    Parameters
    ----------
    command : sequence of str
    printed, said : Path
        What its standard output and its standard error are added to. What is in ``printed`` from
        an earlier attempt counts as said by this one.
    environment : mapping of str to str
    cores : collection of int, optional
        Those that it may use.
    asked : bool
        Whether :meth:`ask` writes to its standard input, which is empty otherwise.
    """

    def __init__(
        self,
        command: Sequence[str],
        printed: Path,
        said: Path,
        environment: Mapping[str, str],
        *,
        cores: Collection[int] | None = None,
        asked: bool = False,
    ) -> None:
        self._printed, self._said = printed, said
        self._earlier = printed.stat().st_size if printed.exists() else 0
        self._began = time.monotonic()

        def prepare() -> None:
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # it would keep the GPU busy in the next call
            if cores is not None:
                os.sched_setaffinity(0, cores)

        with open(printed, "ab") as output, open(said, "ab") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=_BENCHMARKS,
                env=environment,
                stdin=subprocess.PIPE if asked else subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
                preexec_fn=prepare,
            )

    @property
    def status(self) -> int | None:
        """Its exit status; None while it runs."""
        return self._process.poll()

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self._began

    def ask(self, request: str) -> None:
        """Write a line to its standard input, unless it has ended."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{request}\n".encode())
            self._process.stdin.flush()

    @property
    def answers(self) -> int:
        """How many messages it has written."""
        return self._text()[self._earlier :].count(b"\n")

    def result(self) -> dict[str, Any]:
        """What it has said until now."""
        return merged(self._text().decode(errors="replace"))

    def last_words(self) -> str:
        """The last line of its standard error."""
        lines = self._said.read_text(errors="replace").splitlines()
        spoken = [line for line in lines if line.strip()]
        return spoken[-1].removeprefix("error: ")[:300] if spoken else "nothing was said"

    def end(self) -> None:
        """End it, and what it has started, if that runs."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        self._end_line()

    def _text(self) -> bytes:
        return self._printed.read_bytes()

    def _end_line(self) -> None:
        """Let the next attempt begin a line, where this one was cut off in the middle of one."""
        if not self._text().endswith(b"\n"):
            with open(self._printed, "ab") as file:
                file.write(b"\n")
