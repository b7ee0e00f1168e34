# SPDX-License-Identifier: Apache-2.0
"""Integers of eight bits: values on a grid, and products of four neighbours.

Values of a quantised network are multiples of a scale. Tensors hold which multiple it is, counted
from the lowest one, as ``uint8``.

Processors multiply bytes by dot products of four (dot4): one instruction adds the four products of
unsigned and signed bytes to an int32 sum in each lane. Where four neighbouring factors are an
operand of it, a tensor is read as ``int32``.
"""

from __future__ import annotations

from collections.abc import Sequence
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

DOT4 = "int32"
"""The type of an operand of dot4, whose lowest byte comes first in memory."""

_DOT = "tvm_ios_int8_dot"


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


def as_dot4(buffer: Any, shape: Sequence[int]) -> Any:
    """Return a buffer of bytes as one of dot4 operands, which has a quarter of the elements."""
    return T.decl_buffer(tuple(shape), DOT4, data=buffer.data, layout=None)


def dot(total: Expr, a: Expr, b: Expr, instruction_lanes: int) -> Expr:
    """Add to each lane of ``total`` the dot4 of an operand of ``a`` and one of ``b``.

    Parameters
    ----------
    total : Expr
        int32 sums.
    a, b : Expr
        Quads of unsigned and of signed bytes, as many as sums.
    instruction_lanes : int
        Lanes of the processor's instruction, which :func:`dot_source` gives access to; 0 if it has
        none.
    """
    lanes = lanes_in(total)
    if lanes == instruction_lanes:
        return T.call_pure_extern(_typed("int32", lanes), _DOT, total, a, b)

    def constant(number: int) -> Expr:
        return splat(T.int32(number), lanes)

    for place in range(0, 32, 8):
        unsigned = T.bitwise_and(T.shift_right(a, constant(place)), constant(255))
        signed = T.shift_right(T.shift_left(b, constant(24 - place)), constant(24))
        total = total + unsigned * signed
    return total


def dot_source(intrinsic: str | None, lanes: int) -> frozenset[str]:
    """Return the LLVM IR of the function that :func:`dot` calls for an instruction.

    Parameters
    ----------
    intrinsic : str or None
        The name of LLVM's intrinsic; None if the processor has none.
    lanes : int
        The number of sums.
    """
    if intrinsic is None:
        return frozenset()
    sums, numbers = f"<{lanes} x i32>", f"<{4 * lanes} x i8>"
    source = f"""
declare {sums} @{intrinsic}({sums}, {numbers}, {numbers})
define internal {sums} @{_DOT}({sums} %total, {sums} %a, {sums} %b) alwaysinline {{
  %x = bitcast {sums} %a to {numbers}
  %y = bitcast {sums} %b to {numbers}
  %result = call {sums} @{intrinsic}({sums} %total, {numbers} %x, {numbers} %y)
  ret {sums} %result
}}
"""
    return frozenset((source,))


def _typed(name: str, lanes: int) -> str:
    return name if lanes == 1 else f"{name}x{lanes}"
