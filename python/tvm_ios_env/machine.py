# SPDX-License-Identifier: Apache-2.0
"""The CPU that this process may use, as Linux tells it."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

_SYSTEM = Path("/sys/devices/system/cpu")
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_CPUINFO = Path("/proc/cpuinfo")

# By the flags of /proc/cpuinfo: what kernels are made for, and the bits of its vectors.
_VECTORS = (("avx512f", "AVX-512", 512), ("avx2", "AVX2", 256), ("avx", "AVX", 256))
_ALWAYS = {"x86_64": ("SSE2", 128), "aarch64": ("NEON", 128)}


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
    usable = _usable_cores()
    vectors, bits = _vectors(set(info.get("flags", "").split()))
    return Cpu(
        name=info.get("model name", "unknown"),
        architecture=platform.machine(),
        cores=os.cpu_count() or 1,
        usable=len(usable),
        physical=_physical(usable),
        quota=_quota(),
        load=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        vectors=vectors,
        vector_bits=bits,
        caches=_caches(),
    )


def _first_processor() -> dict[str, str]:
    """The fields that ``/proc/cpuinfo`` has of the first processor."""
    fields: dict[str, str] = {}
    for line in (_read(_CPUINFO) or "").splitlines():
        if not line.strip():
            break
        key, _, value = line.partition(":")
        fields[key.strip()] = value.strip()
    return fields


def _usable_cores() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _physical(usable: list[int]) -> int | None:
    siblings = [_read(_SYSTEM / f"cpu{c}" / "topology/thread_siblings_list") for c in usable]
    return None if None in siblings else len(set(siblings))


def _quota() -> float | None:
    """What ``cpu.max`` of the control group says: microseconds of how many."""
    granted, _, period = (_read(_QUOTA) or "").partition(" ")
    return int(granted) / int(period) if granted.isdigit() and period.isdigit() else None


def _vectors(flags: set[str]) -> tuple[str, int]:
    for flag, name, bits in _VECTORS:
        if flag in flags:
            return name, bits
    return _ALWAYS.get(platform.machine(), ("unknown", 0))


def _caches() -> dict[str, int]:
    sizes = {}
    for cache in sorted((_SYSTEM / "cpu0/cache").glob("index*")):
        level, kind, size = (_read(cache / name) for name in ("level", "type", "size"))
        if level and kind and size and kind != "Instruction" and size.endswith("K"):
            sizes[f"L{level}{'d' if kind == 'Data' else ''}"] = int(size[:-1]) << 10
    return sizes


def _read(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None
