# SPDX-License-Identifier: Apache-2.0
"""The permission to use the matrix registers of Intel's AMX.

Python asks for it by :func:`permitted`, to choose kernels. Code that multiplies by the registers
asks again, as it may run in processes without this package: stages on a device across RPC by
:file:`src/runtime/amx.cc`, and compiled networks by :mod:`tvm_ios.backend.cpu.code.cpu_check`.

Source: Linux, Documentation/arch/x86/xstate.rst.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import cache

SYSCALL = 158
"""The number of Linux's ``arch_prctl`` on x86-64."""
REQUEST_PERMISSION = 0x1023
TILE_DATA = 18
"""The processor's number of the registers' state."""


@cache
def permitted() -> bool:
    """Ask Linux to let this process use the registers; return whether it does.

    It does not if the processor has none, or if a virtual machine hides them.
    """
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return False
    syscall = ctypes.CDLL(None).syscall
    syscall.restype = ctypes.c_long
    return bool(syscall(*map(ctypes.c_long, (SYSCALL, REQUEST_PERMISSION, TILE_DATA))) == 0)
