# SPDX-License-Identifier: Apache-2.0
"""Exact fractions of sizes, as a program computes with them in floating point."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from ...sizes.size import AnySize, Size, ceil_div, largest, smallest
from ...support.errors import ModelError

_LARGEST_DIVISOR = 1 << 20
"""Of a factor: its products with sizes are exact in double precision."""


@dataclass(frozen=True)
class Ratio:
    """A size, or a fraction of one.

    Attributes
    ----------
    above : int or Size
    below : int
        At least 1.
    """

    above: AnySize
    below: int = 1

    @staticmethod
    def of(number: float) -> Ratio:
        """Return a number as a fraction.

        Raises
        ------
        ModelError
            If its products with sizes would be rounded.
        """
        exact = Fraction(number)
        if exact.denominator > _LARGEST_DIVISOR:
            raise ModelError(
                f"The program multiplies sizes by {number}, which is rounded, so that they cannot "
                "stay open; give the shapes of its inputs."
            )
        return Ratio(exact.numerator, exact.denominator)

    def __add__(self, other: Ratio) -> Ratio:
        above = self.above * other.below + other.above * self.below
        return Ratio(above, self.below * other.below)

    def __neg__(self) -> Ratio:
        return Ratio(-self.above, self.below)

    def __sub__(self, other: Ratio) -> Ratio:
        return self + -other

    def __mul__(self, other: Ratio) -> Ratio:
        return Ratio(self.above * other.above, self.below * other.below).reduced()

    def __truediv__(self, other: Ratio) -> Ratio:
        if isinstance(other.above, Size) or other.above == 0:
            raise ModelError(
                "The program divides by a size, so that its sizes cannot stay open; give the "
                "shapes of its inputs."
            )
        sign = -1 if other.above < 0 else 1
        return Ratio(self.above * other.below * sign, self.below * other.above * sign).reduced()

    def __floordiv__(self, other: Ratio) -> Ratio:
        return Ratio((self.above * other.below) // (self.below * other.above))

    def __mod__(self, other: Ratio) -> Ratio:
        if self.below == other.below == 1:
            return Ratio(self.above % other.above)
        return self - other * (self // other)

    def __pow__(self, power: int) -> Ratio:
        result = Ratio(1)
        for _ in range(power):
            result = result * self
        return result

    def reduced(self) -> Ratio:
        """Return the same number; a fraction of integers has no common divisor."""
        if isinstance(self.above, Size):
            return self
        common = math.gcd(self.above, self.below)
        return Ratio(self.above // common, self.below // common)

    def floor(self) -> Ratio:
        return Ratio(self.above // self.below)

    def ceil(self) -> Ratio:
        return Ratio(ceil_div(self.above, self.below))

    def trunc(self) -> Ratio:
        """Round towards zero; the sign is that of the example."""
        return self.floor() if self.below == 1 or self.above >= 0 else self.ceil()

    def larger(self, other: Ratio) -> Ratio:
        a, b, below = self._paired(other)
        return Ratio(largest(a, b), below)

    def smaller(self, other: Ratio) -> Ratio:
        a, b, below = self._paired(other)
        return Ratio(smallest(a, b), below)

    def equals(self, other: Ratio) -> bool:
        """Return whether two are equal; the example decides where that is not certain."""
        a, b, _ = self._paired(other)
        return a == b

    def is_less(self, other: Ratio) -> bool:
        a, b, _ = self._paired(other)
        return a < b

    def _paired(self, other: Ratio) -> tuple[AnySize, AnySize, int]:
        return self.above * other.below, other.above * self.below, self.below * other.below
