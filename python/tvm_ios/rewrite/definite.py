# SPDX-License-Identifier: Apache-2.0
"""Arithmetic whose result C leaves open, and some processors end the process for.

A quotient by 0 is 0, and so is a remainder; the least integer divided by -1 is itself, as in NumPy.
A shift by a negative number of places, or by more than there are, leaves nothing but the sign. A
number that does not fit into an integer is taken modulo its range, and one that is not finite
becomes 0. The place of the largest of elements that are all the least of their type is the first.
What is no number differs from all numbers and from itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..relax_ir.constants import constant_array
from ..relax_ir.expressions import is_op, op_name

Emit = Callable[[relax.Expr], relax.Var]


def make_definite(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Give divisions of integers, shifts and casts to integers a result for all operands."""
    return _Definer(mod).visit_expr(func)


@mutator
class _Definer(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        define = _DEFINITIONS.get(op_name(call))
        if define is None or not isinstance(call.args[0].ty, relax.TensorType):
            return call
        if define is _cast and self._is_limited(call.args[0], str(call.attrs.dtype)):
            return call
        return define(self.builder_.emit, call)

    def _is_limited(self, data: relax.Expr, dtype: str) -> bool:
        """Return whether a tensor is clipped to the range of an integer."""
        value = self.lookup_binding(data) if isinstance(data, relax.Var) else data
        if not is_op(value, "clip") or not dtype.startswith(("int", "uint")):
            return False
        limits = np.iinfo(dtype)
        least, most = (float(bound.value) for bound in value.args[1:])
        return limits.min <= least and most <= limits.max


def _division(emit: Emit, call: relax.Call) -> relax.Expr:
    """Divide by 1 instead of 0 and -1, and choose the result of these."""
    left, right = call.args
    if _kind(left) not in "iu":
        return call
    signed = _kind(left) == "i"
    known = constant_array(right)
    if known is not None and not ((known == 0) | (signed & (known == -1))).any():
        return call
    zero, one = _number(0, right), _number(1, right)
    is_zero = emit(relax.op.equal(right, zero))
    special = is_zero
    if signed:
        is_minus_one = emit(relax.op.equal(right, _number(-1, right)))
        special = emit(relax.op.logical_or(is_zero, is_minus_one))
    divisor = emit(relax.op.where(special, one, right))
    result = emit(relax.Call(call.op, [left, divisor], call.attrs))
    if op_name(call) in ("mod", "floor_mod"):
        return result  # of a division by 1: 0
    if signed:
        negated = emit(relax.op.subtract(_number(0, left), left))
        result = emit(relax.op.where(is_minus_one, negated, result))
    return relax.op.where(is_zero, _number(0, left), result)


def _shift(emit: Emit, call: relax.Call) -> relax.Expr:
    left, right = call.args
    width = left.ty.dtype.dtype.bits
    known = constant_array(right)
    if known is not None and ((known >= 0) & (known < width)).all():
        return call
    signed = _kind(left) == "i"
    fits = emit(relax.op.less(right, _number(width, right)))
    if signed:
        begins = emit(relax.op.greater_equal(right, _number(0, right)))
        fits = emit(relax.op.logical_and(fits, begins))
    keeps_sign = signed and op_name(call) == "right_shift"
    most = _number(width - 1 if keeps_sign else 0, right)
    places = emit(relax.op.where(fits, right, most))
    result = relax.Call(call.op, [left, places], call.attrs)
    if keeps_sign:
        return result
    return relax.op.where(fits, emit(result), _number(0, left))


def _cast(emit: Emit, call: relax.Call) -> relax.Expr:
    (data,), wanted = call.args, call.attrs.dtype
    name = str(wanted)
    if _kind(data) != "f" or not name.startswith(("int", "uint")):
        return call
    if data.ty.dtype == "bfloat16":  # of which TVM cannot tell whether it is finite
        data = emit(relax.op.astype(data, "float32"))
    finite = emit(relax.op.isfinite(data))
    data = emit(relax.op.where(finite, data, _number(0, data)))
    bits = int(tvm.DataType(name).bits)
    if name == "uint64":
        return _unsigned(emit, data)
    if bits == 64:
        return relax.op.astype(data, name)
    wide = emit(relax.op.astype(data, "int64"))
    rest = emit(relax.op.bitwise_and(wide, relax.const((1 << bits) - 1, "int64")))
    if name.startswith("int"):
        sign = relax.const(1 << (bits - 1), "int64")
        flipped = emit(relax.op.bitwise_xor(rest, sign))
        rest = emit(relax.op.subtract(flipped, sign))
    return relax.op.astype(rest, name)


def _unsigned(emit: Emit, data: relax.Expr) -> relax.Expr:
    """Cast to uint64 by way of int64, whose range a number is moved into before."""
    half = relax.const(2.0**63, "float64")
    data = emit(relax.op.astype(data, "float64"))
    rounds = emit(relax.op.floor(relax.op.multiply(data, relax.const(2.0**-64, "float64"))))
    rest = emit(relax.op.subtract(data, relax.op.multiply(rounds, relax.const(2.0**64, "float64"))))
    data = emit(relax.op.where(relax.op.less(relax.op.abs(data), half), data, rest))
    is_upper = emit(relax.op.greater_equal(data, half))
    moved = emit(relax.op.where(is_upper, relax.op.subtract(data, half), data))
    lower = emit(relax.op.astype(emit(relax.op.astype(moved, "int64")), "uint64"))
    upper = relax.op.add(lower, relax.const(np.uint64(2**63), "uint64"))
    return relax.op.where(is_upper, emit(upper), lower)


def _difference(emit: Emit, call: relax.Call) -> relax.Expr:
    """Say that two numbers differ where they are not equal.

    TVM compares "less or greater" in LLVM, which NaN is not. A choice of truths, unlike the
    negation of an equality, is not made an inequality again.
    """
    left, right = call.args
    if _kind(left) != "f":
        return call
    equal = emit(_equality(emit, relax.op.equal(left, right)))
    return relax.op.where(equal, relax.const(False, "bool"), relax.const(True, "bool"))


def _equality(emit: Emit, call: relax.Call) -> relax.Expr:
    """Say that a number equals itself, which TVM takes as true of NaN."""
    left, right = call.args
    if _kind(left) != "f" or not left.same_as(right):
        return call
    return relax.op.logical_not(emit(relax.op.isnan(left)))


def _place(emit: Emit, call: relax.Call) -> relax.Expr:
    """Return the place of the first NaN, or else that of the first extreme element.

    TVM passes over NaN. It begins with -1 and the least number, and keeps it where no element is
    larger. On a CPU our own kernels find the places in float32.
    """
    find = relax.op.argmax if op_name(call) == "argmax" else relax.op.argmin
    data, axis = call.args[0], call.attrs.axis
    if axis is None:
        data, axis = emit(relax.op.reshape(data, [-1])), 0
    place = emit(find(data, int(axis), True))
    place = emit(relax.op.maximum(place, _number(0, place)))
    if _kind(data) == "f" and data.ty.dtype != "float32":
        missing = emit(relax.op.astype(emit(relax.op.isnan(data)), "int8"))
        is_missing = emit(relax.op.max(missing, [int(axis)], True))
        first = emit(relax.op.argmax(missing, int(axis), True))
        place = emit(relax.op.where(emit(relax.op.astype(is_missing, "bool")), first, place))
    return relax.op.reshape(place, call.ty.shape)


def _kind(tensor: relax.Expr) -> str:
    """Return "i", "u", "f" or "b", as NumPy does."""
    name = str(tensor.ty.dtype)
    return "f" if name.startswith("bfloat") else np.dtype(name).kind


def _number(value: int, like: relax.Expr) -> relax.Expr:
    return relax.const(value, str(like.ty.dtype))


_DEFINITIONS: Mapping[str, Callable[[Emit, relax.Call], relax.Expr]] = {
    "argmax": _place,
    "argmin": _place,
    "astype": _cast,
    "divide": _division,
    "equal": _equality,
    "floor_divide": _division,
    "floor_mod": _division,
    "greater_equal": _equality,
    "left_shift": _shift,
    "less_equal": _equality,
    "mod": _division,
    "not_equal": _difference,
    "right_shift": _shift,
}
