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
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict
from pkgutil import resolve_name
from typing import Any

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
    with closing(_Children(plan, settings)) as children:
        for number, group in enumerate(groups):
            done = 0
            while done < len(group.checks) and not broken:
                for outcome in _run_in_one_process(children.take(), group, number, done, limit):
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


class _Children:
    """The child processes, of which one is always being started in advance."""

    def __init__(self, plan: str, settings: Settings) -> None:
        self._arguments = plan, json.dumps(asdict(settings))
        self._running: _Child | None = None
        self._next = _Child(*self._arguments)

    def take(self) -> _Child:
        """Return a new process, and end the one before."""
        if self._running is not None:
            self._running.close()
        self._running, self._next = self._next, _Child(*self._arguments)
        return self._running

    def close(self) -> None:
        """End all processes."""
        for child in filter(None, (self._running, self._next)):
            child.close()


class _Child:
    """A process that runs :mod:`.child`."""

    def __init__(self, plan: str, settings: str) -> None:
        reading, writing = os.pipe()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            python_command("tvm_ios.selftest.child", plan, settings, str(writing)),
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            pass_fds=[writing],
            start_new_session=True,  # Ctrl-C goes to the self-test, which ends the process
        )
        self._stdin = piped(self._process.stdin)
        os.close(writing)
        self._pipe, self._read = reading, b""

    def assign(self, group: int, first: int) -> None:
        """Tell the process to run the checks of a group from number ``first`` on."""
        self.answer(LIMIT)  # wait until it is ready; if it fails, its first check tells why
        with suppress(BrokenPipeError):
            self._stdin.write(f"{group} {first}\n".encode())
            self._stdin.flush()

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
        if self._pipe < 0:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._stdin.close()
        self._process.wait()
        os.close(self._pipe)
        self._log.close()
        self._pipe = -1

    def _end(self) -> str:
        """Return a sentence about how the process ended."""
        status = self._process.wait()
        if status < 0:
            return f"its process was ended by {signal.Signals(-status).name}"
        last = [line for line in self.log().splitlines() if line.strip()][-1:]
        return f"its process ended with status {status}" + "".join(f": {line}" for line in last)
