# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators of one tensor, or of two that are broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable

from tvm import relax

from ...frontend.emitter import Emitter, dtype_of
from .table import Converter, operator

_UNARY = {
    "abs": relax.op.abs,
    "acos": relax.op.acos,
    "acosh": relax.op.acosh,
    "asin": relax.op.asin,
    "asinh": relax.op.asinh,
    "atan": relax.op.atan,
    "atanh": relax.op.atanh,
    "bitwise_not": relax.op.bitwise_not,
    "ceil": relax.op.ceil,
    "cos": relax.op.cos,
    "cosh": relax.op.cosh,
    "erf": relax.op.erf,
    "exp": relax.op.exp,
    "fast_erf": relax.op.erf,
    "fast_exp": relax.op.exp,
    "fast_tanh": relax.op.tanh,
    "floor": relax.op.floor,
    "isfinite": relax.op.isfinite,
    "isinf": relax.op.isinf,
    "isnan": relax.op.isnan,
    "log": relax.op.log,
    "logical_not": relax.op.logical_not,
    "negative": relax.op.negative,
    "rsqrt": relax.op.rsqrt,
    "sigmoid": relax.op.sigmoid,
    "sign": relax.op.sign,
    "sin": relax.op.sin,
    "sinh": relax.op.sinh,
    "sqrt": relax.op.sqrt,
    "tan": relax.op.tan,
    "tanh": relax.op.tanh,
    "trunc": relax.op.trunc,
}

_BINARY = {
    "add": relax.op.add,
    "bitwise_and": relax.op.bitwise_and,
    "bitwise_or": relax.op.bitwise_or,
    "bitwise_xor": relax.op.bitwise_xor,
    "divide": relax.op.divide,
    "equal": relax.op.equal,
    "floor_divide": relax.op.floor_divide,
    "floor_mod": relax.op.floor_mod,
    "greater": relax.op.greater,
    "greater_equal": relax.op.greater_equal,
    "left_shift": relax.op.left_shift,
    "less": relax.op.less,
    "less_equal": relax.op.less_equal,
    "logical_and": relax.op.logical_and,
    "logical_or": relax.op.logical_or,
    "logical_xor": relax.op.logical_xor,
    "maximum": relax.op.maximum,
    "minimum": relax.op.minimum,
    "multiply": relax.op.multiply,
    "not_equal": relax.op.not_equal,
    "power": relax.op.power,
    "right_shift": relax.op.right_shift,
    "subtract": relax.op.subtract,
}

_LOGARITHMS = {"log2": 2.0, "log10": 10.0}


def _unary(build: Callable[..., relax.Expr]) -> Converter:
    def convert(emit: Emitter, data: relax.Expr) -> relax.Expr:
        return emit(build(data))

    return convert


def _binary(build: Callable[..., relax.Expr]) -> Converter:
    def convert(emit: Emitter, left: relax.Expr, right: relax.Expr) -> relax.Expr:
        return emit(build(left, right))

    return convert


def _logarithm(base: float) -> Converter:
    def convert(emit: Emitter, data: relax.Expr) -> relax.Expr:
        factor = emit.scalar(1.0 / math.log(base), data)
        return emit(relax.op.multiply(relax.op.log(data), factor))

    return convert


for _name, _build in _UNARY.items():
    operator(_name)(_unary(_build))
for _name, _build in _BINARY.items():
    operator(_name)(_binary(_build))
for _name, _base in _LOGARITHMS.items():
    operator(_name)(_logarithm(_base))


@operator("round")
def round_(emit: Emitter, data: relax.Expr) -> relax.Expr:
    """Round halves away from zero; Relax rounds them to even."""
    whole = emit(relax.op.trunc(data))
    rest = relax.op.multiply(relax.op.subtract(data, whole), emit.scalar(2, data))
    return emit(relax.op.add(whole, relax.op.trunc(rest)))


@operator("trunc_divide")
def trunc_divide(emit: Emitter, left: relax.Expr, right: relax.Expr) -> relax.Expr:
    quotient = emit(relax.op.divide(left, right))
    return emit(relax.op.trunc(quotient)) if dtype_of(left).startswith("float") else quotient


@operator("mod", "trunc_mod")
def trunc_mod(emit: Emitter, left: relax.Expr, right: relax.Expr) -> relax.Expr:
    """Return the remainder of a division that rounds towards zero."""
    if not dtype_of(left).startswith("float"):
        return emit(relax.op.mod(left, right))
    quotient = trunc_divide(emit, left, right)
    return emit(relax.op.subtract(left, relax.op.multiply(quotient, right)))


@operator("clip")
def clip(emit: Emitter, data: relax.Expr, *, a_min: float, a_max: float) -> relax.Expr:
    return emit(relax.op.clip(data, a_min, a_max))


@operator("cast")
def cast(emit: Emitter, data: relax.Expr, *, dtype: str) -> relax.Expr:
    return emit.cast(data, dtype)


@operator("cast_like")
def cast_like(emit: Emitter, data: relax.Expr, like: relax.Expr) -> relax.Expr:
    return emit.cast(data, dtype_of(like))


@operator("where")
def where(emit: Emitter, condition: relax.Expr, x: relax.Expr, y: relax.Expr) -> relax.Expr:
    """Select ``x`` where the condition, of any data type, is not zero."""
    if dtype_of(condition) != "bool":
        condition = emit(relax.op.not_equal(condition, emit.scalar(0, condition)))
    return emit(relax.op.where(condition, x, y))
