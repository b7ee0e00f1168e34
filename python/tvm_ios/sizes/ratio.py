# SPDX-License-Identifier: Apache-2.0
"""Exact fractions of sizes, as networks compute with them in floating point."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from .arithmetic import ceil_div, largest, require_most, smallest
from .size import AnySize, Size, decide_equal

if TYPE_CHECKING:
    from typing_extensions import Self


class NotExact(Exception):
    """A number that a network computes is rounded, or is no fraction of a size."""


@dataclass(frozen=True)
class Ratio:
    """A size, or a fraction of one, which double precision represents exactly.

    Attributes
    ----------
    above : int or Size
    below : int
        At least 1.
    """

    above: AnySize
    below: int = 1
    _LARGEST_DIVISOR: ClassVar[int] = 1 << 20  # of a factor: its products with sizes are exact

    @classmethod
    def of(cls, number: Any) -> Self:
        """Return a number.

        Raises
        ------
        NotExact
            If its products with sizes would be rounded.
        """
        if isinstance(number, cls):
            return number
        if isinstance(number, Size):
            return cls._made(number, 1)
        exact = Fraction(float(number))
        if exact.denominator > cls._LARGEST_DIVISOR:
            raise NotExact
        return cls._made(exact.numerator, exact.denominator)

    @classmethod
    def _made(cls, above: AnySize, below: int) -> Self:
        """Return a fraction whose divisor is as small as that is simple."""
        if isinstance(above, int):
            common = math.gcd(above, below)
            above, below = above // common, below // common
        while below > 1 and below % 2 == 0 and _divides(2, above):
            above, below = above // 2, below // 2
        if below > 1 and _divides(below, above):
            above, below = above // below, 1
        return cls(above, below)

    def __add__(self, other: Self) -> Self:
        above = self.above * other.below + other.above * self.below
        return self._made(above, self.below * other.below)

    def __neg__(self) -> Self:
        return self._made(-self.above, self.below)

    def __sub__(self, other: Self) -> Self:
        return self + -other

    def __mul__(self, other: Self) -> Self:
        return self._made(self.above * other.above, self.below * other.below)

    def __truediv__(self, other: Self) -> Self:
        if isinstance(other.above, Size) or other.above == 0:
            raise NotExact
        sign = -1 if other.above < 0 else 1
        return self._made(self.above * other.below * sign, self.below * other.above * sign)

    def __floordiv__(self, other: Self) -> Self:
        return self._made((self.above * other.below) // (self.below * other.above), 1)

    def __mod__(self, other: Self) -> Self:
        if self.below == other.below == 1:
            return self._made(self.above % other.above, 1)
        return self - other * (self // other)

    def __pow__(self, power: int) -> Self:
        result = self._made(1, 1)
        for _ in range(power):
            result = result * self
        return result

    def floor(self) -> Self:
        """Round down."""
        return self._made(self.above // self.below, 1)

    def ceil(self) -> Self:
        """Round up."""
        return self._made(ceil_div(self.above, self.below), 1)

    def trunc(self) -> Self:
        """Round towards zero; the sign is that of the example."""
        return self.floor() if self.below == 1 or self.above >= 0 else self.ceil()

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

    def larger(self, other: Self) -> Self:
        a, b, below = self._paired(other)
        return self._made(largest(a, b), below)

    def smaller(self, other: Self) -> Self:
        a, b, below = self._paired(other)
        return self._made(smallest(a, b), below)

    def equals(self, other: Self) -> bool:
        """Return whether two are equal; the example decides where that is not certain."""
        a, b, _ = self._paired(other)
        return decide_equal(a, b)

    def is_less(self, other: Self) -> bool:
        a, b, _ = self._paired(other)
        return a < b

    def _paired(self, other: Self) -> tuple[AnySize, AnySize, int]:
        return self.above * other.below, other.above * self.below, self.below * other.below


@dataclass(frozen=True)
class SingleRatio(Ratio):
    """A size, or a fraction of one, which single precision represents exactly."""

    _LARGEST_DIVISOR: ClassVar[int] = 1 << 10
    _EXACT: ClassVar[int] = 1 << 24  # up to which single precision has all integers

    @classmethod
    def _made(cls, above: AnySize, below: int) -> Self:
        """Return a fraction whose parts are exact, which is assumed of open sizes."""
        made = super()._made(above, below)
        is_power = made.below & (made.below - 1) == 0
        if not is_power or made.below > cls._LARGEST_DIVISOR:
            raise NotExact
        if not require_most(made.above, cls._EXACT) or not require_most(-cls._EXACT, made.above):
            raise NotExact
        return made


def _divides(divisor: int, above: AnySize) -> bool:
    """Return whether a size is known to be a multiple of a number."""
    rest = above % divisor
    return not isinstance(rest, Size) and rest == 0
