# SPDX-License-Identifier: Apache-2.0
"""Execution of a plan's checks in child processes, so that a crash fails one check only.

Each group has a process. If a check crashes, hangs, or fails with anything but a wrong result, the
rest of the group continues in a new process: on a GPU, one illegal address makes every later call
of the process fail. The next process is started in advance, because importing TVM takes seconds.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pkgutil import resolve_name
from typing import IO, Any

from ..support.processes import piped, python_command
from .checks import FAILED, NOT_RUN, Group, Outcome, Settings

LIMIT = 60.0
"""The time limit of a check, or of the start of a process, in seconds."""

_LOG_BYTES = 4000


def run_plan(plan: str, settings: Settings, limit: float = LIMIT) -> Iterator[Outcome]:
    """Run every check of a plan, in order.

    Parameters
    ----------
    plan : str
        ``MODULE:FUNCTION``, a function from the settings to a sequence of groups.
    settings : Settings
        The settings.
    limit : float
        The time limit of a check, in seconds.

    Yields
    ------
    Outcome
        The outcome of each check, as it ends. If a check of a required group fails, later checks
        are not run.
    """
    groups: Sequence[Group] = resolve_name(plan)(settings)
    broken = ""
    with _children(plan, settings) as take:
        for number, group in enumerate(groups):
            done = 0
            while done < len(group.checks) and not broken:
                for outcome in _run_in_one_process(take(), group, number, done, limit):
                    done += 1
                    if group.required and outcome.status == FAILED:
                        broken = outcome.name
                    yield outcome
                    if broken:
                        break
            reason = f"{broken} has failed"
            yield from (Outcome(group.name, c.name, NOT_RUN, reason) for c in group.checks[done:])


def _run_in_one_process(
    child: _Child, group: Group, number: int, first: int, limit: float
) -> Iterator[Outcome]:
    """Yield the outcomes of a group's checks from the ``first`` on, up to one that crashes."""
    child.assign(number, first)
    for check in group.checks[first:]:
        begin = time.monotonic()
        answer = child.answer(limit)
        if isinstance(answer, str):
            answer = {"status": FAILED, "detail": answer, "sound": False}
            answer["seconds"] = time.monotonic() - begin
        sound = answer.pop("sound")
        yield Outcome(group.name, check.name, **answer, log="" if sound else child.log())
        if not sound:
            break


@contextmanager
def _children(plan: str, settings: Settings) -> Iterator[Callable[[], _Child]]:
    """Yield a function that returns a new child process and ends the one before.

    Each is started in advance: the first here, another whenever one is taken.
    """
    start = partial(_Child.start, plan, json.dumps(asdict(settings)))
    children = [start()]

    def take() -> _Child:
        if len(children) > 1:
            children.pop(0).close()
        children.append(start())
        return children[0]

    try:
        yield take
    finally:
        for child in children:
            child.close()


@dataclass
class _Child:
    """A process that runs :mod:`.child`."""

    _process: subprocess.Popen[bytes]
    _log: IO[bytes]
    _pipe: int
    _read: bytes = b""

    @classmethod
    def start(cls, plan: str, settings: str) -> _Child:
        """Start the process; :meth:`close` ends it."""
        reading, writing = os.pipe()
        log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        process = subprocess.Popen(
            python_command("tvm_ios.selftest.child", plan, settings, str(writing)),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            pass_fds=[writing],
            start_new_session=True,  # Ctrl-C goes to the self-test, which ends the process
        )
        os.close(writing)
        return cls(process, log, reading)

    def assign(self, group: int, first: int) -> None:
        """Tell the process to run the checks of a group from number ``first`` on."""
        self.answer(LIMIT)  # wait until it is ready; if it fails, its first check tells why
        with suppress(BrokenPipeError):
            stdin = piped(self._process.stdin)
            stdin.write(f"{group} {first}\n".encode())
            stdin.flush()

    def answer(self, limit: float) -> Any:
        """Return the process's next message, or a sentence why there is none."""
        end = time.monotonic() + limit
        with selectors.DefaultSelector() as selector:
            selector.register(self._pipe, selectors.EVENT_READ)
            while b"\n" not in self._read:
                if not selector.select(max(end - time.monotonic(), 0)):
                    return f"gave no answer in {limit:g} s, and was ended"
                data = os.read(self._pipe, 1 << 16)
                if not data:
                    return self._end()
                self._read += data
        line, _, self._read = self._read.partition(b"\n")
        return json.loads(line)

    def log(self) -> str:
        """Return the end of the process's output."""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(size - _LOG_BYTES, 0))
        return self._log.read().decode(errors="replace")

    def close(self) -> None:
        """Kill the process."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        piped(self._process.stdin).close()
        self._process.wait()
        os.close(self._pipe)
        self._log.close()

    def _end(self) -> str:
        """Return a sentence about how the process ended."""
        status = self._process.wait()
        if status < 0:
            return f"its process was ended by {signal.Signals(-status).name}"
        last = [line for line in self.log().splitlines() if line.strip()][-1:]
        return f"its process ended with status {status}" + "".join(f": {line}" for line in last)
