# SPDX-License-Identifier: Apache-2.0
"""Integers in the order of floating-point numbers, with NaN above all of them.

TVM's sorting compares by "less", which is false on both sides of NaN, so that a NaN would leave the
elements around it in any order. As in NumPy and PyTorch, NaN is the largest, and the two zeros are
equal.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import te, tirx

FUNCTION = "order_key"
"""What the names of such functions begin with."""

_ATTRIBUTE = "tvm_ios.order_key"


def key_type(dtype: str) -> str:
    """Return the type of the keys of float32 or float64."""
    return {"float32": "int32", "float64": "int64"}[dtype]


def order_key(shape: Sequence[int], dtype: str) -> tirx.PrimFunc:
    """Build a function of numbers and their keys, tensors of the same shape.

    Parameters
    ----------
    shape : sequence of int
    dtype : str
        float32 or float64.

    Returns
    -------
    tvm.tirx.PrimFunc
    """
    integer = key_type(dtype)
    greatest = tirx.const((1 << (tirx.const(0, integer).ty.dtype.bits - 1)) - 1, integer)
    zero = tirx.const(0, integer)
    numbers = te.placeholder(tuple(shape), dtype, "numbers")

    def key(*place: tirx.Var) -> tirx.Expr:
        number = numbers(*place)
        bits = tirx.reinterpret(integer, number)
        # The magnitudes of negative numbers grow with their bits.
        ordered = tirx.Select(bits < zero, bits ^ greatest, bits)
        ordered = tirx.Select(number == tirx.const(0, dtype), zero, ordered)
        return tirx.Select(tirx.isnan(number), greatest, ordered)

    keys = te.compute(tuple(shape), key, "keys")
    function = te.create_prim_func([numbers, keys]).without_attr("global_symbol")
    return function.with_attr(_ATTRIBUTE, True)


def is_order_key(function: tirx.PrimFunc) -> bool:
    """Return whether a function is one of :func:`order_key`."""
    return bool(function.attrs and _ATTRIBUTE in function.attrs)
