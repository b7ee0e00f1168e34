# SPDX-License-Identifier: Apache-2.0
"""What is known of the numbers in a part of a tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LARGEST = float(np.finfo(np.float32).max)
"""Bounds of numbers that are finite, but otherwise unknown. Sums of such numbers are, too."""

HIDDEN = 9999.0
"""How far below the other scores a score must be to have no weight in a softmax.

Masks are often -10000. A score that is not hidden has a weight if it is at most 100 below the
largest one.
"""

_ROUNDING = 1e-5  # of a number, more than several operations in float32 are off
_WHOLE = 2.0**24  # whole numbers below are exact in float32


@dataclass(frozen=True)
class Range:
    """All numbers from ``low`` to ``high``.

    Attributes
    ----------
    low, high : float
        Infinite, if infinity may be among them.
    nan : bool
        Whether NaN may be.
    depth : float
        How far they are below what they were before a mask was added.
    """

    low: float
    high: float
    nan: bool = False
    depth: float = 0.0

    @property
    def finite(self) -> bool:
        """Whether there is neither NaN nor infinity among them."""
        return not self.nan and -math.inf < self.low and self.high < math.inf

    @property
    def number(self) -> float | None:
        """The only number there is; None if there are several."""
        return self.low if self.low == self.high and not self.nan else None

    @property
    def hidden(self) -> bool:
        """Whether the weight of each of these scores is 0 in a softmax that has others."""
        if self.nan or self.high == math.inf:
            return False
        return self.number == -math.inf or below(self) >= HIDDEN


ANY = Range(-math.inf, math.inf, nan=True)
FINITE = Range(-LARGEST, LARGEST)
ZERO, ONE = Range(0.0, 0.0), Range(1.0, 1.0)
TRUTH = Range(0.0, 1.0)


def exactly(number: float) -> Range:
    """Return the range of one number."""
    return ANY if math.isnan(number) else Range(number, number)


def range_of(array: np.ndarray) -> Range:
    """Return the range of a constant."""
    if array.size == 0 or array.dtype.kind in "OSU":
        return ANY
    low, high = float(array.min()), float(array.max())
    if math.isnan(low) or math.isnan(high):
        return ANY
    # What float32 has as an infinity may become one.
    return Range(low if low >= -LARGEST else -math.inf, high if high <= LARGEST else math.inf)


def union(*ranges: Range) -> Range:
    """Return the range of numbers that are in any of several."""
    return Range(
        min(r.low for r in ranges),
        max(r.high for r in ranges),
        any(r.nan for r in ranges),
        min(r.depth for r in ranges),
    )


def below(values: Range) -> float:
    """Return how far numbers are below those that no mask was added to."""
    return max(values.depth, -values.high)


def kept_finite(*ranges: Range) -> Range:
    """Return the range of a function whose results are finite where its operands are."""
    return FINITE if all(r.finite for r in ranges) else ANY


def add(a: Range, b: Range) -> Range:
    """Return the range of sums. A mask, far below zero, stays known in the sum with a score."""
    if a.nan or b.nan or {a.low, b.low, a.high, b.high} >= {-math.inf, math.inf}:
        return ANY
    depth = max(_masked(a, b), _masked(b, a))
    low, high = a.low + b.low, a.high + b.high
    if not math.isinf(low) and (_unknown(a.low, a) or _unknown(b.low, b)):
        low = -LARGEST
    if not math.isinf(high) and (_unknown(a.high, a) or _unknown(b.high, b)):
        high = LARGEST
    return _rounded(Range(_clamped(low), _clamped(high), depth=depth), a, b)


def _unknown(bound: float, values: Range) -> bool:
    """Return whether a bound says no more of numbers than that they are finite."""
    return abs(bound) == LARGEST and values.number is None


def _masked(mask: Range, score: Range) -> float:
    """Return how far sums of a mask and a score are below other scores."""
    if not score.finite:
        return 0.0
    risen = score.high if 0 < score.high < LARGEST else 0.0
    return max(0.0, below(mask) - risen)


def _clamped(bound: float) -> float:
    return bound if math.isinf(bound) else max(-LARGEST, min(LARGEST, bound))


def negative(a: Range) -> Range:
    """Return the range of negated numbers."""
    return Range(-a.high, -a.low, a.nan)


def subtract(a: Range, b: Range) -> Range:
    """Return the range of differences."""
    return add(a, negative(b))


def multiply(a: Range, b: Range) -> Range:
    """Return the range of products."""
    if not (a.finite and b.finite):
        return _scaled_infinity(a, b)
    corners = [
        math.copysign(LARGEST, x) * math.copysign(1.0, y)
        if x and y and (_unknown(x, a) or _unknown(y, b))
        else _product(x, y)
        for x in (a.low, a.high)
        for y in (b.low, b.high)
    ]
    depth = max(_scaled(a, b), _scaled(b, a))
    return _rounded(Range(min(corners), max(corners), depth=depth), a, b)


def _scaled(values: Range, factor: Range) -> float:
    number = factor.number
    return values.depth * number if number is not None and number > 0 else 0.0


def _scaled_infinity(a: Range, b: Range) -> Range:
    """Return the range of products one of which may not be finite."""
    for values, factor in ((a, b), (b, a)):
        number = factor.number
        if number is not None and 0 < number < math.inf and not values.nan:
            return Range(_product(values.low, number), _product(values.high, number))
    return ANY


def _rounded(result: Range, *operands: Range) -> Range:
    """Return the range with what float32 rounds, unless that is nothing."""
    if all(map(_is_whole, (result, *operands))):
        return result
    low, high = (
        bound if math.isinf(bound) else _clamped(bound + sign * abs(bound) * _ROUNDING)
        for bound, sign in ((result.low, -1), (result.high, 1))
    )
    return Range(low, high, result.nan, result.depth)


def _is_whole(values: Range) -> bool:
    """Return whether both bounds are numbers that float32 computes with exactly."""
    ends = (values.low, values.high)
    return all(math.isinf(x) or (x.is_integer() and abs(x) <= _WHOLE) for x in ends)


def _product(a: float, b: float) -> float:
    if a == 0 or b == 0:
        return 0.0
    return _clamped(a * b)


def divide(a: Range, b: Range) -> Range:
    """Return the range of quotients."""
    if not a.finite or b.nan or b.low <= 0 <= b.high:
        return ANY
    return multiply(a, _rounded(Range(1.0 / b.high, 1.0 / b.low), b))


def maximum(a: Range, b: Range) -> Range:
    """Return the range of the larger of two numbers."""
    return Range(max(a.low, b.low), max(a.high, b.high), a.nan or b.nan)


def minimum(a: Range, b: Range) -> Range:
    """Return the range of the smaller of two numbers."""
    return Range(min(a.low, b.low), min(a.high, b.high), a.nan or b.nan)


def where(condition: Range, then: Range, otherwise: Range) -> Range:
    """Return the range of a choice between two numbers."""
    if condition.number == 0:
        return otherwise
    if condition.low > 0 or condition.high < 0:
        return union(then, otherwise) if condition.nan else then
    return union(then, otherwise)


def equal(a: Range, b: Range) -> Range:
    """Return the range of whether two numbers are equal."""
    if a.nan or b.nan:
        return TRUTH
    if a.number is not None and a.number == b.number:
        return ONE if _is_whole(a) else TRUTH
    return ZERO if a.high < b.low or b.high < a.low else TRUTH


def less(a: Range, b: Range) -> Range:
    """Return the range of whether one number is less than another."""
    if a.nan or b.nan:
        return TRUTH
    if a.high < b.low:
        return ONE
    return ZERO if a.low >= b.high else TRUTH


def complement(truth: Range) -> Range:
    """Return the range of what is true where something is not."""
    if truth.nan:
        return TRUTH
    if truth.number == 0:
        return ONE
    return ZERO if truth.low > 0 or truth.high < 0 else TRUTH


def as_truth(a: Range) -> Range:
    """Return the range of whether numbers are other than 0."""
    return complement(complement(a))


def as_type(a: Range, dtype: str) -> Range:
    """Return the range of numbers of another type."""
    if dtype == "bool":
        return as_truth(a)
    if a.number in (0.0, 1.0):  # in every type
        return a
    if dtype == "float64":
        return a
    if dtype in ("float32", "bfloat16"):
        fits = a.low >= -LARGEST and a.high <= LARGEST
        return _rounded(a) if fits else Range(-math.inf, math.inf, a.nan)
    return ANY if dtype.startswith("float") else FINITE


def sums(ranges: Sequence[Range]) -> Range:
    """Return the range of sums over a tensor."""
    (a,) = ranges
    if not a.finite:
        return ANY
    return Range(0.0 if a.low >= 0 else -LARGEST, 0.0 if a.high <= 0 else LARGEST)
