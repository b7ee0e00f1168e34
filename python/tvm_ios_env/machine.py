# SPDX-License-Identifier: Apache-2.0
"""The CPU that this process may use, as Linux tells it."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .cgroup import granted_cores

_SYSTEM = Path("/sys/devices/system/cpu")
_CPUINFO = Path("/proc/cpuinfo")

# By the flags of /proc/cpuinfo: what kernels are made for, and the bits of its vectors.
_VECTORS = (("avx512f", "AVX-512", 512), ("avx2", "AVX2", 256), ("avx", "AVX", 256))
_ALWAYS = {"x86_64": ("SSE2", 128), "aarch64": ("NEON", 128)}
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
class Cpu:
    """A CPU and how much of it there is.

    Attributes
    ----------
    name : str
    architecture : str
    cores : int
        Of the machine, hyper-threads counted.
    usable : int
        Those of them that this process may run on.
    physical : int or None
        Those of the usable ones that share no core with another; None where the system is silent.
    quota : float or None
        Cores whose time a control group grants; None where it grants all.
    load : float or None
        Threads that ran or waited in the last minute.
    vectors : str
    vector_bits : int
        0 where it is not known.
    caches : dict of str to int
        Bytes by name: ``L1d``, ``L2``, ``L3``.
    """

    name: str
    architecture: str
    cores: int
    usable: int
    physical: int | None
    quota: float | None
    load: float | None
    vectors: str
    vector_bits: int
    caches: dict[str, int]


def this_cpu() -> Cpu:
    """The CPU of this machine."""
    info = _first_processor()
    usable = usable_cores()
    vectors, bits = _vectors(set(info.get("flags", "").split()))
    return Cpu(
        name=info.get("model name", "unknown"),
        architecture=platform.machine(),
        cores=os.cpu_count() or 1,
        usable=len(usable),
        physical=_physical(usable),
        quota=granted_cores(),
        load=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        vectors=vectors,
        vector_bits=bits,
        caches={f"L{c.level}{'d' if c.level == 1 else ''}": c.size for c in data_caches()},
    )


def usable_cores() -> tuple[int, ...]:
    """The cores that this process may run on, as it was when this module was imported.

    Later it may look otherwise: TVM binds each thread that runs a network to some of the cores.
    """
    return _USABLE


def default_threads() -> int:
    """As many threads as this process is granted cores.

    Of a share of a core nothing is made: threads that wait for each other in a program whose time
    is up would wait for the next period.
    """
    granted = granted_cores()
    usable = len(usable_cores())
    return usable if granted is None else max(1, min(usable, int(granted)))


def spread_cores(threads: int) -> frozenset[int]:
    """The usable cores that ``threads`` threads share best.

    Those of distinct physical cores where these are enough, else all: hyper-threads share the
    vector units of a core.
    """
    by_core: dict[str, int] = {}
    for core in usable_cores():
        siblings = _read(_SYSTEM / f"cpu{core}" / "topology/thread_siblings_list")
        by_core.setdefault(siblings or str(core), core)
    return frozenset(by_core.values() if threads <= len(by_core) else usable_cores())


def threads_per_core() -> int:
    """Hardware threads that share one core's vector units; 1 where the system is silent."""
    siblings = _read(_SYSTEM / "cpu0/topology/thread_siblings_list")
    return _count(siblings) if siblings else 1


def data_caches() -> tuple[Cache, ...]:
    """The data caches of a core, from the nearest; none where the system is silent."""
    caches = []
    for entry in (_SYSTEM / "cpu0/cache").glob("index*"):
        names = ("level", "type", "size", "shared_cpu_list")
        level, kind, size, shared = (_read(entry / name) for name in names)
        if level and kind and size and shared and kind != "Instruction" and size[-1] in _UNITS:
            caches.append(Cache(int(level), int(size[:-1]) * _UNITS[size[-1]], _count(shared)))
    return tuple(sorted(caches, key=lambda cache: cache.level))


def _first_processor() -> dict[str, str]:
    """The fields that ``/proc/cpuinfo`` has of the first processor."""
    fields: dict[str, str] = {}
    for line in (_read(_CPUINFO) or "").splitlines():
        if not line.strip():
            break
        key, _, value = line.partition(":")
        fields[key.strip()] = value.strip()
    return fields


def _affinity() -> tuple[int, ...]:
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


_USABLE = _affinity()


def _physical(usable: Sequence[int]) -> int | None:
    siblings = [_read(_SYSTEM / f"cpu{c}" / "topology/thread_siblings_list") for c in usable]
    return None if None in siblings else len(set(siblings))


def _vectors(flags: set[str]) -> tuple[str, int]:
    for flag, name, bits in _VECTORS:
        if flag in flags:
            return name, bits
    return _ALWAYS.get(platform.machine(), ("unknown", 0))


def _count(cores: str) -> int:
    """How many are in a list such as ``0-3,8``."""
    spans = [[int(end) for end in span.split("-")] for span in cores.split(",")]
    return sum(span[-1] - span[0] + 1 for span in spans)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None
