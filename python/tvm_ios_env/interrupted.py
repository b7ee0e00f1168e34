# SPDX-License-Identifier: Apache-2.0
"""The exit of a command after Ctrl-C."""

from __future__ import annotations

import sys

_STATUS = 128 + 2  # the shells' status for SIGINT


def report() -> int:
    """Print that the command was interrupted; return its exit status.

    CPython remembers a KeyboardInterrupt that propagates out of code compiled from a string (such
    as a dataclass definition), even if it is caught later. It then ends the process by SIGINT
    instead of with its status. It forgets the interrupt when it runs such code again.
    """
    eval("None")
    print("interrupted", file=sys.stderr)
    return _STATUS
