# SPDX-License-Identifier: Apache-2.0
"""Limits of what a model may grow to while it is read and converted.

Expressions, types and lists are graphs: a few lines that use each other twice may expand to more
than any machine can hold. Where parts must be expanded, they are counted first, so that a damaged
file causes an error instead of exhausting the memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import tvm

from ..support.errors import ModelError

if TYPE_CHECKING:
    from typing_extensions import Self

What = Literal["parts", "operators", "bytes"]

PARTS, PARTS_PER_EXPRESSION = 500_000, 50
OPERATORS, OPERATORS_PER_EXPRESSION = 20_000, 20
BYTES, BYTES_PER_BYTE = 1 << 30, 32
"""The limits of a network, and what they grow by; they are far above the needs of networks."""

LARGEST_TENSOR = 1 << 47  # bytes; the address space of a process
MAX_RANK = 64  # NumPy's
_SAID = {
    "parts": "{} expressions and parts of types and lists",
    "operators": "{} operators",
    "bytes": "{} bytes of constants that are computed",
}


class Limits:
    """What may still be made of one model.

    Parameters
    ----------
    parts : int
        How many expressions, parts of types and parts of lists may be visited; a shared one counts
        for each use that expands it.
    operators : int
        How many operators of Relax may be created.
    bytes : int
        The total size of constants that are computed from the model, in bytes.

    Attributes
    ----------
    error : type of ModelError
        What is raised at a limit; a front end may have an error of its own.
    """

    error: type[ModelError] = ModelError

    def __init__(self, parts: int, operators: int, bytes: int) -> None:
        self._limits: Mapping[What, int] = {"parts": parts, "operators": operators, "bytes": bytes}
        self._left = dict(self._limits)

    @classmethod
    def of_network(cls, expressions: int, size: int) -> Self:
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
        ModelError
            If the limit is exceeded.
        """
        self._left[what] -= count
        if self._left[what] < 0:
            limit = _SAID[what].format(f"{self._limits[what]:,}")
            raise self.error(
                f"{where} makes the model grow beyond {limit}; the file is damaged, or was made to "
                "exhaust the machine."
            )

    @classmethod
    def check_tensor(cls, shape: Sequence[int], dtype: str, where: str) -> None:
        """Check that a tensor can exist.

        Parameters
        ----------
        shape : sequence of int
            Its shape.
        dtype : str
            Its data type.
        where : str
            The cause, as the subject of a sentence.

        Raises
        ------
        ModelError
            If it has too many axes, or exceeds the address space.
        """
        if len(shape) > MAX_RANK:
            raise cls.error(f"{where} has a tensor of {len(shape)} axes, above {MAX_RANK}.")
        # If one size is 0, the tensor is empty but the others may still overflow.
        if size_of([max(size, 1) for size in shape], dtype) > LARGEST_TENSOR:
            raise cls.error(f"{where} has a tensor of {list(shape)}, which no machine can hold.")


def size_of(shape: Sequence[int], dtype: str) -> int:
    """Return the bytes of a tensor."""
    return math.prod(shape) * ((tvm.DataType(dtype).bits + 7) // 8)
