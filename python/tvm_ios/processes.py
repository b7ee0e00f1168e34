# SPDX-License-Identifier: Apache-2.0
"""Processes of Python that import what this one would import."""

from __future__ import annotations

import sys

# "-c" puts the current directory in front, where a file of the user's may have a module's name.
_START = "import sys; sys.path[:1] = [p for p in sys.path[:1] if p]; from {} import main; main()"


def python_command(module: str, *arguments: str) -> list[str]:
    """The command that runs ``main()`` of a module with ``arguments`` as ``sys.argv[1:]``."""
    return [sys.executable, "-c", _START.format(module), *arguments]
