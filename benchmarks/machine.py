# SPDX-License-Identifier: Apache-2.0
"""What machine a figure is from."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Cache:
    """A data cache as the first core sees it.

    Attributes
    ----------
    level, size : int
        1 is the nearest; bytes.
    shared_by : int
        Hardware threads that share it.
    """

    level: int
    size: int
    shared_by: int


@dataclass(frozen=True)
class Machine:
    """A CPU and its memory, as the system describes them.

    Attributes
    ----------
    cpu : str
        Model name.
    cores : int
        Hardware threads that this process may run on.
    threads_per_core : int
        Hardware threads that share one core's vector units.
    caches : tuple of Cache
        From the nearest to the farthest; empty where the system does not say.
    memory : int
        Bytes.
    system : str
        Kernel and architecture.
    """

    cpu: str
    cores: int
    threads_per_core: int
    caches: tuple[Cache, ...]
    memory: int
    system: str


def describe() -> Machine:
    """This machine."""
    siblings = _CACHES.parent / "topology" / "thread_siblings_list"
    return Machine(
        cpu=_cpu_name(),
        cores=len(os.sched_getaffinity(0)),
        threads_per_core=_count(siblings.read_text()) if siblings.exists() else 1,
        caches=_caches(),
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
    )


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def _caches() -> tuple[Cache, ...]:
    caches = []
    for entry in _CACHES.glob("index*"):
        level, kind, size, shared = (
            (entry / name).read_text().strip()
            for name in ("level", "type", "size", "shared_cpu_list")
        )
        if kind != "Instruction":
            caches.append(Cache(int(level), int(size[:-1]) * _UNITS[size[-1]], _count(shared)))
    return tuple(sorted(caches, key=lambda cache: cache.level))


def _count(cores: str) -> int:
    """How many are in a list such as ``0-3,8``."""
    spans = [[int(end) for end in span.split("-")] for span in cores.split(",")]
    return sum(span[-1] - span[0] + 1 for span in spans)
