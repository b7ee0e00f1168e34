# SPDX-License-Identifier: Apache-2.0
"""Functions that TVM lowers by differences of numbers near 1, which leave nothing of small results.

It computes ``tanh(x)`` as ``(1 - exp(-2x)) / (1 + exp(-2x))`` and ``atanh(x)`` as
``log((1 + x) / (1 - x)) / 2``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

Expr = Any

SMALL_TANH = 0.625
# tanh(x) = x * (1 + z * polynomial(z)) of z = x * x for |x| <= 0.625, relative error 4.5e-9.
TANH = (-0.333332807, 0.133314058, -0.0537365116, 0.020628145, -0.00569226313)


def accurate_near_zero(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Replace calls of such functions by expressions with a small relative error everywhere.

    Parameters
    ----------
    func : tvm.tirx.PrimFunc
        A function that has not been lowered.
    """

    def replace(call: tvm.ir.Call) -> Expr:
        build = _BUILDERS.get((getattr(call.op, "name", ""), str(call.ty.dtype)))
        return call if build is None else build(call.args[0])

    return func.with_body(tvm_ffi.structural_map(func.body, (tvm.ir.Call, replace)))


def _tanh(x: Expr) -> Expr:
    """Compute ``tanh(x)`` with relative error 2.5e-7, with one exponential function."""

    def number(value: float) -> Expr:
        return tirx.const(value, "float32")

    size, square = tirx.abs(x), x * x
    polynomial = reduce(lambda sum_, c: sum_ * square + number(c), TANH[-2::-1], number(TANH[-1]))
    large = number(1.0) - number(2.0) / (tirx.exp(size + size) + number(1.0))
    signed = tirx.Select(x < number(0.0), number(0.0) - large, large)
    small = x * (number(1.0) + square * polynomial)  # -0 stays as it is
    return tirx.Select(size < number(SMALL_TANH), small, signed)


def _of_c(name: str, dtype: str) -> Callable[[Expr], Expr]:
    return lambda x: tirx.call_pure_extern(dtype, name, x)


_BUILDERS: dict[tuple[str, str], Callable[[Expr], Expr]] = {
    ("tirx.tanh", "float32"): _tanh,
    ("tirx.tanh", "float64"): _of_c("tanh", "float64"),
    ("tirx.atanh", "float32"): _of_c("atanhf", "float32"),
    ("tirx.atanh", "float64"): _of_c("atanh", "float64"),
}
