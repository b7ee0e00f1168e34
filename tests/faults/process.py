# SPDX-License-Identifier: Apache-2.0
"""Processes that are forked from this one, which has imported everything, and killed.

This process never runs a model, so that its children have all that a process of the product has. A
child dies at a time, or before an operation: on a file, of which Python's audit events tell, or a
statement of SQLite's.
"""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_POLL = 0.002  # seconds
_TRACED = 0.2  # seconds in which a process says where it is
_HANGING = 300.0  # seconds
_EVENTS = {
    "os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate",
    "shutil.copyfile", "subprocess.Popen", "tempfile.mkdtemp",
    "tempfile.mkstemp",
}  # fmt: skip
_OUTERMOST = "_run_module_as_main"
_KILLED = {-signal.SIGKILL, -signal.SIGUSR1}  # the latter where Python had ended
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


@dataclass(frozen=True)
class Death:
    """When a process is killed.

    Attributes
    ----------
    seconds : float or None
        After its start.
    operation : int or None
        Before which of its operations, counted from 1.
    """

    seconds: float | None = None
    operation: int | None = None

    def __str__(self) -> str:
        if self.seconds is not None:
            return f"after {self.seconds:.3f} s"
        return "never" if self.operation is None else f"before operation {self.operation}"


@dataclass(frozen=True)
class End:
    """How a process ended.

    Attributes
    ----------
    status : int
        As that of a shell's; -9 where it was killed.
    seconds : float
    operations : int
        As far as it came.
    place : str
        Where in the product it was killed.
    log : str
        What it printed.
    """

    status: int
    seconds: float
    operations: int
    place: str
    log: str

    @property
    def killed(self) -> bool:
        return self.status in _KILLED


def run(
    action: Callable[[], int | None],
    directory: Path,
    notes: Path,
    death: Death,
    statements: bool = False,
) -> End:
    """Run ``action`` in a process of its own, with ``directory`` as the current one.

    Parameters
    ----------
    action : callable
    directory, notes : Path
        Where the process works, and where it is told of.
    death : Death
    statements : bool
        Whether those of SQLite are operations, too, which takes time.
    """
    assert len(os.listdir("/proc/self/task")) == 1, "what is forked has one thread"
    trace, log, count = (notes / name for name in ("trace", "log", "count"))
    for path in (trace, log, count):
        path.write_bytes(b"")
    sys.stdout.flush()
    begin = time.monotonic()
    child = os.fork()
    if child == 0:
        _serve(action, directory, (trace, log, count), death, statements)
    status = _wait(child, trace, None if death.seconds is None else begin + death.seconds)
    return End(
        os.waitstatus_to_exitcode(status),
        time.monotonic() - begin,
        count.stat().st_size,
        _place(trace.read_text()),
        log.read_text(errors="replace"),
    )


def _serve(
    action: Callable[[], int | None],
    directory: Path,
    files: tuple[Path, Path, Path],
    death: Death,
    statements: bool,
) -> None:
    """What the child does; it ends as a process of Python's own does."""
    trace, log, count = files
    os.setsid()
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    os.chdir(directory)
    traced = open(trace, "a")  # noqa: SIM115 - to the end of the process
    faulthandler.register(signal.SIGUSR1, traced)
    sys.addaudithook(
        _counter(traced.fileno(), os.open(count, os.O_WRONLY), death.operation, statements)
    )
    sys.exit(action())


def _counter(
    trace: int, count: int, fatal: int | None, statements: bool
) -> Callable[[str, tuple], None]:
    """A hook that counts operations, and kills the process before a fatal one."""
    seen = 0

    def hook(event: str, arguments: tuple) -> None:
        if event in _EVENTS or (event == "open" and _writes(arguments)):
            operation()

    def calls(_frame: object, event: str, called: object) -> None:
        if event == "c_call" and getattr(called, "__name__", "") == "execute":
            operation()

    def operation() -> None:
        nonlocal seen
        seen += 1
        os.write(count, b".")
        if seen == fatal:
            faulthandler.dump_traceback(trace, all_threads=True)
            os.kill(os.getpid(), signal.SIGKILL)

    if statements:
        sys.setprofile(calls)  # of SQLite no audit event tells
    return hook


def _writes(arguments: tuple) -> bool:
    path, _, flags = arguments
    device = isinstance(path, str) and path.startswith(("/dev/", "/proc/"))
    return isinstance(flags, int) and bool(flags & _WRITING) and not device


def _wait(child: int, trace: Path, deadline: float | None) -> int:
    """The status of the child, which is killed when its time has come."""
    hanging = time.monotonic() + _HANGING
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        if deadline is not None and time.monotonic() >= deadline:
            return _kill(child, trace)
        if time.monotonic() > hanging:
            _kill(child, trace)
            raise AssertionError(f"the process hangs:\n{trace.read_text()}")
        time.sleep(_POLL)


def _kill(child: int, trace: Path) -> int:
    """Kill the child, which says where it is first."""
    os.kill(child, signal.SIGUSR1)
    end = time.monotonic() + _TRACED
    while _OUTERMOST not in trace.read_text() and time.monotonic() < end:
        time.sleep(_POLL / 4)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def _place(trace: str) -> str:
    """The innermost file of the product that the main thread is in, as ``measure/device.py``."""
    main = re.split("[Tt]hread 0x", trace)[-1]
    for line in main.splitlines():
        for package in ("tvm_ios_runtime", "tvm_ios_env", "tvm_ios_entry", "tvm_ios"):
            _, found, rest = line.partition(f"/python/{package}/")
            if found:
                prefix = "" if package == "tvm_ios" else f"{package}/"
                return prefix + rest.partition('"')[0]
    return "the end" if not main.strip() else "outside"
