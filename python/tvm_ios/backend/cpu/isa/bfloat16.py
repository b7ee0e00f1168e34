# SPDX-License-Identifier: Apache-2.0
"""Numbers in bfloat16: rounding, dot2 products, and tensors that hold them.

A bfloat16 is the upper half of a float32. Tensors hold it as ``uint16``, because TVM's passes
replace arithmetic of type ``bfloat16``. Kernels compute in float32: they widen what they read, and
round what they write.

Processors multiply bfloat16 by dot products of two (dot2): one instruction adds the two products of
a pair to a float32 sum in each lane. Where two neighbouring factors are a pair, an operand of dot2,
a tensor is read as ``int32``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T

from .emit import recast, splat
from .functions import keep, lanes_in

Expr = Any

STORED = "uint16"
"""The type of tensors that hold bfloat16."""

DOT2 = "int32"
"""The type of an operand of dot2, whose lower half comes first in memory."""

_DOT, _ROUND = "tvm_ios_bfloat16_dot", "tvm_ios_bfloat16_round"
FIRST, _SECOND, BOTH = 0xFFFF, -65536, -1
"""The bits of the first number of a pair, of the second, and of both."""
_QUIET = 0x40  # the bit that tells a quiet NaN


@dataclass(frozen=True)
class Bfloat16:
    """The format of tensors that hold bfloat16, see :class:`~.storage.Format`.

    Attributes
    ----------
    instruction_lanes : int
        The numbers that the processor's instruction rounds, which :func:`round_source` gives access
        to; 0 if there is none.
    """

    instruction_lanes: int = 0
    dtype: ClassVar[str] = STORED
    num_bytes: ClassVar[int] = 2

    @property
    def sources(self) -> frozenset[str]:
        return round_source(self.instruction_lanes)

    def widened(self, bits: Expr) -> Expr:
        return widened(bits)

    def narrowed(self, value: Expr) -> Expr:
        return bits_of(value, self.instruction_lanes)


def bits_of(value: Expr, instruction_lanes: int) -> Expr:
    """Round float32 numbers to the bits of bfloat16, by the instruction if it has as many lanes."""
    lanes = lanes_in(value)
    if lanes == instruction_lanes:
        return T.call_pure_extern(_typed(STORED, lanes), _ROUND, value)
    return rounded(value)


def widened(bits: Expr) -> Expr:
    """Return the float32 of bfloat16 numbers."""
    lanes = lanes_in(bits)
    upper = T.shift_left(T.cast(bits, _typed(DOT2, lanes)), splat(T.int32(16), lanes))
    return T.reinterpret(_typed("float32", lanes), upper)


def rounded(value: Expr) -> Expr:
    """Round float32 numbers to bfloat16: to the nearest, ties to even; NaN stays NaN."""
    value, lanes = keep(value), lanes_in(value)

    def constant(number: int) -> Expr:
        return splat(T.int32(number), lanes)

    bits = T.reinterpret(_typed(DOT2, lanes), value)
    upper = T.shift_right(bits, constant(16))
    odd = T.bitwise_and(upper, constant(1))
    nearest = T.shift_right(bits + constant(0x7FFF) + odd, constant(16))
    nan = T.bitwise_or(upper, constant(_QUIET))
    return T.cast(tirx.Select(tirx.isnan(value), nan, nearest), _typed(STORED, lanes))


def as_dot2(buffer: Any, shape: Sequence[int]) -> Any:
    """Return a buffer of bfloat16 as one of dot2 operands, which has half as many elements."""
    return recast(buffer, shape, DOT2)


def joined(first: Expr, second: Expr | None = None) -> Expr:
    """Return the pairs of two vectors of bfloat16, lane by lane; zero stands for a missing one."""
    pair = _typed(DOT2, lanes_in(first))
    if second is None:
        return T.cast(first, pair)
    shift = splat(T.int32(16), lanes_in(first))
    return T.bitwise_or(T.cast(first, pair), T.shift_left(T.cast(second, pair), shift))


def dot(total: Expr, a: Expr, b: Expr, instruction_lanes: int) -> Expr:
    """Add to each lane of ``total`` the dot2 of a pair of ``a`` and one of ``b``.

    Parameters
    ----------
    total : Expr
        float32 sums.
    a, b : Expr
        Pairs, as many as sums.
    instruction_lanes : int
        Lanes of the processor's instruction, which :func:`dot_source` gives access to; 0 if it has
        none. Any other number of lanes is multiplied as float32.
    """
    lanes = lanes_in(total)
    if lanes == instruction_lanes:
        return T.call_pure_extern(_typed("float32", lanes), _DOT, total, a, b)

    def half(pair: Expr, second: bool) -> Expr:
        operation, bits = (T.bitwise_and, _SECOND) if second else (T.shift_left, 16)
        bits = operation(pair, splat(T.int32(bits), lanes))
        return T.reinterpret(_typed("float32", lanes), bits)

    return total + half(a, True) * half(b, True) + half(a, False) * half(b, False)


def dot_source(intrinsic: str | None, lanes: int) -> frozenset[str]:
    """Return the LLVM IR of the function that :func:`dot` calls for an instruction.

    Parameters
    ----------
    intrinsic : str or None
        The name of LLVM's intrinsic of three vectors; None if the processor has none.
    lanes : int
        The number of sums.
    """
    if intrinsic is None:
        return frozenset()
    sums, numbers, pairs = f"<{lanes} x float>", f"<{2 * lanes} x bfloat>", f"<{lanes} x i32>"
    source = f"""
declare {sums} @{intrinsic}({sums}, {numbers}, {numbers})
define internal {sums} @{_DOT}({sums} %total, {pairs} %a, {pairs} %b) alwaysinline {{
  %x = bitcast {pairs} %a to {numbers}
  %y = bitcast {pairs} %b to {numbers}
  %result = call {sums} @{intrinsic}({sums} %total, {numbers} %x, {numbers} %y)
  ret {sums} %result
}}
"""
    return frozenset((source,))


def round_source(lanes: int) -> frozenset[str]:
    """Return the LLVM IR of the function by which :func:`bits_of` rounds ``lanes`` numbers.

    It is for processors with an instruction: LLVM calls a library on others. Numbers below the
    least normal one may become zero.
    """
    if not lanes:
        return frozenset()
    source = f"""
define internal <{lanes} x i16> @{_ROUND}(<{lanes} x float> %value) alwaysinline {{
  %rounded = fptrunc <{lanes} x float> %value to <{lanes} x bfloat>
  %bits = bitcast <{lanes} x bfloat> %rounded to <{lanes} x i16>
  ret <{lanes} x i16> %bits
}}
"""
    return frozenset((source,))


def nearest(values: np.ndarray) -> np.ndarray:
    """Round an array to bfloat16, as an array of their bits; NaN stays NaN."""
    bits = np.ascontiguousarray(values, "float32").view("uint32")
    result = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(values), bits >> 16 | _QUIET, result).astype(STORED)


def exact(bits: np.ndarray) -> np.ndarray:
    """Return the float32 values of an array of the bits of bfloat16."""
    return (bits.astype("uint32") << 16).view("float32")


def _typed(name: str, lanes: int) -> str:
    return name if lanes == 1 else f"{name}x{lanes}"
