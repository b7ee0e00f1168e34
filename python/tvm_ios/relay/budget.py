# SPDX-License-Identifier: Apache-2.0
"""Limits of how far a file may grow while it is read and converted.

Expressions, types and lists are graphs: a few lines that use each other twice may expand to more
than any machine can hold. Shared parts stay shared where possible, and then take no more memory
than in the file. Where parts must be expanded, they are counted first, so that a damaged file
causes an error instead of exhausting the memory. The limits grow with the file and are far above
the needs of networks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ..support.errors import ExpansionError

What = Literal["parts", "operators", "bytes"]

PARTS, PARTS_PER_EXPRESSION, CHARACTERS_PER_PART = 500_000, 50, 4
OPERATORS, OPERATORS_PER_EXPRESSION = 20_000, 20
BYTES, BYTES_PER_BYTE = 1 << 30, 32
LARGEST_TENSOR = 1 << 47  # bytes; the address space of a process
MAX_RANK = 64  # NumPy's
_SAID = {
    "parts": "{} expressions and parts of types and lists",
    "operators": "{} operators",
    "bytes": "{} bytes of constants that are computed",
}


class Budget:
    """The remaining limits for one file.

    Parameters
    ----------
    parts : int
        How many expressions, parts of types and parts of lists may be visited; a shared one counts
        for each use that expands it.
    operators : int
        How many operators of Relax may be created.
    bytes : int
        The total size of constants that are computed from the file, in bytes.
    """

    def __init__(self, parts: int = PARTS, operators: int = OPERATORS, bytes: int = BYTES) -> None:
        self._limits: Mapping[What, int] = {"parts": parts, "operators": operators, "bytes": bytes}
        self._left = dict(self._limits)

    @classmethod
    def of_text(cls, length: int) -> Budget:
        """Return the limits for a text of this length in characters."""
        return cls(parts=PARTS + length // CHARACTERS_PER_PART)

    @classmethod
    def of_network(cls, expressions: int, size: int) -> Budget:
        """Return the limits for converting this many expressions and bytes of constants."""
        return cls(
            parts=PARTS + PARTS_PER_EXPRESSION * expressions,
            operators=OPERATORS + OPERATORS_PER_EXPRESSION * expressions,
            bytes=BYTES + BYTES_PER_BYTE * size,
        )

    def spend(self, what: What, count: int, where: str) -> None:
        """Subtract the size of something about to be created.

        Parameters
        ----------
        what : {"parts", "operators", "bytes"}
            The limit to subtract from.
        count : int
            The size.
        where : str
            The cause, as the subject of a sentence.

        Raises
        ------
        ExpansionError
            If the limit is exceeded.
        """
        self._left[what] -= count
        if self._left[what] < 0:
            limit = _SAID[what].format(f"{self._limits[what]:,}")
            raise ExpansionError(
                f"{where} makes the model grow beyond {limit}; the file is damaged, or was made to "
                "exhaust the machine."
            )
