# SPDX-License-Identifier: Apache-2.0
"""The CPU that this process may use, as Linux describes it."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .cgroup import granted_cores

_SYSTEM = Path("/sys/devices/system/cpu")
_CPUINFO = Path("/proc/cpuinfo")

# Flags in /proc/cpuinfo, with the name of the vector extension and its width in bits.
_VECTORS = (("avx512f", "AVX-512", 512), ("avx2", "AVX2", 256), ("avx", "AVX", 256))
_ALWAYS = {"x86_64": ("SSE2", 128), "aarch64": ("NEON", 128)}
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Cache:
    """A data cache of the first core.

    Attributes
    ----------
    level, size : int
        The level, 1 for the innermost, and the size in bytes.
    shared_by : int
        The number of hardware threads that share it.
    """

    level: int
    size: int
    shared_by: int


@dataclass(frozen=True)
class Cpu:
    """The CPU of a machine and the part that this process may use.

    Attributes
    ----------
    name : str
        The model name.
    architecture : str
        The architecture, such as ``x86_64``.
    cores : int
        The machine's cores, counting hyper-threads.
    usable : int
        The number of these that the process may run on.
    physical : int or None
        The number of physical cores among the usable ones; None if unknown.
    quota : float or None
        The number of cores whose time a control group grants; None if unlimited.
    load : float or None
        The load average of the last minute.
    vectors : str
        The name of the vector extension.
    vector_bits : int
        The width of its vectors in bits; 0 if unknown.
    caches : dict of str to int
        Sizes in bytes by name: ``L1d``, ``L2``, ``L3``.
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
    """Return the CPU of this machine."""
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
    """Return the cores that this process may run on, as of the import of this module.

    Later the affinity may differ, because TVM binds each thread that runs a network to some cores.
    """
    return _USABLE


def default_threads() -> int:
    """Return the number of cores that this process is granted."""
    return threads_within(granted_cores(), len(usable_cores()))


def threads_within(quota: float | None, usable: int) -> int:
    """Return for how many of the usable cores a quota is good, in whole cores, rounded up.

    Until it is exhausted, calls are as fast as on whole cores.
    """
    return usable if quota is None else max(1, min(usable, math.ceil(quota)))


def spread_cores(threads: int) -> frozenset[int]:
    """Return the usable cores on which ``threads`` threads run best.

    These are distinct physical cores if there are enough, else all cores, because hyper-threads
    share the vector units of a core.
    """
    by_core: dict[str, int] = {}
    for core in usable_cores():
        siblings = _read(_SYSTEM / f"cpu{core}" / "topology/thread_siblings_list")
        by_core.setdefault(siblings or str(core), core)
    return frozenset(by_core.values() if threads <= len(by_core) else usable_cores())


def threads_per_core() -> int:
    """Return the number of hardware threads that share a core's vector units; 1 if unknown."""
    siblings = _read(_SYSTEM / "cpu0/topology/thread_siblings_list")
    return _count(siblings) if siblings else 1


def data_caches() -> tuple[Cache, ...]:
    """Return the data caches of a core, the innermost first; empty if unknown."""
    caches = []
    for entry in (_SYSTEM / "cpu0/cache").glob("index*"):
        names = ("level", "type", "size", "shared_cpu_list")
        level, kind, size, shared = (_read(entry / name) for name in names)
        if level and kind and size and shared and kind != "Instruction" and size[-1] in _UNITS:
            caches.append(Cache(int(level), int(size[:-1]) * _UNITS[size[-1]], _count(shared)))
    return tuple(sorted(caches, key=lambda cache: cache.level))


def _first_processor() -> dict[str, str]:
    """Return the fields of the first processor in ``/proc/cpuinfo``."""
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
    """Return the length of a list such as ``0-3,8``."""
    spans = [[int(end) for end in span.split("-")] for span in cores.split(",")]
    return sum(span[-1] - span[0] + 1 for span in spans)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None
