# SPDX-License-Identifier: Apache-2.0
"""What a step's process says: JSON objects, one a line, each of which adds to its result.

What it has said so far is its result where it is cut.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any


class Channel:
    """Standard output for messages alone; what anything else prints goes to standard error."""

    def __init__(self) -> None:
        self._file = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def say(self, message: Mapping[str, Any]) -> None:
        """Write a message at once."""
        print(json.dumps(message), file=self._file, flush=True)


def merged(text: str) -> dict[str, Any]:
    """What messages say together; a later one counts where two say the same.

    A document of several lines is one message. Anything else, such as a line that was cut off, is
    left out.
    """
    found: dict[str, Any] = {}
    whole = _parsed(text)
    for message in [whole] if whole else map(_parsed, text.splitlines()):
        _merge(found, message)
    return found


def _parsed(text: str) -> dict[str, Any]:
    try:
        message = json.loads(text)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def _merge(found: dict[str, Any], message: Mapping[str, Any]) -> None:
    for key, value in message.items():
        if isinstance(value, dict) and isinstance(found.get(key), dict):
            _merge(found[key], value)
        else:
            found[key] = value
