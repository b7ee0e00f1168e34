# SPDX-License-Identifier: Apache-2.0
"""Intel's AMX on processors without it: its instructions are emulated where they are illegal."""

from __future__ import annotations

import ctypes
import json
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from unittest import mock

import pytest
import tvm
from tvm.support import cc

from support.networks import NATIVE, WORKERS
from tvm_ios import target as targets
from tvm_ios.backend.cpu import core
from tvm_ios.backend.cpu.code import driver
from tvm_ios.backend.cpu.core import core_of
from tvm_ios.target import resolve
from tvm_ios_env.amx import permitted

SKIPPED = "this machine does not run avx512f"
FEATURES = ("+amx-tile", "+amx-bf16")
_SOURCE = Path(__file__).with_name("emulator.cc")


def amx_target() -> tvm.target.Target:
    """This machine's processor with AMX; skip the test if it cannot be emulated."""
    if platform.machine() != "x86_64" or core_of(NATIVE).lanes != 16:
        pytest.skip(SKIPPED)
    config = {"kind": "llvm", "mattr": FEATURES}
    return resolve(json.dumps(config), threads=WORKERS)


@contextmanager
def emulated_amx() -> Iterator[None]:
    """Emulate AMX in this process, whose threads must execute some of its instructions.

    A processor that has AMX executes them itself.
    """
    if permitted():
        yield
        return
    library = _emulator()
    before = library.tvm_ios_emulated_instructions()
    with emulation():
        yield
    assert library.tvm_ios_emulated_instructions() > before, "no instruction of AMX was executed"


@contextmanager
def emulation() -> Iterator[None]:
    """Emulate AMX in this process."""
    library = _emulator()
    library.tvm_ios_emulate_amx()
    try:
        yield
    finally:
        library.tvm_ios_stop_emulating_amx()


@contextmanager
def unchecked() -> Iterator[None]:
    """Let networks for AMX run, whatever the processor and Linux say."""
    with (
        mock.patch.object(targets, "permitted", return_value=True),
        mock.patch.object(core, "permitted", return_value=True),
        mock.patch.object(driver, "_needs_amx", return_value=False),
    ):
        yield


@cache
def _emulator() -> ctypes.CDLL:
    path = Path(mkdtemp(prefix="tvm_ios_amx")) / "emulator.so"
    cc.create_shared(str(path), [str(_SOURCE)], ["-O2", "-std=c++17"])
    library = ctypes.CDLL(str(path))
    library.tvm_ios_emulated_instructions.restype = ctypes.c_int64
    return library
