# SPDX-License-Identifier: Apache-2.0
"""Exact fractions of sizes, as networks compute with them in floating point."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .size import AnySize, Size, ceil_div, require_most

_LARGEST_DIVISOR = 1 << 10
_EXACT = 1 << 24
"""Up to which single precision has all integers."""


class NotExact(Exception):
    """A number that a network computes is rounded, or is no fraction of a size."""


@dataclass(frozen=True)
class Ratio:
    """A size, or a fraction of one, which single precision represents exactly.

    Attributes
    ----------
    above : int or Size
    below : int
        At least 1.
    """

    above: AnySize
    below: int = 1

    @staticmethod
    def of(number: Any) -> Ratio:
        """Return a number.

        Raises
        ------
        NotExact
            If its products with sizes would be rounded.
        """
        if isinstance(number, Ratio):
            return number
        if isinstance(number, Size):
            return Ratio(number).checked()
        exact = Fraction(float(number))
        if exact.denominator > _LARGEST_DIVISOR or abs(exact.numerator) > _EXACT:
            raise NotExact
        return Ratio(exact.numerator, exact.denominator)

    def checked(self) -> Ratio:
        """Return the number itself, if its parts are exact, which is assumed of open sizes."""
        below = self.below
        if below & (below - 1) or below > _LARGEST_DIVISOR or not require_most(self.above, _EXACT):
            raise NotExact
        return self

    def __add__(self, other: Ratio) -> Ratio:
        above = self.above * other.below + other.above * self.below
        return _reduced(above, self.below * other.below)

    def __sub__(self, other: Ratio) -> Ratio:
        return self + Ratio(-other.above, other.below)

    def __mul__(self, other: Ratio) -> Ratio:
        return _reduced(self.above * other.above, self.below * other.below)

    def __truediv__(self, other: Ratio) -> Ratio:
        if isinstance(other.above, Size) or other.above == 0:
            raise NotExact
        sign = -1 if other.above < 0 else 1
        return _reduced(self.above * other.below * sign, self.below * other.above * sign)

    def floor(self) -> Ratio:
        """Round down."""
        return Ratio(self.above // self.below)

    def ceil(self) -> Ratio:
        """Round up."""
        return Ratio(ceil_div(self.above, self.below))

    def whole(self) -> AnySize:
        """Round towards zero, as a conversion to an integer does.

        Raises
        ------
        NotExact
            If the sign of the rounded number depends on open sizes.
        """
        if self.below == 1:
            return self.above
        if require_most(0, self.above):
            return self.above // self.below
        raise NotExact


def _reduced(above: AnySize, below: int) -> Ratio:
    """Return a fraction whose divisor is as small as that is simple."""
    while below > 1 and below % 2 == 0 and _is_even(above):
        above, below = above // 2, below // 2
    if below > 1 and _divides(below, above):
        above, below = above // below, 1
    return Ratio(above, below).checked()


def _is_even(above: AnySize) -> bool:
    return _divides(2, above)


def _divides(divisor: int, above: AnySize) -> bool:
    """Return whether a size is known to be a multiple of a number."""
    rest = above % divisor
    return not isinstance(rest, Size) and rest == 0
