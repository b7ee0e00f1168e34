# SPDX-License-Identifier: Apache-2.0
"""Whatever a registered function is called with, it answers or raises an error that says why."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support import registry_arguments, registry_fuzz
from support.paths import TESTS, with_path

CALLS = 40  # of each function


def test_every_function_is_fuzzed() -> None:
    names = registry_arguments.KINDS | registry_arguments.PACKED
    known = {registry_arguments.PREFIX + name for name in names}
    assert set(registry_fuzz.registered()) == known


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_random_arguments(seed: int, tmp_path: Path) -> None:
    """In a process of its own, which may not end, hang or take much memory."""
    journal = tmp_path / "calls"
    command = [sys.executable, "-m", registry_fuzz.__name__, str(seed), str(CALLS), str(journal)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=with_path(TESTS)
    )
    last = journal.read_text().splitlines()[-1] if journal.exists() else "nothing"
    assert done.stdout == "done\n", (
        f"status {done.returncode}; the last call was {last}\n{done.stderr[-3000:]}"
    )
