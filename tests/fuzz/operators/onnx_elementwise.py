# SPDX-License-Identifier: Apache-2.0
"""ONNX's elementwise operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..draw import Draw, Refused
from ..network import HALVES
from .table import ONNX

INTEGERS = ("int32", "int64")
NUMBERS = ("float32", "float32", "float32", "float64", "int32", "int64")
_ANY = (-np.inf, np.inf)

# Operators of one operand: where it must lie, attributes, whether results are exact.
_SMOOTH: dict[str, tuple[float, float]] = {
    "Sigmoid": _ANY, "Tanh": _ANY, "Erf": _ANY, "Softsign": _ANY, "HardSwish": _ANY, "Mish": _ANY,
    "Exp": (-20, 6), "Log": (0.05, np.inf), "Sqrt": (0.01, np.inf), "Sin": (-20, 20),
    "Cos": (-20, 20), "Tan": (-1.2, 1.2), "Asin": (-0.9, 0.9), "Acos": (-0.9, 0.9), "Atan": _ANY,
    "Sinh": (-6, 6), "Cosh": (-6, 6), "Asinh": _ANY, "Acosh": (1.1, 100.0), "Atanh": (-0.9, 0.9),
    "Softplus": (-20, 20),
}  # fmt: skip
_NONNEGATIVE = (0.05, np.inf)


def _number(d: Draw) -> str:
    return d.operand(dtype="float32")


def prepared(d: Draw, low: float, high: float) -> str:
    """A value in an interval; where there is none, one that is moved there."""
    inside = d.within(low, high)
    try:
        if d.chance(0.5):
            return d.operand(where=inside)
    except Refused:
        pass
    x = _number(d)
    if inside(x):
        return x
    if high == np.inf:
        return d.add("Add", [d.add("Abs", [x], exact=True), d.constant(np.float32(low + 0.1))])
    middle = 0.0 if low < 0.0 else 0.5 * (low + high)
    half = 0.9 * min(high - middle, middle - low)
    scaled = d.add("Mul", [d.add("Tanh", [x]), d.constant(np.float32(half))])
    return d.add("Add", [scaled, d.constant(np.float32(middle))]) if middle else scaled


def _smooth(name: str, low: float, high: float) -> None:
    ONNX.operator(name, 0.4)(lambda d: d.add(name, [prepared(d, low, high)]))


for _name, _range in _SMOOTH.items():
    _smooth(_name, *_range)


def _unary(name: str, weight: float, exact: bool, **choices: Callable[[Draw], Any]) -> None:
    """Enter an operator of one operand, each attribute left out half of the time."""

    @ONNX.operator(name, weight)
    def generate(d: Draw) -> None:
        attributes = {key: draw(d) for key, draw in choices.items() if d.chance(0.5)}
        d.add(name, [_number(d)], exact=exact, **attributes)


def _small(d: Draw) -> float:
    return float(np.float32(d.random.uniform(0.05, 1.5)))


_unary("Relu", 3.0, True)
_unary("Identity", 0.5, True)
_unary("Elu", 0.4, False, alpha=_small)
_unary("Selu", 0.4, False, alpha=_small, gamma=_small)
_unary("LeakyRelu", 1.0, False, alpha=_small)
_unary("HardSigmoid", 0.5, False, alpha=_small, beta=_small)


@ONNX.operator("Reciprocal", 0.4)
def reciprocal(d: Draw) -> None:
    d.add("Reciprocal", [prepared(d, 0.05, np.inf)])


@ONNX.operator("Abs", 0.5)
def absolute(d: Draw) -> None:
    d.add("Abs", [d.operand(dtype=NUMBERS)], exact=True)


@ONNX.operator("Neg", 0.5)
def negative(d: Draw) -> None:
    d.add("Neg", [d.operand(dtype=NUMBERS)], exact=True)


@ONNX.operator("Gelu", 0.7)
def gelu(d: Draw) -> None:
    if d.opset < 20:
        raise Refused
    attributes = {"approximate": d.pick(["none", "tanh"])} if d.chance(0.6) else {}
    d.add("Gelu", [_number(d)], **attributes)


def _jumping(name: str, **choices: Callable[[Draw], Any]) -> None:
    """Enter an operator that jumps, which takes what is exact."""

    @ONNX.operator(name, 0.3)
    def generate(d: Draw) -> None:
        attributes = {key: draw(d) for key, draw in choices.items() if d.chance(0.5)}
        d.add(name, [d.operand(exact=True)], exact=True, **attributes)


for _name in ("Floor", "Ceil", "Round", "Sign", "IsNaN", "IsInf"):
    _jumping(_name)
_jumping("ThresholdedRelu", alpha=_small)
_jumping("Shrink", bias=_small, lambd=_small)


@ONNX.operator("Clip", 1.5)
def clip(d: Draw) -> None:
    x = d.operand(dtype=("float32", "float32", "float32", *INTEGERS))
    low, high = sorted(d.random.uniform(-3, 3, 2))
    bounds = [d.constant(np.asarray(bound, d.dtype(x))) for bound in (low, high)]
    if d.chance(0.3):
        bounds[d.integer(0, 1)] = ""
    d.add("Clip", [x, *bounds], exact=True)


@ONNX.operator("PRelu", 0.5)
def prelu(d: Draw) -> None:
    x = _number(d)
    shape = d.dims(x)
    slope = shape[1:2] + (1,) * (len(shape) - 2) if len(shape) > 1 else shape[:1]
    d.add("PRelu", [x, d.numbers(*slope)])


def _binary(name: str, weight: float, dtypes: tuple[str, ...]) -> None:
    @ONNX.operator(name, weight)
    def generate(d: Draw) -> None:
        x = d.operand(dtype=dtypes)
        operands = [x, d.partner(x)]
        if d.chance(0.5):
            operands.reverse()
        d.add(name, operands)


_binary("Add", 4.0, NUMBERS)
_binary("Sub", 1.5, NUMBERS)
_binary("Mul", 2.5, NUMBERS)


def _extreme(name: str) -> None:
    @ONNX.operator(name, 0.8)
    def generate(d: Draw) -> None:
        x = d.operand(dtype=NUMBERS)
        operands = [x, *(d.partner(x) for _ in range(d.pick([0, 1, 1, 2])))]
        d.add(name, d.some(operands), exact=True)


_extreme("Min")
_extreme("Max")


def _variadic(name: str) -> None:
    @ONNX.operator(name, 0.6)
    def generate(d: Draw) -> None:
        x = d.operand()
        d.add(name, [x, *(d.partner(x) for _ in range(d.integer(0, 3)))])


_variadic("Sum")
_variadic("Mean")


@ONNX.operator("Div", 1.0)
def divide(d: Draw) -> None:
    x = d.operand(dtype=("float32", "float32", "float32", *INTEGERS))
    other = d.partner(x)
    if not np.all(np.abs(d.values[other]) > 0.1):
        if d.dtype(x) in INTEGERS:
            raise Refused
        other = d.add("Add", [d.add("Abs", [other], exact=True), d.constant(np.float32(0.2))])
    d.add("Div", [x, other])


@ONNX.operator("Pow", 0.6)
def power(d: Draw) -> None:
    exponent = d.pick([2.0, 2.0, 3.0, 0.5, -0.5, -1.0, 1.0, 0.0, 1.7])
    whole = exponent in (2.0, 3.0, 1.0, 0.0)
    x = _number(d) if whole else prepared(d, *_NONNEGATIVE)
    d.add("Pow", [x, d.constant(np.float32(exponent))])


@ONNX.operator("Mod", 0.3)
def modulo(d: Draw) -> None:
    x = d.operand(dtype=INTEGERS)
    divisor = d.random.integers(1, 5, d.dims(x)[-1:]).astype(d.dtype(x))
    d.add("Mod", [x, d.constant(divisor)])


def _comparison(name: str) -> None:
    @ONNX.operator(name, 0.3)
    def generate(d: Draw) -> None:
        x = d.operand(dtype=NUMBERS, exact=True)
        other = d.partner(x)
        if other not in d.exact:
            raise Refused
        d.add(name, [x, other])


for _name in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"):
    _comparison(_name)


def _logical(name: str, operands: int, dtypes: tuple[str, ...]) -> None:
    @ONNX.operator(name, 0.25)
    def generate(d: Draw) -> None:
        x = d.operand(dtype=dtypes)
        d.add(name, [x, d.partner(x)][:operands])


for _name in ("And", "Or", "Xor"):
    _logical(_name, 2, ("bool",))
_logical("Not", 1, ("bool",))


def _bitwise(name: str, operands: int) -> None:
    @ONNX.operator(name, 0.2)
    def generate(d: Draw) -> None:
        if d.opset < 18:
            raise Refused
        x = d.operand(dtype=INTEGERS)
        d.add(name, [x, d.partner(x)][:operands])


for _name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    _bitwise(_name, 2)
_bitwise("BitwiseNot", 1)


@ONNX.operator("BitShift", 0.2)
def shift(d: Draw) -> None:
    x = d.operand(dtype=("uint8", "uint32"))
    by = d.random.integers(0, 4, d.dims(x)[-1:]).astype(d.dtype(x))
    d.add("BitShift", [x, d.constant(by)], direction=d.pick(["LEFT", "RIGHT"]))


@ONNX.operator("Where", 0.8)
def where(d: Draw) -> None:
    x = d.operand(dtype=("float32", "float32", "int64"))
    shape = tuple(1 if d.chance(0.3) else n for n in d.dims(x))
    found = [n for n, t in d.types.items() if t.dtype == "bool" and t.shape == d.dims(x)]
    condition = d.pick(found) if found else d.constant(d.random.integers(0, 2, shape) == 1)
    d.add("Where", [condition, x, d.partner(x)], exact=True)


@ONNX.operator("Cast", 0.8)
def cast(d: Draw) -> None:
    floats = [d.floats, "float32", "float64", *(HALVES if d.opset >= 13 else HALVES[:1])]
    to = d.pick([*floats, "int32", "int64", "bool", "int8", "uint8"])
    if to in floats:
        found = d.operand(dtype=("bool", "int32", "int64", "float64", "int8", "uint8", "float32"))
    else:
        positive = None if to != "uint8" else d.within(0, 200)
        found = d.operand(dtype=("float32", "int32", "int64", "bool"), exact=True, where=positive)
    d.add("Cast", [found], exact=True, to=to)


@ONNX.operator("CumSum", 0.4)
def cumulative_sum(d: Draw) -> None:
    x = d.operand(range(1, 5), ("float32", *INTEGERS))
    axis = d.integer(0, len(d.dims(x)) - 1)
    options = {key: 1 for key in ("exclusive", "reverse") if d.chance(0.3)}
    d.add("CumSum", [x, d.constant(np.int64(axis))], **options)
