# SPDX-License-Identifier: Apache-2.0
"""The larger of two vectors of a CPU, in as few instructions as a NaN allows.

What :func:`.functions.largest` returns takes LLVM a comparison more than needed: it joins two
selections by their conditions. The functions here are LLVM IR of our own.
"""

from __future__ import annotations

from typing import Any

from tvm.tirx.script import builder as T

from .functions import lanes_in

Expr = Any

_FUNCTION = "tvm_ios_maximum"
_AVX512_LANES = 16  # of no other processors


def maximum(a: Expr, b: Expr) -> Expr:
    """Return the larger value, NaN if one of them is NaN. Zeros of both signs are equal."""
    return T.call_pure_extern(f"float32x{lanes_in(a)}", _FUNCTION, a, b)


def maximum_source(lanes: int) -> str:
    """Return the LLVM IR of the function that :func:`maximum` calls."""
    vector = f"<{lanes} x float>"
    if lanes != _AVX512_LANES:
        name = f"@llvm.maximum.v{lanes}f32"
        declaration = f"declare {vector} {name}({vector}, {vector})"
        body = f"  %result = call nsz {vector} {name}({vector} %a, {vector} %b)"
    else:
        # The instruction returns b if one of them is NaN. Where a is, it is masked.
        name = "@llvm.x86.avx512.max.ps.512"
        declaration = f"declare {vector} {name}({vector}, {vector}, i32 immarg)"
        current_rounding = 4
        body = f"""\
  %number = fcmp ord {vector} %a, zeroinitializer
  %larger = call {vector} {name}({vector} %a, {vector} %b, i32 {current_rounding})
  %result = select <{lanes} x i1> %number, {vector} %larger, {vector} %a"""
    return f"""
{declaration}
define internal {vector} @{_FUNCTION}({vector} %a, {vector} %b) alwaysinline {{
{body}
  ret {vector} %result
}}
"""
