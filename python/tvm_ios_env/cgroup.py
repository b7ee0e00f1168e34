# SPDX-License-Identifier: Apache-2.0
"""The CPU time that Linux grants this process, by its control groups.

A process is in one group of each hierarchy, and all groups above limit it, too. Version 2 has one
hierarchy, whose limit is ``cpu.max``. In version 1 the controller ``cpu`` has its own hierarchy,
with ``cpu.cfs_quota_us`` and ``cpu.cfs_period_us`` (Linux documentation, "Control Group v2" and
"CFS Bandwidth Control").
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_PROCESS = Path("/proc/self")


def granted_cores() -> float | None:
    """Return how many cores' time is granted, the least of all groups; None if unlimited."""
    limits = [limit for folder in _groups() if (limit := _limit(folder)) is not None]
    return min(limits, default=None)


def _groups() -> Iterator[Path]:
    """Yield the folders of the limiting groups, from those of the process up to the root."""
    own = dict(_memberships())
    for kind, root, mount in _hierarchies():
        inside = own.get(kind)
        if inside is None:
            continue
        # A container mounts a part of the hierarchy, and the groups above are not visible.
        below = inside.relative_to(root) if inside.is_relative_to(root) else PurePosixPath()
        folder = mount / below
        yield from [folder, *(f for f in folder.parents if f.is_relative_to(mount))]


def _memberships() -> Iterator[tuple[str, PurePosixPath]]:
    """Yield the process's group in each hierarchy that limits CPU time."""
    for line in _lines(_PROCESS / "cgroup"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            yield "cgroup2", PurePosixPath(path)
        elif "cpu" in controllers.split(","):
            yield "cgroup", PurePosixPath(path)


def _hierarchies() -> Iterator[tuple[str, PurePosixPath, Path]]:
    """Yield the kind of each mounted hierarchy, its mounted group, and the mount point."""
    for line in _lines(_PROCESS / "mountinfo"):
        before, separator, after = line.partition(" - ")
        fields, (kind, *more) = before.split(), after.split() or [""]
        controls_time = kind == "cgroup2" or (
            kind == "cgroup" and more and "cpu" in more[-1].split(",")
        )
        if separator and len(fields) > 4 and controls_time:
            yield kind, PurePosixPath(fields[3]), Path(fields[4])


def _limit(folder: Path) -> float | None:
    """Return the number of cores that a group grants: its quota over its period."""
    granted, period = "", ""
    for line in _lines(folder / "cpu.max")[:1]:
        granted, _, period = line.partition(" ")
    if not granted:
        granted, period = (
            "".join(_lines(folder / f"cpu.cfs_{what}_us")[:1]) for what in ("quota", "period")
        )
    if not (granted.isdigit() and period.isdigit() and int(period)):
        return None  # "max", -1, or nothing
    return int(granted) / int(period)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return []
