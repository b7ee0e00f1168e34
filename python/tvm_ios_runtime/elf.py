# SPDX-License-Identifier: Apache-2.0
"""A check that a shared library is complete: the loader does not check, and would crash."""

from __future__ import annotations

import os
import struct
from pathlib import Path

_HEADER = struct.Struct("<4sBB10xHHIQQQIHHHHHH")  # of 64 bits, little-endian
_SEGMENT = struct.Struct("<IIQQQQQQ")
_LOADED = 1


def is_cut_off(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is an ELF library that is shorter than its header says.

    Other files are left to the loader, which rejects them.
    """
    size = Path(path).stat().st_size
    with open(path, "rb") as file:
        header = file.read(_HEADER.size)
        if header[:6] != b"\x7fELF\2\1":
            return False
        if len(header) < _HEADER.size:
            return True
        fields = _HEADER.unpack(header)
        segments, sections = fields[7], fields[8]
        segment_size, segment_count, section_size, section_count = fields[11:15]
        if sections + section_size * section_count > size or segment_size < _SEGMENT.size:
            return True
        file.seek(segments)
        table = file.read(segment_size * segment_count)
    if len(table) < segment_size * segment_count:
        return True
    for i in range(segment_count):
        kind, _, offset, _, _, length, *_ = _SEGMENT.unpack_from(table, i * segment_size)
        if kind == _LOADED and offset + length > size:
            return True
    return False
