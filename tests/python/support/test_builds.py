# SPDX-License-Identifier: Apache-2.0
"""What tells builds of a loaded library apart."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

import pytest

from tvm_ios.support.builds import builds_of

FIRST, SECOND = "0123456789abcdef0123", "3210fedcba9876543210"


def load(path: Path, *options: str) -> Path:
    """Make a library, and load it."""
    path.parent.mkdir(exist_ok=True)
    command = ["cc", "-shared", "-x", "c", "-", "-o", str(path), *options]
    subprocess.run(command, input=b"int number;", check=True)
    ctypes.CDLL(str(path))
    return path


def test_a_build_is_what_the_linker_calls_it(tmp_path: Path) -> None:
    for folder, build in (("first", FIRST), ("second", SECOND)):
        load(tmp_path / folder / "libbuilds_a.so", f"-Wl,--build-id=0x{build}")
    load(tmp_path / "first" / "libother.so")
    assert builds_of(("libbuilds_a", "libnone")) == [
        f"libbuilds_a.so {FIRST}", f"libbuilds_a.so {SECOND}",
    ]  # fmt: skip


def test_a_build_without_a_name_is_told_by_its_file(tmp_path: Path) -> None:
    path = load(tmp_path / "libbuilds_b.so", "-Wl,--build-id=none")
    (found,) = builds_of(("libbuilds_b",))
    os.utime(path, (1, 1))
    (later,) = builds_of(("libbuilds_b",))
    assert found != later
    path.unlink()
    assert len({found, later, *builds_of(("libbuilds_b",))}) == 3


def test_the_compiler_that_is_loaded_has_a_build() -> None:
    found = builds_of(("libtvm_compiler.so", "libtvm.so"))
    assert found
    assert len(found[0].split()) > 1


def test_a_system_that_does_not_tell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tvm_ios.support.builds._MAPPED", tmp_path / "none")
    assert builds_of(("libtvm",)) == []
