# SPDX-License-Identifier: Apache-2.0
"""Intel's AMX on processors without it: its instructions are emulated where they are illegal."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest
import tvm
from tvm.support import cc

from support.networks import NATIVE, WORKERS
from tvm_ios.target import core_of, resolve

SKIPPED = "this machine does not run avx512f"
_SOURCE = Path(__file__).with_name("emulator.cc")


def amx_target() -> tvm.target.Target:
    """This machine's processor with AMX; skip the test if it cannot be emulated."""
    if platform.machine() != "x86_64" or core_of(NATIVE).lanes != 16:
        pytest.skip(SKIPPED)
    return resolve('{"kind": "llvm", "mattr": ["+amx-tile", "+amx-bf16"]}', threads=WORKERS)


@contextmanager
def emulated_amx() -> Iterator[None]:
    """Emulate AMX in this process, whose threads must execute some of its instructions."""
    library = _emulator()
    before = library.tvm_ios_emulated_instructions()
    library.tvm_ios_emulate_amx()
    try:
        yield
    finally:
        library.tvm_ios_stop_emulating_amx()
    assert library.tvm_ios_emulated_instructions() > before, "no instruction of AMX was executed"


@cache
def _emulator() -> ctypes.CDLL:
    path = Path(mkdtemp(prefix="tvm_ios_amx")) / "emulator.so"
    cc.create_shared(str(path), [str(_SOURCE)], ["-O2", "-std=c++17"])
    library = ctypes.CDLL(str(path))
    library.tvm_ios_emulated_instructions.restype = ctypes.c_int64
    return library
