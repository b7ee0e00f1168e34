# SPDX-License-Identifier: Apache-2.0
"""Errors of others in one line."""

from __future__ import annotations

import re

_LONGEST = 300  # characters of a line
_OBJECTS = re.compile(
    r"In ir\.Op\(.*support_level=\d+\), | when calling: `.*?`|# Metadata omitted.*?show it\. "
)
"""What TVM shows of its own objects."""


def first_line(error: Exception) -> str:
    """The first line of what an error says, where PyTorch has the reason."""
    return _line(error, 0)


def last_line(error: Exception) -> str:
    """The last line of what an error says, where TVM has the reason."""
    return _line(error, -1)


def _line(error: Exception, index: int) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    if isinstance(error, KeyError):  # which says the key alone
        return f"{lines[index]} is not there"
    line = _OBJECTS.sub("", lines[index]).rstrip(".:")
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."
