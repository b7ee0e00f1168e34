# SPDX-License-Identifier: Apache-2.0
"""What the file of a shared library says of it.

The loader does not check that a library is complete, and would crash.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

_HEADER = struct.Struct("<4sBB10xHHIQQQIHHHHHH")  # of 64 bits, little-endian
_SEGMENT = struct.Struct("<IIQQQQQQ")
_NOTE = struct.Struct("<III4s")  # the lengths of the name and of the content, the kind, the name
_LOADED, _NOTES = 1, 4  # kinds of segments
_BUILD_ID = (len(b"GNU\0"), 3, b"GNU\0")  # of a note: the length of the name, the kind, the name


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


def build_id(path: str | os.PathLike[str]) -> str | None:
    """Return the digest of a library that its linker wrote into it; None if there is none.

    It is looked for where linkers put it: at the beginning of a segment of notes.
    """
    with open(path, "rb") as file:
        header = file.read(_HEADER.size)
        if header[:6] != b"\x7fELF\2\1" or len(header) < _HEADER.size:
            return None
        fields = _HEADER.unpack(header)
        file.seek(fields[7])
        table = file.read(_SEGMENT.size * fields[12])
        for kind, _, offset, *_ in _SEGMENT.iter_unpack(table):
            file.seek(offset)
            note = file.read(_NOTE.size) if kind == _NOTES else b""
            if len(note) == _NOTE.size:
                name_length, length, number, name = _NOTE.unpack(note)
                if (name_length, number, name) == _BUILD_ID:
                    return file.read(length).hex()
    return None
