# SPDX-License-Identifier: Apache-2.0
"""Dot products of four bytes (dot4), which are added to int32 sums, one in each lane.

Processors differ in how they multiply four unsigned bytes by four signed ones:

- ``vpdpbusd`` of AVX512_VNNI and AVX-VNNI, and ``usdot`` of AArch64, do all of it.
- ``sdot`` of AArch64 multiplies signed bytes. 128 is subtracted from the unsigned ones, and whoever
  knows the factors adds 128 times their sum. Integers wrap around, so that the result is exact.
- AVX2 and AVX512BW multiply 16-bit integers, and add their products by twos (``vpmaddwd``). The
  factors are stored as such: those of the first and third bytes of all lanes, then the others.
- They also multiply bytes and add the products by twos (``vpmaddubsw``), but cut a sum to 16 bits.
  This is exact if all sums have no more, which the factors tell.

Where four neighbouring bytes are an operand, a tensor is read as ``int32``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.tirx.script import builder as T

from .emit import recast, splat
from .functions import lanes_in
from .int8 import FACTORS

Expr = Any
_Code = tuple[list[str], list[str]]  # declarations, and the lines that compute the result

DOT4 = "int32"
"""The type of an operand, whose lowest byte comes first in memory."""

FACTOR_TYPES = {1: FACTORS, 2: "int16"}
"""The types of tensors that hold factors, by the int32 that four of them take."""

_SIGN = 128  # what is subtracted from unsigned bytes to have signed ones
_MOST_SMALL = 128  # 255 times it is an int16


@dataclass(frozen=True)
class Dot4:
    """The instructions by which a processor adds dot products of four bytes.

    Attributes
    ----------
    instruction : str
        The assembler's name of the one that multiplies.
    feature : str
        LLVM's name of the extension that has it.
    lanes : int
        The number of sums.
    speed : float
        How many times faster direct convolutions are predicted to be than those of float32.
    small : Dot4 or None
        Faster ones for factors that are :func:`small`.
    """

    instruction: str
    feature: str
    lanes: int
    speed: float
    small: Dot4 | None = None

    @property
    def offset(self) -> int:
        """What is subtracted from the unsigned bytes."""
        return _SIGN if self.instruction == "sdot" else 0

    @property
    def words(self) -> int:
        """The int32 that hold the four factors of a lane."""
        return 2 if self.instruction == "vpmaddwd" else 1

    @property
    def spare(self) -> int:
        """The registers for constants, and for what is computed in between."""
        return _SPARE.get(self.instruction, 0)

    @property
    def split(self) -> float:
        """The time for which a left operand is split, in those in which one is multiplied."""
        return _SPLIT if self.instruction == "vpmaddwd" else 0.0

    @property
    def function(self) -> str:
        """The name of the function of :meth:`source`."""
        return f"tvm_ios_{self.instruction}_{self.lanes}"

    def factors(self, quads: np.ndarray) -> np.ndarray:
        """Return vectors of quads of factors, ``[..., lanes, 4]``, as they are read."""
        if self.words == 1:
            return quads
        *places, lanes, _ = quads.shape
        split = quads.astype("int16").reshape(*places, lanes, 2, 2)
        return np.ascontiguousarray(np.moveaxis(split, -1, -3)).reshape(*places, 2 * lanes, 2)

    def source(self) -> str:
        """Return the LLVM IR of the function that :func:`dot` calls."""
        sums, factors = f"<{self.lanes} x i32>", f"<{self.words * self.lanes} x i32>"
        declared, lines = _CODE[self.instruction](self.lanes)
        declarations = "\n".join(f"declare {line}" for line in declared)
        body = "\n  ".join(lines)
        return f"""
{declarations}
define internal {sums} @{self.function}({sums} %total, {sums} %a, {factors} %b) alwaysinline {{
  {body}
  ret {sums} %result
}}
"""


def small(factors: np.ndarray, axis: int) -> bool:
    """Return whether two products of unsigned bytes and neighbours along an axis fit into int16.

    Those of the axis' elements 0 and 1 are added, those of 2 and 3, and so on.
    """
    along = np.moveaxis(factors, axis, -1).astype("int16")
    along = np.pad(along, [(0, 0)] * (along.ndim - 1) + [(0, along.shape[-1] % 2)])
    pairs = along.reshape(-1, 2)
    extremes = np.maximum(pairs, 0).sum(axis=1), np.maximum(-pairs, 0).sum(axis=1)
    return all(int(sums.max(initial=0)) <= _MOST_SMALL for sums in extremes)


def as_dot4(buffer: Any, shape: Sequence[int]) -> Any:
    """Return a buffer of bytes, or of factors, as one of the operands of a given shape."""
    return recast(buffer, shape, DOT4)


def dot(total: Expr, a: Expr, b: Expr, instructions: Dot4 | None) -> Expr:
    """Add to each lane of ``total`` the dot4 of an operand of ``a`` and one of ``b``.

    Parameters
    ----------
    total : Expr
        int32 sums.
    a, b : Expr
        Quads of unsigned and of signed bytes, the latter as :meth:`Dot4.factors` leaves them.
    instructions : Dot4 or None
        Those of the processor; None if it has none.
    """
    lanes = lanes_in(total)
    if instructions is not None:
        assert lanes == instructions.lanes, "an instruction computes whole vectors"
        return T.call_pure_extern(f"int32x{lanes}", instructions.function, total, a, b)

    def constant(number: int) -> Expr:
        return splat(T.int32(number), lanes)

    for place in range(0, 32, 8):
        unsigned = T.bitwise_and(T.shift_right(a, constant(place)), constant(255))
        signed = T.shift_right(T.shift_left(b, constant(24 - place)), constant(24))
        total = total + unsigned * signed
    return total


def _vpdpbusd(lanes: int) -> _Code:
    return _bytes(f"llvm.x86.avx512.vpdpbusd.{32 * lanes}", lanes)


def _usdot(lanes: int) -> _Code:
    return _bytes(f"llvm.aarch64.neon.usdot.v{lanes}i32.v{4 * lanes}i8", lanes)


def _sdot(lanes: int) -> _Code:
    return _bytes(f"llvm.aarch64.neon.sdot.v{lanes}i32.v{4 * lanes}i8", lanes, _SIGN)


def _bytes(name: str, lanes: int, sign: int = 0) -> _Code:
    """Return the code that calls an intrinsic of bytes, of which the left ones change the sign."""
    sums, numbers, _ = _types(lanes)
    return [f"{sums} @{name}({sums}, {numbers}, {numbers})"], [
        f"%u = bitcast {sums} %a to {numbers}",
        f"%x = xor {numbers} %u, splat (i8 {-sign})",
        f"%y = bitcast {sums} %b to {numbers}",
        f"%result = call {sums} @{name}({sums} %total, {numbers} %x, {numbers} %y)",
    ]


def _vpmaddubsw(lanes: int) -> _Code:
    sums, numbers, words = _types(lanes)
    name, add = _OF_BYTES[lanes], _OF_WORDS[lanes]
    declared = [f"{words} @{name}({numbers}, {numbers})", f"{sums} @{add}({words}, {words})"]
    return declared, [
        f"%x = bitcast {sums} %a to {numbers}",
        f"%y = bitcast {sums} %b to {numbers}",
        f"%two = call {words} @{name}({numbers} %x, {numbers} %y)",
        f"%four = call {sums} @{add}({words} %two, {words} splat (i16 1))",
        f"%result = add {sums} %total, %four",
    ]


def _vpmaddwd(lanes: int) -> _Code:
    sums, _, words = _types(lanes)
    name, both = _OF_WORDS[lanes], f"<{2 * lanes} x i32>"
    lines = [
        f"%x = bitcast {sums} %a to {words}",
        f"%x0 = and {words} %x, splat (i16 255)",
        f"%x1 = lshr {words} %x, splat (i16 8)",
    ]
    for half in range(2):
        elements = ", ".join(f"i32 {half * lanes + lane}" for lane in range(lanes))
        lines += [
            f"%b{half} = shufflevector {both} %b, {both} poison, <{lanes} x i32> <{elements}>",
            f"%y{half} = bitcast {sums} %b{half} to {words}",
            f"%two{half} = call {sums} @{name}({words} %x{half}, {words} %y{half})",
        ]
    lines += [f"%four = add {sums} %two0, %two1", f"%result = add {sums} %total, %four"]
    return [f"{sums} @{name}({words}, {words})"], lines


def _types(lanes: int) -> tuple[str, str, str]:
    """Return LLVM's types of a vector of int32, of bytes and of 16-bit integers."""
    return f"<{lanes} x i32>", f"<{4 * lanes} x i8>", f"<{2 * lanes} x i16>"


