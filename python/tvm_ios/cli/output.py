# SPDX-License-Identifier: Apache-2.0
"""What sub-commands print."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from rich.console import Console

_WIDE = 160  # columns, where the output is no terminal and nobody is to cut it


def console() -> Console:
    """Standard output for tables and text."""
    width = None if sys.stdout.isatty() else _WIDE
    return Console(file=sys.stdout, width=width, highlight=False, markup=False)


def print_json(value: Mapping[str, object]) -> None:
    print(json.dumps(value, indent=1))


def milliseconds(seconds: float | None) -> float | None:
    """Seconds as milliseconds to the nanosecond; None where nothing was measured."""
    return None if seconds is None else round(1e3 * seconds, 6)
