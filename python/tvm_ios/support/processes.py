# SPDX-License-Identifier: Apache-2.0
"""Processes of Python that import what this one would import."""

from __future__ import annotations

import sys
from typing import IO

# "-c" puts the current directory in front, where a file of the user's may have a module's name.
_START = """\
import sys
sys.path[:1] = [path for path in sys.path[:1] if path]
from tvm_ios_env.torchless import hide_torch
hide_torch()
from {module} import main
main()
"""


def python_command(module: str, *arguments: str) -> list[str]:
    """The command that runs ``main()`` of a module with ``arguments`` as ``sys.argv[1:]``.

    PyTorch is hidden from it, as TVM would import it along.
    """
    return [sys.executable, "-c", _START.format(module=module), *arguments]


def piped(stream: IO[bytes] | None) -> IO[bytes]:
    """An end of a pipe that a process was started with."""
    assert stream is not None, "it was started with a pipe"
    return stream
