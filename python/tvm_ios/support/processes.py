# SPDX-License-Identifier: Apache-2.0
"""Python child processes that import the same modules as this process."""

from __future__ import annotations

import sys
from typing import IO

# "-c" puts the current directory first, where a user's file may have a module's name.
_START = """\
import sys
sys.path[:1] = [path for path in sys.path[:1] if path]
from tvm_ios_env.torchless import hide_torch
hide_torch()
from {module} import main
main()
"""


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs ``main()`` of a module with ``arguments`` as ``sys.argv[1:]``.

    PyTorch is hidden from the process, because TVM would import it.
    """
    return [sys.executable, "-c", _START.format(module=module), *arguments]


def piped(stream: IO[bytes] | None) -> IO[bytes]:
    """Return a stream that is known to be a pipe."""
    assert stream is not None, "it was started with a pipe"
    return stream
