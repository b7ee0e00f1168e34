# SPDX-License-Identifier: Apache-2.0
"""Products of small matrices of bfloat16 by AArch64's ``bfmmla``.

The instruction multiplies two rows by two columns, of two pairs each, and adds the products to four
float32 sums: those of the first row, then those of the second one.

Source: Arm Architecture Reference Manual for A-profile architecture, C7.2, BFMMLA.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from .bfloat16 import DOT2
from .emit import Accumulators, shuffled, splat

Expr = Any

PRODUCTS = "llvm.aarch64.neon.bfmmla"
"""LLVM's name of the instruction."""
LANES = 4
"""The sums."""
PAIRS = 2
"""The pairs of a row."""

_FUNCTION = "tvm_ios_bfmmla"
_SUMS = "<4 x float>"
_SOURCE = f"""
declare {_SUMS} @{PRODUCTS}({_SUMS}, <8 x bfloat>, <8 x bfloat>)
define internal {_SUMS} @{_FUNCTION}({_SUMS} %total, <4 x i32> %a, <4 x i32> %b) alwaysinline {{
  %x = bitcast <4 x i32> %a to <8 x bfloat>
  %y = bitcast <4 x i32> %b to <8 x bfloat>
  %result = call {_SUMS} @{PRODUCTS}({_SUMS} %total, <8 x bfloat> %x, <8 x bfloat> %y)
  ret {_SUMS} %result
}}
"""


def sources() -> frozenset[str]:
    """Return the LLVM IR of the function that :func:`multiply` calls."""
    return frozenset((_SOURCE,))


def rows(first: Expr, second: Expr | None = None) -> Expr:
    """Return the operand of two rows of two pairs; a row that does not exist is zero."""
    second = splat(tirx.const(0, DOT2), PAIRS) if second is None else second
    return shuffled([first, second], range(2 * PAIRS))


def multiply(
    sums: Sequence[Accumulators], left: Sequence[Expr], right: Sequence[tuple[Expr, Expr]]
) -> None:
    """Add the products of rows, two by two, and of blocks of four columns to their sums.

    Parameters
    ----------
    sums : sequence of Accumulators
        The sums of each block, of which two vectors belong to two rows: that of the first two
        columns and that of the others.
    left : sequence of Expr
        The operands of two rows each.
    right : sequence of (Expr, Expr)
        The first pairs of each block's four columns, and the second ones.
    """
    columns = [
        [T.Bind(shuffled(pairs, half)) for half in ([0, 4, 1, 5], [2, 6, 3, 7])]
        for pairs in ([T.Bind(vector) for vector in both] for both in right)
    ]
    for pair, operand in enumerate(left):
        value = T.Bind(operand)
        for block, halves in zip(sums, columns, strict=True):
            for at, half in enumerate(halves, 2 * pair):
                kind = f"float32x{LANES}"
                block[at] = T.call_pure_extern(kind, _FUNCTION, block[at], value, half)


def transpose(sums: Accumulators, rows: int) -> None:
    """Bring the sums of each of an even number of rows together, in one vector for each row."""
    for row in range(0, rows, 2):
        both = [T.Bind(sums[row]), T.Bind(sums[row + 1])]
        sums[row] = shuffled(both, [0, 1, 4, 5])
        sums[row + 1] = shuffled(both, [2, 3, 6, 7])
