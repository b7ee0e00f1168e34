# SPDX-License-Identifier: Apache-2.0
"""A few rounds of ``make faults``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import TESTS

pytest.importorskip("onnx")


@pytest.mark.slow
def test_killed_processes(tmp_path: Path) -> None:
    actions = "compile,db import,db prune,show"
    command = [sys.executable, "-m", "faults", "--count", "12", "--seed", "1", "--actions", actions]
    done = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": str(TESTS), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed, in" in done.stdout
