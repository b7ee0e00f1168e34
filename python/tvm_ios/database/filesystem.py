# SPDX-License-Identifier: Apache-2.0
"""Which file systems SQLite's write-ahead log is safe on.

Its index is memory that processes share by mapping a file. Machines do not share it: on a network
file system two of them overwrite each other's pages. What is not known to be local counts as
shared, as does everything where the system does not tell.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTS = Path("/proc/self/mounts")  # Linux; elsewhere there is none

_LOCAL = {
    "apfs", "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "fuseblk", "hfs",
    "hfsplus", "jfs", "msdos", "nilfs2", "ntfs", "ntfs3", "overlay", "ramfs", "reiserfs", "rootfs",
    "tmpfs", "ubifs", "vfat", "xfs", "zfs",
}  # fmt: skip
_ESCAPE = re.compile(r"\\([0-7]{3})")


def is_local(path: Path) -> bool:
    """Whether a path is on a file system that only this machine writes to."""
    return kind_of(path) in _LOCAL


def kind_of(path: Path) -> str | None:
    """The type of the file system that a path is, or would be, on; None where it is not known."""
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
        # Of several that are mounted at one place the last one is seen.
        if len(place.parts) >= deepest and (resolved == place or place in resolved.parents):
            found, deepest = fields[2], len(place.parts)
    return found
