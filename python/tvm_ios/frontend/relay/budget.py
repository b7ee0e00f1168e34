# SPDX-License-Identifier: Apache-2.0
"""How far a file may grow while it is read and converted.

Expressions, types and lists are graphs: a few lines that use one another twice stand for more than
a machine can hold. What can be is kept shared, and takes no more than it takes in the file. What
has to be written out is counted before it is, so that a damaged file ends in an error and not
without memory. The limits grow with the file, and are far above what networks need.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ...support.errors import ExpansionError

What = Literal["parts", "operators", "bytes"]

PARTS, PARTS_PER_EXPRESSION, CHARACTERS_PER_PART = 500_000, 50, 4
OPERATORS, OPERATORS_PER_EXPRESSION = 20_000, 20
BYTES, BYTES_PER_BYTE = 1 << 30, 32
LARGEST_TENSOR = 1 << 47  # bytes, which is what a process can address
MAX_RANK = 64  # NumPy's
_SAID = {
    "parts": "{} expressions and parts of types and lists",
    "operators": "{} operators",
    "bytes": "{} bytes of constants that are computed",
}


class Budget:
    """What is left of the limits for one file.

    Parameters
    ----------
    parts : int
        How many expressions, parts of types and parts of lists may be looked at, a shared one once
        for each use that writes it out.
    operators : int
        How many operators of Relax may be written.
    bytes : int
        How much constants may take that the file does not hold, but that are computed from it.
    """

    def __init__(self, parts: int = PARTS, operators: int = OPERATORS, bytes: int = BYTES) -> None:
        self._limits: Mapping[What, int] = {"parts": parts, "operators": operators, "bytes": bytes}
        self._left = dict(self._limits)

    @classmethod
    def of_text(cls, length: int) -> Budget:
        """The limits for what is read from so many characters."""
        return cls(parts=PARTS + length // CHARACTERS_PER_PART)

    @classmethod
    def of_network(cls, expressions: int, size: int) -> Budget:
        """The limits for what so many expressions and bytes of constants are converted to."""
        return cls(
            parts=PARTS + PARTS_PER_EXPRESSION * expressions,
            operators=OPERATORS + OPERATORS_PER_EXPRESSION * expressions,
            bytes=BYTES + BYTES_PER_BYTE * size,
        )

    def spend(self, what: What, count: int, where: str) -> None:
        """Count what is about to be made.

        Parameters
        ----------
        what : {"parts", "operators", "bytes"}
        count : int
        where : str
            What makes it, as a sentence begins with it.

        Raises
        ------
        ExpansionError
            When it is more than is left.
        """
        self._left[what] -= count
        if self._left[what] < 0:
            limit = _SAID[what].format(f"{self._limits[what]:,}")
            raise ExpansionError(
                f"{where} makes the model grow beyond {limit}; the file is damaged, or was made to "
                "exhaust the machine."
            )
