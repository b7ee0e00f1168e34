# SPDX-License-Identifier: Apache-2.0
"""File systems on which SQLite's write-ahead log is safe.

The index of the log is a memory-mapped file that processes share. Machines do not share it: on a
network file system two of them overwrite each other's pages. A file system that is not known to be
local counts as shared, also if its type cannot be determined.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTS = Path("/proc/self/mounts")  # Linux only

_LOCAL = {
    "apfs", "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "fuseblk", "hfs",
    "hfsplus", "jfs", "msdos", "nilfs2", "ntfs", "ntfs3", "overlay", "ramfs", "reiserfs", "rootfs",
    "tmpfs", "ubifs", "vfat", "xfs", "zfs",
}  # fmt: skip
_ESCAPE = re.compile(r"\\([0-7]{3})")


def is_local(path: Path) -> bool:
    """Return whether a path is on a file system that only this machine writes to."""
    return kind_of(path) in _LOCAL


def kind_of(path: Path) -> str | None:
    """Return the type of the file system of a path, which need not exist; None if it is unknown."""
    try:
        lines = MOUNTS.read_bytes().decode(errors="surrogateescape").splitlines()
    except OSError:
        return None
    resolved = Path(os.path.realpath(path))
    found, deepest = None, -1
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        place = Path(_ESCAPE.sub(lambda code: chr(int(code[1], 8)), fields[1]))
        # Of several mounts at one place the last one is visible.
        if len(place.parts) >= deepest and (resolved == place or place in resolved.parents):
            found, deepest = fields[2], len(place.parts)
    return found
