# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's compute-sanitizer finds nothing to complain of in a scheduled network."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_FOUND = 3  # the status that it is to end with where it finds something


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "initcheck", "synccheck"])
@pytest.mark.parametrize("partitioning", ["streams", "fused"])
def test_sanitizer(tool: str, partitioning: str) -> None:
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("compute-sanitizer is not on PATH")
    command = [sanitizer, "--tool", tool, "--error-exitcode", str(_FOUND), sys.executable]
    script = Path(__file__).with_name("run_once.py")
    done = subprocess.run(
        [*command, str(script), partitioning], capture_output=True, text=True, check=False
    )
    if "not supported" in done.stdout.lower():
        pytest.skip("compute-sanitizer does not support this machine")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "ERROR SUMMARY: 0 errors" in done.stdout or "RACECHECK SUMMARY: 0" in done.stdout
