# SPDX-License-Identifier: Apache-2.0
"""Operators that compute each element from those at the same place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ....relax_ir.constants import number_of
from ..meaning import Form, Meaning, MeaningRule, Operation, Role, broadcast
from ..ranges import (
    ANY,
    FINITE,
    LARGEST,
    ONE,
    TRUTH,
    ZERO,
    Range,
    add,
    as_truth,
    as_type,
    complement,
    divide,
    equal,
    exactly,
    kept_finite,
    less,
    maximum,
    minimum,
    multiply,
    negative,
    subtract,
    where,
)

Ranges = Sequence[Range]
_EXPONENT = 80.0  # of an exponential that float32 holds


def _relu(r: Ranges) -> Range:
    return maximum(r[0], ZERO)


def _exp(r: Ranges) -> Range:
    (a,) = r
    high = math.exp(a.high) if a.high <= _EXPONENT else math.inf
    if a.number is not None and math.isinf(a.number):
        return ZERO if a.number < 0 else ANY
    return Range(0.0, 1.01 * high, a.nan)


def _above(bound: float, *, strictly: bool) -> Callable[[Ranges], Range]:
    """Return the range of a function that is finite for what is above a bound."""

    def known(r: Ranges) -> Range:
        inside = r[0].low > bound or (r[0].low == bound and not strictly)
        return kept_finite(*r) if inside else ANY

    return known


def _square(r: Ranges) -> Range:
    return Range(0.0, LARGEST) if r[0].finite else ANY


def _power(r: Ranges) -> Range:
    base, exponent = r
    number = exponent.number
    if number == 2:
        return _square(r)
    whole = number is not None and number >= 0 and number.is_integer()
    return kept_finite(base) if whole else ANY


def _absolute(r: Ranges) -> Range:
    return maximum(r[0], negative(r[0]))


def _within(low: float, high: float) -> Callable[[Ranges], Range]:
    return lambda r: Range(low, high, r[0].nan)


def _rounded(r: Ranges) -> Range:
    return r[0] if r[0].number in (0.0, 1.0) else kept_finite(*r)


def _and(r: Ranges) -> Range:
    return minimum(as_truth(r[0]), as_truth(r[1]))


def _or(r: Ranges) -> Range:
    return maximum(as_truth(r[0]), as_truth(r[1]))


def _each(function: Callable[..., Range]) -> Callable[[Ranges], Range]:
    return lambda r: function(*r)


def _any(_: Ranges) -> Range:
    return ANY


def _finite(r: Ranges) -> Range:
    return kept_finite(*r)


def _truth(_: Ranges) -> Range:
    return TRUTH


_RANGES: dict[str, Callable[[Ranges], Range]] = {
    "add": _each(add),
    "subtract": _each(subtract),
    "multiply": _each(multiply),
    "divide": _each(divide),
    "maximum": _each(maximum),
    "minimum": _each(minimum),
    "where": _each(where),
    "negative": _each(negative),
    "equal": _each(equal),
    "not_equal": lambda r: complement(equal(*r)),
    "less": _each(less),
    "greater": lambda r: less(r[1], r[0]),
    "less_equal": lambda r: TRUTH if r[0].nan or r[1].nan else complement(less(r[1], r[0])),
    "greater_equal": lambda r: TRUTH if r[0].nan or r[1].nan else complement(less(r[0], r[1])),
    "logical_not": lambda r: complement(r[0]),
    "logical_and": _and,
    "logical_or": _or,
    "exp": _exp,
    "nn.relu": _relu,
    "sqrt": _above(0.0, strictly=False),
    "rsqrt": _above(0.0, strictly=True),
    "log": _above(0.0, strictly=True),
    "square": _square,
    "power": _power,
    "abs": _absolute,
    "sigmoid": _within(0.0, 1.0),
    "tanh": _within(-1.0, 1.0),
    "erf": _within(-1.0, 1.0),
    "sin": lambda r: Range(-1.0, 1.0) if r[0].finite else ANY,
    "cos": lambda r: Range(-1.0, 1.0) if r[0].finite else ANY,
    **dict.fromkeys(("round", "floor", "ceil", "trunc", "sign"), _rounded),
    **dict.fromkeys(
        ("nn.leakyrelu", "nn.gelu", "nn.gelu_tanh", "nn.silu", "nn.selu", "nn.softplus", "atan"),
        _finite,
    ),
    **dict.fromkeys(("isnan", "isinf", "isfinite", "logical_xor"), _truth),
    **dict.fromkeys(
        (
            *("acos", "acosh", "asin", "asinh", "atanh", "atan2", "cosh", "sinh", "tan"),
            *("bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "left_shift"),
            *("right_shift", "floor_divide", "floor_mod", "mod", "log_add_exp", "ewise_fma"),
        ),
        _any,
    ),
}


_COMMUTATIVE = {
    *("add", "multiply", "maximum", "minimum", "equal", "not_equal"),
    *("logical_and", "logical_or", "logical_xor"),
}


def _wrapped(found: Range, dtype: str) -> Range:
    """Return the range of integers; anything if a result does not fit into their type."""
    if dtype == "bool":
        return found if found.low >= 0.0 and found.high <= 1.0 else TRUTH
    limits, number = np.iinfo(dtype), found.number
    if number is not None:
        return found if number.is_integer() and limits.min <= number <= limits.max else FINITE
    return FINITE


def _elementwise(known: Callable[[Ranges], Range]) -> MeaningRule:
    def rule(operation: Operation) -> list[Meaning]:
        rank = len(operation.shapes[0])
        dtype = operation.dtypes[0]
        whole = not dtype.startswith(("float", "bfloat"))

        def result(ranges: Ranges) -> Range:
            # What is no tensor is not among the operands.
            found = ANY if operation.others else (_square if squares else known)(ranges)
            return _wrapped(found, dtype) if whole else found

        squares = operation.name == "multiply" and len({v.key for v in operation.operands}) == 1
        form: Form = "commutative" if operation.name in _COMMUTATIVE else "pointwise"
        return [Meaning([broadcast(v, rank) for v in operation.operands], result, form=form)]

    return rule


def _astype(operation: Operation) -> list[Meaning]:
    dtype = operation.dtypes[0]
    roles = [broadcast(operation.data, operation.rank)]
    return [Meaning(roles, lambda r: as_type(r[0], dtype), form="pointwise")]


def _clip(operation: Operation) -> list[Meaning]:
    low, high = (number_of(bound) for bound in operation.others)

    def known(ranges: Ranges) -> Range:
        if low is None or high is None:
            return ANY
        return minimum(maximum(ranges[0], exactly(low)), exactly(high))

    return [Meaning([broadcast(operation.data, operation.rank)], known, form="pointwise")]


def _prelu(operation: Operation) -> list[Meaning]:
    data, slopes = operation.operands
    axis = Role(int(operation.attrs.axis) % operation.rank)
    return [Meaning([broadcast(data, operation.rank), [axis] * len(slopes.shape)], _finite)]


def _dropout(operation: Operation) -> list[Meaning]:
    roles = [broadcast(operation.data, operation.rank)]
    return [Meaning(roles, lambda r: r[0]), Meaning(roles, lambda _: ONE)]


def _quantize(operation: Operation) -> list[Meaning]:
    """Return the meaning of a change between numbers and bytes, by scales along an axis or one."""
    data, *scales = operation.operands
    axis = Role(int(operation.attrs.axis) % max(operation.rank, 1))
    return [Meaning([broadcast(data, operation.rank), *[[axis] * len(v.shape) for v in scales]])]


RULES: dict[str, MeaningRule] = {
    **{name: _elementwise(known) for name, known in _RANGES.items()},
    "astype": _astype,
    "clip": _clip,
    "nn.prelu": _prelu,
    "nn.dropout": _dropout,
    "quantize": _quantize,
    "dequantize": _quantize,
}
