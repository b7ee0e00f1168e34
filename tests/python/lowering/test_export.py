# SPDX-License-Identifier: Apache-2.0
"""Writing libraries where the linker fails."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import pytest
import tvm

from support.networks import NATIVE, compile_plain, relax_module
from tvm_ios import OptionError
from tvm_ios.lowering.export import export


@pytest.fixture(scope="module")
def executable() -> tvm.runtime.Executable:
    return compile_plain(relax_module(lambda emit, x: tvm.relax.op.nn.relu(x), (4,)), NATIVE)


def _linker(directory: Path, message: str) -> str:
    """A linker that fails with a message."""
    script = directory / "linker"
    script.write_text(f"#!/bin/sh\necho '{message}' >&2\nexit 1\n")
    script.chmod(0o755)
    return str(script)


def test_a_full_disk(executable: tvm.runtime.Executable, tmp_path: Path) -> None:
    linker = _linker(tmp_path, "ld: final link failed: No space left on device")
    with pytest.raises(OSError, match="No space left") as failure:
        export(executable, tmp_path / "m.so", linker)
    assert failure.value.errno == errno.ENOSPC
    # Whichever has less room: the library's directory, or that of the linker's own files.
    places = {tempfile.gettempdir(), os.environ.get("TMPDIR"), str(tmp_path / "m.so")}
    assert failure.value.filename in places


def test_a_linker_for_another_machine(executable: tvm.runtime.Executable, tmp_path: Path) -> None:
    linker = _linker(tmp_path, "ld: file format not recognized")
    with pytest.raises(OptionError, match=r"could not link the code .*--cross-compiler"):
        export(executable, tmp_path / "m.so", linker)
    assert not (tmp_path / "m.so").exists()
