# SPDX-License-Identifier: Apache-2.0
"""Limits of how far a Relay file may grow while it is read and converted.

Shared parts stay shared where possible, and then take no more memory than in the file. The limits
grow with the file and are far above the needs of networks.
"""

from __future__ import annotations

from ..frontend.limits import BYTES, OPERATORS, PARTS, Limits
from ..support.errors import ExpansionError

CHARACTERS_PER_PART = 4


class Budget(Limits):
    """The remaining limits for one file."""

    error = ExpansionError

    @classmethod
    def of_text(cls, length: int) -> Budget:
        """Return the limits for reading a text of this length in characters."""
        return cls(PARTS + length // CHARACTERS_PER_PART, OPERATORS, BYTES)
