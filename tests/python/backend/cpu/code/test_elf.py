# SPDX-License-Identifier: Apache-2.0
"""Object files of data, read by binutils and linked by the compiler."""

from __future__ import annotations

import ctypes
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from support.elf import readelf
from tvm_ios.backend.cpu.code.elf import ObjectFormat

ALIGNMENT, SYMBOL = 64, "tvm_ios_constants_0123"


def header(wide: bool, order: str, machine: int, flags: int) -> bytes:
    """The header of some object code of a target."""
    identification = b"\x7fELF" + bytes([1 + wide, 1 if order == "<" else 2, 1]) + bytes(9)
    words = "QQQ" if wide else "III"
    return struct.pack(
        f"{order}16sHHI{words}IHHHHHH", identification, 1, machine, 1, 0, 0, 999, flags,
        64 if wide else 52, 0, 0, 64 if wide else 40, 7, 6,
    )  # fmt: skip


def write(path: Path, like: bytes, data: bytes, symbol: str = SYMBOL) -> Path:
    head, tail = ObjectFormat.of(like).around(symbol, len(data), ALIGNMENT)
    assert len(head) == ALIGNMENT
    path.write_bytes(head + data + tail)
    return path


@pytest.mark.parametrize(
    ("like", "kind", "order", "machine", "flags"),
    [
        (header(True, "<", 62, 0), "ELF64", "little", "Advanced Micro Devices X86-64", "0x0"),
        (header(True, "<", 183, 0), "ELF64", "little", "AArch64", "0x0"),
        (header(True, "<", 243, 5), "ELF64", "little", "RISC-V", "0x5, RVC, double-float ABI"),
        (header(True, ">", 22, 0), "ELF64", "big", "IBM S/390", "0x0"),
        (header(False, "<", 40, 0x5000000), "ELF32", "little", "ARM", "0x5000000, Version5 EABI"),
        (header(False, ">", 8, 0), "ELF32", "big", "MIPS R3000", "0x0"),
    ],
    ids=["x86-64", "aarch64", "riscv64", "s390x", "arm", "mips"],
)
def test_formats(
    like: bytes, kind: str, order: str, machine: str, flags: str, tmp_path: Path
) -> None:
    """The data is constant, aligned, and a weak symbol that no other library sees."""
    shown = readelf(write(tmp_path / "data.o", like, bytes(192)))
    for expected in (
        f"Class: {kind}", f"{order} endian", f"Machine: {machine}", f"Flags: {flags}",
        "Type: REL (Relocatable file)", f"192 OBJECT WEAK HIDDEN 1 {SYMBOL}",
    ):  # fmt: skip
        assert expected in shown
    data, stack = (
        next(line.split("] ")[1] for line in shown.splitlines() if f"] {name} " in line)
        for name in (".rodata.tvm_ios", ".note.GNU-stack")
    )
    assert data.split()[1] == "PROGBITS"
    assert data.endswith(f" 000040 0000c0 00 A 0 0 {ALIGNMENT}")
    assert stack.endswith(" 000000 00 0 0 1")


def test_two_libraries_have_data_of_one_name(tmp_path: Path) -> None:
    """Each reads its own, also where it is linked twice."""
    source = tmp_path / "read.c"
    source.write_text(
        f'extern const char {SYMBOL}[] __attribute__((visibility("hidden")));'
        f"const char* read_data(void) {{ return {SYMBOL}; }}"
    )
    code = tmp_path / "read.o"
    subprocess.run(["gcc", "-fPIC", "-c", str(source), "-o", str(code)], check=True)
    random = np.random.default_rng(0)
    for number in range(2):
        data = random.bytes(4 * ALIGNMENT)
        objects = [write(tmp_path / f"{n}.o", code.read_bytes(), data) for n in range(2)]
        library = tmp_path / f"{number}.so"
        subprocess.run(
            ["gcc", "-shared", str(code), *map(str, objects), "-o", str(library)], check=True
        )
        function = ctypes.CDLL(str(library)).read_data
        function.restype = ctypes.c_void_p
        assert function() % ALIGNMENT == 0
        assert ctypes.string_at(function(), len(data)) == data
