# SPDX-License-Identifier: Apache-2.0
"""Limits of how far a Relay file may grow while it is read and converted.

Shared parts stay shared where possible, and then take no more memory than in the file. The limits
grow with the file and are far above the needs of networks.
"""

from __future__ import annotations

from ..frontend.limits import Limits
from ..support.errors import ExpansionError

PARTS, PARTS_PER_EXPRESSION, CHARACTERS_PER_PART = 500_000, 50, 4
OPERATORS, OPERATORS_PER_EXPRESSION = 20_000, 20
BYTES, BYTES_PER_BYTE = 1 << 30, 32


class Budget(Limits):
    """The remaining limits for one file."""

    error = ExpansionError

    @classmethod
    def of_text(cls, length: int) -> Budget:
        """Return the limits for reading a text of this length in characters."""
        return cls(PARTS + length // CHARACTERS_PER_PART, OPERATORS, BYTES)

    @classmethod
    def of_network(cls, expressions: int, size: int) -> Budget:
        """Return the limits for converting this many expressions and bytes of constants."""
        return cls(
            parts=PARTS + PARTS_PER_EXPRESSION * expressions,
            operators=OPERATORS + OPERATORS_PER_EXPRESSION * expressions,
            bytes=BYTES + BYTES_PER_BYTE * size,
        )
