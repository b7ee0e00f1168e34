# SPDX-License-Identifier: Apache-2.0
"""How a command ends that Ctrl-C stopped."""

from __future__ import annotations

import sys

_STATUS = 128 + 2  # by SIGINT, as shells number it


def report() -> int:
    """Say that the command was interrupted; returns its exit status.

    CPython remembers a KeyboardInterrupt that leaves code compiled from a string (a dataclass is
    made by such code), even one that is caught later, and then ends the process by SIGINT instead
    of with its status. It forgets when it runs such code again.
    """
    eval("None")
    print("interrupted", file=sys.stderr)
    return _STATUS
