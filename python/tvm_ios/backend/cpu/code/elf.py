# SPDX-License-Identifier: Apache-2.0
"""Object files that hold data alone, in the format of a target's object code.

LLVM's assembler could include the data from a file, but copies it several times, each of which
takes as long as linking it. See the System V Application Binary Interface, chapter 4, "Object
Files".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from itertools import accumulate

_CLASS, _ORDER = 4, 5  # bytes of the identification
_WIDE, _LITTLE = 2, 1  # 64 bits, and the order in which the lowest byte comes first
_HEADERS = {1: "16sHHIIIIIHHHHHH", _WIDE: "16sHHIQQQIHHHHHH"}  # by class
_SECTIONS = {1: "10I", _WIDE: "IIQQQQIIQQ"}
_SYMBOLS = {1: "IIIBBH", _WIDE: "IBBHQQ"}
_RELOCATABLE, _VERSION = 1, 1
_PROGBITS, _SYMTAB, _STRTAB = 1, 2, 3  # kinds of sections
_ALLOCATED = 2  # flag of a section that is part of the running program
_WEAK_OBJECT, _HIDDEN = 2 << 4 | 1, 2
_DATA, _STRINGS = 1, 3  # indices of sections
_ALIGNMENT = 8  # of tables


@dataclass(frozen=True)
class ObjectFormat:
    """What the object files of a target have in common.

    Attributes
    ----------
    identification : bytes
        The first bytes of the file, with the class and the order of bytes.
    machine, flags : int
    """

    identification: bytes
    machine: int
    flags: int

    @staticmethod
    def of(code: bytes) -> ObjectFormat:
        """Return the format of an object file."""
        assert code[:4] == b"\x7fELF", "TVM's object code is ELF"
        unknown = ObjectFormat(code[:16], 0, 0)
        fields = struct.unpack_from(unknown._layout(_HEADERS), code)
        return replace(unknown, machine=fields[2], flags=fields[7])

    def around(self, symbol: str, num_bytes: int, alignment: int) -> tuple[bytes, bytes]:
        """Return what precedes and what follows constant data in its object file.

        Several libraries may be linked from files with the same symbol, which is weak, and each has
        its own, as it is hidden.

        Parameters
        ----------
        symbol : str
            The name of the data.
        num_bytes, alignment : int
            The size of the data, a multiple of its alignment. A file begins with ``alignment``
            bytes, in which the header fits.
        """
        assert num_bytes % alignment == 0, "the tables that follow are aligned"
        names = ["", ".rodata.tvm_ios", ".symtab", ".strtab", ".note.GNU-stack", symbol]
        strings = b"".join(name.encode() + b"\0" for name in names)
        strings += bytes(-len(strings) % _ALIGNMENT)
        data, symtab, strtab, stack, own = accumulate(len(name) + 1 for name in names[:-1])
        symbols = self._symbol(0, 0) + self._symbol(own, num_bytes)
        place = alignment + num_bytes
        end = place + len(symbols)
        size = len(symbols) // 2
        sections = [
            self._pack(_SECTIONS, *fields)
            for fields in (
                (0,) * 10,
                (data, _PROGBITS, _ALLOCATED, 0, alignment, num_bytes, 0, 0, alignment, 0),
                (symtab, _SYMTAB, 0, 0, place, len(symbols), _STRINGS, 1, _ALIGNMENT, size),
                (strtab, _STRTAB, 0, 0, end, len(strings), 0, 0, 1, 0),
                (stack, _PROGBITS, 0, 0, end, 0, 0, 0, 1, 0),  # or stacks would be executable
            )
        ]
        header = self._header(end + len(strings), len(sections), len(sections[0]))
        return header.ljust(alignment, b"\0"), symbols + strings + b"".join(sections)

    def _header(self, sections: int, count: int, size: int) -> bytes:
        """Return the header of a file with ``count`` sections, described at byte ``sections``."""
        own = struct.calcsize(self._layout(_HEADERS))
        kind = (_RELOCATABLE, self.machine, _VERSION)
        tables = (own, 0, 0, size, count, _STRINGS)
        return self._pack(_HEADERS, self.identification, *kind, 0, 0, sections, self.flags, *tables)

    def _symbol(self, name: int, num_bytes: int) -> bytes:
        """Return the entry of the data, or without a name the first one, which stands for none."""
        info, other, section = (_WEAK_OBJECT, _HIDDEN, _DATA) if name else (0, 0, 0)
        if self.identification[_CLASS] == _WIDE:
            return self._pack(_SYMBOLS, name, info, other, section, 0, num_bytes)
        return self._pack(_SYMBOLS, name, 0, num_bytes, info, other, section)

    def _pack(self, layouts: dict[int, str], *fields: int | bytes) -> bytes:
        return struct.pack(self._layout(layouts), *fields)

    def _layout(self, layouts: dict[int, str]) -> str:
        order = "<" if self.identification[_ORDER] == _LITTLE else ">"
        return order + layouts[self.identification[_CLASS]]
