# SPDX-License-Identifier: Apache-2.0
"""Windows that slide along an axis."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx

from ..sizes.size import AnySize, Size, hint_of

Expr = Any


@dataclass(frozen=True)
class Window:
    """A sliding window along one axis.

    Attributes
    ----------
    size, out : int or Size
        Elements of the input and of the output axis.
    kernel, stride, dilation, before : int
        Taps, stride of the window, distance of the taps, padding in front.
    """

    size: AnySize
    out: AnySize
    kernel: int
    stride: int = 1
    dilation: int = 1
    before: int = 0

    def position(self, out: Expr, tap: Expr) -> Expr:
        """Return the input position of tap ``tap`` of output ``out``; may lie in the padding."""
        return self.distance(out, tap) - self.before

    def distance(self, column: Expr, tap: Expr) -> Expr:
        """Return how far tap ``tap`` of column ``column`` is from the first tap of column 0."""
        return column * self.stride + tap * self.dilation

    def inside(self, out: int, tap: int) -> bool:
        """Return whether tap ``tap`` of output ``out`` lies inside the input."""
        position: int = self.position(out, tap)
        return 0 <= position < self.size

    def bounds(self, out: int) -> tuple[int, int]:
        """Return how many taps of output ``out`` begin before the input, and before its end."""
        first: int = self.position(out, 0)
        before = -(first // self.dilation)
        before_end = -((first - self.size) // self.dilation)
        return min(max(before, 0), self.kernel), min(max(before_end, 0), self.kernel)

    def taps_inside(self, out: int) -> range:
        """Return the taps of output ``out`` that lie inside the input."""
        begin, end = self.bounds(out)
        return range(begin, end) if begin < end else range(0)

    @property
    def padded(self) -> bool:
        """Whether any tap of any output lies in the padding; true where sizes do not tell."""
        behind = self.size - self.position(self.out - 1, self.kernel - 1)
        if isinstance(behind, Size):
            behind = int(behind.owner.proven(tirx.GT(behind.expr, tirx.const(0, "int64"))) is True)
        return self.before > 0 or behind <= 0

    @property
    def hinted(self) -> Window:
        """The window over an axis of the size that is assumed."""
        return replace(self, size=hint_of(self.size), out=hint_of(self.out))
