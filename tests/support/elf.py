# SPDX-License-Identifier: Apache-2.0
"""Object files as binutils, which come with the compiler, read them."""

from __future__ import annotations

import subprocess
from pathlib import Path


def readelf(path: Path) -> str:
    """Header, sections and symbols of a file, with a single space between words."""
    command = ["readelf", "--wide", "--file-header", "--sections", "--symbols", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not done.stderr, done.stderr
    return "\n".join(" ".join(line.split()) for line in done.stdout.splitlines())
