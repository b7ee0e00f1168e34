# SPDX-License-Identifier: Apache-2.0
"""The instructions of AArch64 that a processor has, as Linux tells.

Source: Linux, arch/arm64/include/uapi/asm/hwcap.h, and Documentation/arch/arm64/elf_hwcaps.rst.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Iterable

_FIRST, _SECOND = 16, 26  # the entries AT_HWCAP and AT_HWCAP2 of the auxiliary vector

FEATURES = {
    "lse": (_FIRST, 8),
    "fullfp16": (_FIRST, 10),
    "rdm": (_FIRST, 12),
    "complxnum": (_FIRST, 14),
    "rcpc": (_FIRST, 15),
    "dotprod": (_FIRST, 20),
    "sve": (_FIRST, 22),
    "lse2": (_FIRST, 25),
    "rcpc-immo": (_FIRST, 26),
    "flagm": (_FIRST, 27),
    "sve2": (_SECOND, 1),
    "i8mm": (_SECOND, 13),
    "bf16": (_SECOND, 14),
}
"""LLVM's names of what it uses unasked, each with the entry of the auxiliary vector and its bit."""


def lacking(names: Iterable[str]) -> list[str]:
    """Return those of the features that this machine's processor lacks, if Linux tells them."""
    if not sys.platform.startswith("linux") or platform.machine() != "aarch64":
        return []
    found = {entry: _auxiliary(entry) for entry in (_FIRST, _SECOND)}
    places = {name: FEATURES[name] for name in names}
    return [name for name, (entry, bit) in places.items() if not found[entry] >> bit & 1]


def _auxiliary(entry: int) -> int:
    """Return an entry of the auxiliary vector, which the system hands to each process."""
    getauxval = ctypes.CDLL(None).getauxval
    getauxval.argtypes, getauxval.restype = [ctypes.c_ulong], ctypes.c_ulong
    return int(getauxval(entry))
