# SPDX-License-Identifier: Apache-2.0
"""Errors of other packages as one line of text."""

from __future__ import annotations

import re

_LONGEST = 300  # characters of a line
_OBJECTS = re.compile(
    r"In ir\.Op\(.*support_level=\d+\), | when calling: `.*?`|# Metadata omitted.*?show it\. "
)
"""TVM's descriptions of its own objects."""


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, where PyTorch gives the reason."""
    return _line(error, 0)


def last_line(error: Exception) -> str:
    """Return the last line of an error's message, where TVM gives the reason."""
    return _line(error, -1)


def _line(error: Exception, index: int) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    if isinstance(error, KeyError):  # its message is only the key
        return f"{lines[index]} is not there"
    line = _OBJECTS.sub("", lines[index]).rstrip(".:")
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."
