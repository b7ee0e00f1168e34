# SPDX-License-Identifier: Apache-2.0
"""Integers of eight bits: values on a grid.

Values of a quantised network are multiples of a scale. Tensors hold which multiple it is, counted
from the lowest one, as ``uint8``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import tirx
from tvm.tirx.script import builder as T

from .emit import splat
from .functions import lanes_in

Expr = Any

STORED = "uint8"
"""The type of tensors that hold values on a grid."""

FACTORS = "int8"
"""The type of tensors that hold what they are multiplied by."""

WHOLE = {"int8": 1, "uint8": 1, "int32": 4}
"""The types of integers that are cast from and to float32, and their bytes."""


@dataclass(frozen=True)
class Grid:
    """The format of values ``scale * (low + n)`` with ``n`` of 0 to 255.

    See :class:`~.storage.Format`. A value that is not on the grid is rounded to it.

    Attributes
    ----------
    scale : float
    low : int
        Which multiple of the scale is the lowest one.
    """

    scale: float
    low: int
    dtype: ClassVar[str] = STORED
    num_bytes: ClassVar[int] = 1
    sources: ClassVar[frozenset[str]] = frozenset()

    def widened(self, bits: Expr) -> Expr:
        lanes = lanes_in(bits)
        number = T.cast(bits, _typed("int32", lanes)) + splat(T.int32(self.low), lanes)
        return T.cast(number, _typed("float32", lanes)) * splat(T.float32(self.scale), lanes)

    def narrowed(self, value: Expr) -> Expr:
        lanes = lanes_in(value)
        multiple = tirx.nearbyint(value * splat(T.float32(1.0 / self.scale), lanes))
        number = T.cast(multiple, _typed("int32", lanes)) - splat(T.int32(self.low), lanes)
        return T.cast(number, _typed(STORED, lanes))


@dataclass(frozen=True)
class Integers:
    """The format of integers of a type, which are read as float32; fractions are cut off.

    Attributes
    ----------
    dtype : str
        One of :data:`WHOLE`.
    """

    dtype: str
    sources: ClassVar[frozenset[str]] = frozenset()

    @property
    def num_bytes(self) -> int:
        return WHOLE[self.dtype]

    def widened(self, bits: Expr) -> Expr:
        return T.cast(bits, _typed("float32", lanes_in(bits)))

    def narrowed(self, value: Expr) -> Expr:
        lanes = lanes_in(value)
        return T.cast(T.cast(value, _typed("int32", lanes)), _typed(self.dtype, lanes))


def _typed(name: str, lanes: int) -> str:
    return name if lanes == 1 else f"{name}x{lanes}"
