# SPDX-License-Identifier: Apache-2.0
"""A quota of processor time, as containers have it, by what this machine allows.

Control groups come first, then systemd, which makes them for users that may not. Where there is
neither, the process is stopped and continued by signals.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tvm_ios_env import cgroup

PERIOD = 0.1  # seconds, the kernel's own
_MOST = 1.15  # times the quota; the kernel hands out time in pieces
_JOIN = 'echo $$ > "$0" && exec "$@"'

# Prints how many cores are granted, and how many are used by as many processes as there are cores.
_PROBE = """
import json, os, resource, time
from tvm_ios_env.cgroup import granted_cores
begin, count = time.perf_counter(), max(2, len(os.sched_getaffinity(0)))
for _ in range(count):
    if not os.fork():
        while time.perf_counter() < begin + 0.5:
            pass
        os._exit(0)
for _ in range(count):
    os.wait()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds = time.perf_counter() - begin
print(json.dumps([granted_cores(), (used.ru_utime + used.ru_stime) / seconds]))
"""


@dataclass(frozen=True)
class Limit:
    """A quota, or none.

    Attributes
    ----------
    way : str
        How it is imposed, for the record.
    prefix : callable
        Returns what a command must begin with to have the quota for itself.
    share : float
        The part of the time for which a process may run, if it is stopped by signals.
    """

    way: str = ""
    prefix: Callable[[], list[str]] = list
    share: float = 1.0


@contextlib.contextmanager
def quota(cores: float, threads: int) -> Iterator[Limit]:
    """Find a way to limit processes to the time of some cores; groups are gone after the block.

    Parameters
    ----------
    cores : float
    threads : int
        What a process uses at most; if signals have to do, it runs for ``cores / threads`` of the
        time.
    """
    with contextlib.ExitStack() as groups:
        for way, prefix in _ways(cores, groups):
            if _holds(prefix, cores):
                yield Limit(way, prefix)
                return
        share = min(1.0, cores / threads)
        on, off = round(1e3 * PERIOD * share), round(1e3 * PERIOD * (1 - share))
        yield Limit(f"signals ({on} ms on, {off} ms off)", share=share)


def _ways(
    cores: float, groups: contextlib.ExitStack
) -> Iterator[tuple[str, Callable[[], list[str]]]]:
    for folder in cgroup._groups():  # where a limit would be found is where one may be written
        version = 2 if (folder / "cgroup.controllers").exists() else 1

        def prefix(folder: Path = folder) -> list[str]:
            group = groups.enter_context(_group(folder, cores))
            return ["/bin/sh", "-c", _JOIN, str(group / "cgroup.procs")]

        yield f"control group, version {version}", prefix
    scope = ["systemd-run", "--user", "--scope", "--quiet", "-p", f"CPUQuota={100 * cores:.0f}%"]
    yield "systemd-run", lambda: [*scope, "--"]


_numbers = itertools.count()


@contextlib.contextmanager
def _group(parent: Path, cores: float) -> Iterator[Path]:
    """Make a control group with a quota, and remove it when its processes have ended.

    Raises
    ------
    OSError
        When this process may not, or the parent does not hand on the control of time.
    """
    group = parent / f"busy-{os.getpid()}-{next(_numbers)}"
    group.mkdir()
    try:
        granted, period = round(1e6 * PERIOD * cores), round(1e6 * PERIOD)
        if (group / "cpu.cfs_quota_us").exists():
            (group / "cpu.cfs_period_us").write_text(str(period))
            (group / "cpu.cfs_quota_us").write_text(str(granted))
        else:
            (group / "cpu.max").write_text(f"{granted} {period}")
        yield group
    finally:
        _remove(group)


def _remove(group: Path) -> None:
    for _ in range(100):
        try:
            group.rmdir()
            return
        except OSError:  # a process that was killed is not quite gone
            time.sleep(0.01)


def _holds(prefix: Callable[[], Sequence[str]], cores: float) -> bool:
    """Whether a process within the limit sees it, and does not get more."""
    command = [sys.executable, "-c", _PROBE]
    try:
        done = subprocess.run([*prefix(), *command], capture_output=True, text=True, timeout=60)
        granted, used = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return False
    return granted is not None and abs(granted - cores) < 0.01 and used < _MOST * cores


@contextlib.contextmanager
def stopped_in_turns(
    send: Callable[[signal.Signals], None], share: float, period: float = PERIOD
) -> Iterator[None]:
    """Stop a process for a part of each period during the block; it runs afterwards.

    Parameters
    ----------
    send : callable
        Sends the process a signal.
    share : float
        The part of the time for which it runs; 1 leaves it alone.
    """
    if share >= 1:
        yield
        return
    over = threading.Event()

    def turns() -> None:
        while not over.wait(share * period):
            send(signal.SIGSTOP)
            over.wait((1 - share) * period)
            send(signal.SIGCONT)

    thread = threading.Thread(target=turns)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        send(signal.SIGCONT)
