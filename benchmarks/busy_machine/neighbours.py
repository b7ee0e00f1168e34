# SPDX-License-Identifier: Apache-2.0
"""Processes that compute without end, as other users' programs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

# Ends by itself, too, should the benchmark be killed: it is nobody's child then, or init's.
_LOOP = """
import os, sys
parent = os.getppid()
os.nice(int(sys.argv[1]))
print("computing", flush=True)
while os.getppid() == parent:
    for _ in range(1000000):
        pass
"""


@contextlib.contextmanager
def busy(count: int, nice: int = 0, bound: bool = False) -> Iterator[list[int]]:
    """Let processes compute during the block.

    The system chooses their cores, unless each is bound to one of its own.

    They stay in this process's session: each session may have its own share of the processors,
    whatever the number and the niceness of its processes (autogroups of Linux).

    Yields
    ------
    list of int
        Their process ids.
    """
    processes: list[subprocess.Popen[str]] = []
    try:
        for _ in range(count):
            processes.append(_start(nice))
        cores = sorted(os.sched_getaffinity(0))
        for number, process in enumerate(processes):
            assert process.stdout is not None
            process.stdout.readline()
            if bound:
                os.sched_setaffinity(process.pid, {cores[number % len(cores)]})
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.communicate()


def _start(nice: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", _LOOP, str(nice)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