_OF_BYTES = {8: "llvm.x86.avx2.pmadd.ub.sw", 16: "llvm.x86.avx512.pmaddubs.w.512"}
_OF_WORDS = {8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}

_CODE: dict[str, Callable[[int], _Code]] = {
    "vpdpbusd": _vpdpbusd,
    "vpmaddubsw": _vpmaddubsw,
    "vpmaddwd": _vpmaddwd,
    "usdot": _usdot,
    "sdot": _sdot,
}
_SPARE = {"vpmaddubsw": 2, "vpmaddwd": 2}
_SPLIT = 0.5

# The speeds on AVX2 were measured on a core of Zen 4, which has two units for products of 16-bit
# integers, and as many of float32. Cores of Intel add vectors of 512 bits on these units, too, and
# other cores have one for integers: their speeds are computed from that.
AVX512 = (
    Dot4("vpdpbusd", "avx512vnni", 16, 4.0),
    Dot4("vpmaddwd", "avx512bw", 16, 0.9, Dot4("vpmaddubsw", "avx512bw", 16, 1.3)),
)
AVX2 = (
    Dot4("vpdpbusd", "avxvnni", 8, 4.0),
    Dot4("vpmaddwd", "avx2", 8, 1.25, Dot4("vpmaddubsw", "avx2", 8, 1.8)),
)
NEON = (Dot4("usdot", "i8mm", 4, 4.0), Dot4("sdot", "dotprod", 4, 4.0))
"""The instructions of vectors of each kind, the fastest first."""

ONE_UNIT = Dot4("vpmaddwd", "avx2", 8, 0.8, Dot4("vpmaddubsw", "avx2", 8, 1.0))
"""Those of AVX2 on a core that multiplies integers on one unit, but float32 on two."""
