# SPDX-License-Identifier: Apache-2.0
"""Processor time of the whole machine and of single processes, as Linux counts it."""

from __future__ import annotations

import os
from pathlib import Path

_TICK = 1 / os.sysconf("SC_CLK_TCK")
_IDLE = (3, 4)  # idle, and waiting for devices
_GUESTS = 8  # from here on what is counted before, too


def machine_seconds(root: Path = Path("/proc")) -> float:
    """Return how long all cores together have not been idle, for whatever reason."""
    ticks = (root / "stat").read_text().split("\n", 1)[0].split()[1:]
    return _TICK * sum(int(t) for i, t in enumerate(ticks[:_GUESTS]) if i not in _IDLE)


def process_seconds(pid: int, root: Path = Path("/proc")) -> float:
    """Return what a process has used; nothing if it is gone."""
    try:
        fields = (root / str(pid) / "stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return 0.0
    return _TICK * (int(fields[11]) + int(fields[12]))
