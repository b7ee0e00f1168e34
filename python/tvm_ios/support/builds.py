# SPDX-License-Identifier: Apache-2.0
"""What tells builds of the same version of a library apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tvm_ios_runtime.elf import build_id

_MAPPED = Path("/proc/self/maps")


def builds_of(names: tuple[str, ...]) -> list[str]:
    """Return the builds of the loaded libraries whose file names begin with one of ``names``.

    Parameters
    ----------
    names : tuple of str

    Returns
    -------
    list of str
        In order; none where the system does not tell which libraries are loaded.
    """
    loaded = {path: place for path, place in _mapped() if path.name.startswith(names)}
    return sorted(f"{path.name} {_build(path, place)}" for path, place in loaded.items())


def _mapped() -> Iterator[tuple[Path, str]]:
    """Yield the files that are mapped into this process, each with its device and inode."""
    try:
        lines = _MAPPED.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5].startswith("/"):
            yield Path(fields[5]), f"{fields[3]}:{fields[4]}"


def _build(path: Path, place: str) -> str:
    """Return the linker's identifier of a library, else what changes when its file does."""
    try:
        status = path.stat()
        return build_id(path) or f"{status.st_size} bytes of {status.st_mtime_ns}"
    except OSError:  # it was replaced since
        return place
