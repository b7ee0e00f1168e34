# SPDX-License-Identifier: Apache-2.0
"""How many times faster one schedule runs than another, and how sure that is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

_NEGLIGIBLE = 1e-3
"""A gain below it is none: a clock's rounding can look like it."""
_NARROW = 0.02
"""Below it, two decimals would print both ends of an interval alike."""


@dataclass(frozen=True)
class Speedup:
    """How many times faster the best other schedule ran than the sequential one.

    Attributes
    ----------
    ratio : float
        Seconds of the sequential schedule over those of the other one: the median of pairs that
        were measured together.
    low, high : float
        The ends of the 95% interval of that median.
    """

    ratio: float
    low: float
    high: float

    def __post_init__(self) -> None:
        ends = (self.low, self.ratio, self.high)
        if not all(math.isfinite(end) and end > 0 for end in ends) or list(ends) != sorted(ends):
            raise ValueError("'speedup' is not a ratio within an interval above zero")

    @property
    def faster(self) -> bool:
        """Whether the interval lies above 1: the other schedule is faster."""
        return self.low > 1 + _NEGLIGIBLE

    @property
    def slower(self) -> bool:
        """Whether the interval lies below 1: the other schedule is slower."""
        return self.high < 1 - _NEGLIGIBLE

    @staticmethod
    def from_dict(data: Any) -> Speedup:
        """Create a speed-up from JSON's types; raise ValueError or the like if it is none."""
        if not isinstance(data, dict):
            raise ValueError("'speedup' is not an object")
        return Speedup(*(float(data[name]) for name in ("ratio", "low", "high")))

    def verdict(self, *, kept: bool) -> str:
        """Return in words what this says; ``kept`` is whether the sequential schedule is used."""
        if self.faster:
            return str(self)
        found = "no gain found" if self.slower else "no difference found"
        sureness = f" ({self})" if self.low < self.high else ""
        return f"{found}{': sequential' if kept else ''}{sureness}"

    def __str__(self) -> str:
        near = min(abs(self.low - 1), abs(self.high - 1)) < _NARROW / 4
        digits = 3 if near or self.high - self.low < _NARROW else 2
        ratio, low, high = (f"{value:.{digits}f}" for value in (self.ratio, self.low, self.high))
        return f"{ratio}x, 95% interval {low}-{high}"
