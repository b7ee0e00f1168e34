# SPDX-License-Identifier: Apache-2.0
"""Rows of tensors of open sizes, one after another, without a division for each.

Where a row begins in every tensor follows from that of the last row: the last of its outer axes
advances, and where that is at its end, the axis before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from .....ops.tir_function import on_stack, tile_scope
from .....sizes.arithmetic import ceil_div
from .....sizes.size import AnyShape, AnySize, Size
from ...isa.emit import bind
from .strided_axes import Axis, StridedMap, merge_axes

Expr = Any


def number(size: AnySize) -> Expr:
    """Return a size as a kernel computes with it."""
    return size.short if isinstance(size, Size) else size


def quotient(a: Expr, b: AnySize) -> Expr:
    """Divide a number that is not negative."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    return a if isinstance(b, int) and b == 1 else tirx.truncdiv(a, _divisor(b))


def remainder(a: Expr, b: AnySize) -> Expr:
    """Return what a division leaves of a number that is not negative."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    return tirx.truncmod(a, _divisor(b))


def _divisor(size: AnySize) -> Expr:
    """Return a size to divide by, of which TVM's simplifier does not see what it is."""
    return bind(number(size))


def axes_with_result(strided: StridedMap) -> list[Axis]:
    """Return the merged axes, whose last step is that of the result, which has no gaps."""
    axes = merge_axes(strided)
    within = [math.prod(axis.size for axis in axes[i + 1 :]) for i in range(len(axes))]
    return [Axis(a.size, (*a.steps, step)) for a, step in zip(axes, within, strict=True)]


def starts_with_result(strided: StridedMap) -> AnyShape:
    """Return the position of the first element in each tensor that is read, and in the result."""
    return (*(read.offset for read in strided.reads), 0)


@dataclass(frozen=True)
class Rows:
    """Rows along ``axes``, which workers share by pieces of so many elements.

    A piece may begin in one row and end in another, unless it is a row.

    Attributes
    ----------
    axes : sequence of Axis
        The axes around the rows.
    starts : tuple of sizes
        Where the first row begins in each tensor.
    length : int or Size
        Elements of a row.
    piece : int
        Elements of a piece; the last one may have fewer.
    """

    axes: Sequence[Axis]
    starts: AnyShape
    length: AnySize
    piece: int

    @property
    def num_pieces(self) -> AnySize:
        """The pieces of all rows."""
        return self._count if self._whole else ceil_div(self._count * self.length, self.piece)

    @property
    def _count(self) -> AnySize:
        return math.prod(axis.size for axis in self.axes)

    @property
    def _whole(self) -> bool:
        return isinstance(self.length, int) and self.length == self.piece

    def each(
        self, begin: Expr, extent: Expr, body: Callable[[Sequence[Expr], Expr, Expr], None]
    ) -> None:
        """Emit ``body(bases, start, stop)`` for each row that pieces lie in.

        Parameters
        ----------
        begin, extent : Expr
            The range of pieces.
        body : callable
            ``bases`` are the positions of the row in each tensor, ``start`` and ``stop`` the range
            of its elements.
        """
        with tile_scope():
            if not self._whole:
                self._each_part(begin, begin + extent, body)
                return
            odometer = _Odometer(self.axes, self.starts, begin)
            with T.serial(extent), tile_scope():
                body(odometer.bases, 0, number(self.length))
                odometer.advance()

    def _each_part(
        self, begin: Expr, end: Expr, body: Callable[[Sequence[Expr], Expr, Expr], None]
    ) -> None:
        """Emit the rows of pieces, the first and the last of which may be incomplete."""
        length, total = bind(number(self.length)), number(self._count * self.length)
        first = bind(begin * self.piece)
        # The last piece would end beyond the largest number.
        last = bind(T.Select(end < number(self.num_pieces), end * self.piece, total))
        if not self.axes:
            body(list(map(number, self.starts)), first, last)
            return
        row = bind(tirx.truncdiv(first, length))
        odometer = _Odometer(self.axes, self.starts, row)
        start, left = on_stack((1,), "int32"), on_stack((1,), "int32")
        T.buffer_store(start, first - row * length, [0])
        T.buffer_store(left, last - row * length, [0])
        with T.serial(tirx.truncdiv(last + (length - 1), length) - row), tile_scope():
            body(odometer.bases, bind(start[0]), bind(T.min(length, left[0])))
            T.buffer_store(start, 0, [0])
            T.buffer_store(left, left[0] - length, [0])
            odometer.advance()


class _Odometer:
    """The places of a row along its axes, and where it begins in each tensor."""

    def __init__(self, axes: Sequence[Axis], starts: AnyShape, row: Expr) -> None:
        self._axes, self._tensors = axes, range(len(starts))
        self._places = on_stack((max(1, len(axes)),), "int32")
        self._bases = on_stack((len(starts),), "int32")
        positions: list[Expr] = list(map(number, starts))
        for k in reversed(range(len(axes))):
            here = bind(remainder(row, axes[k].size)) if k else row
            row = bind(quotient(row, axes[k].size)) if k else row
            T.buffer_store(self._places, here, [k])
            positions = [
                base + here * number(step)
                for base, step in zip(positions, axes[k].steps, strict=True)
            ]
        for i, position in enumerate(positions):
            T.buffer_store(self._bases, position, [i])

    @property
    def bases(self) -> list[Expr]:
        return [self._bases[i] for i in self._tensors]

    def advance(self) -> None:
        """Go on to the next row."""
        if self._axes:
            self._step(len(self._axes) - 1, [0 for _ in self._tensors])

    def _step(self, k: int, back: Sequence[AnySize]) -> None:
        """Step along axis ``k``, and ``back`` along those within."""
        axis = self._axes[k]
        for i, (step, less) in enumerate(zip(axis.steps, back, strict=True)):
            T.buffer_store(self._bases, self._bases[i] + number(step - less), [i])
        if not k:
            return
        T.buffer_store(self._places, self._places[k] + 1, [k])
        with T.If(self._places[k] == number(axis.size)), T.Then():
            T.buffer_store(self._places, 0, [k])
            self._step(k - 1, [step * axis.size for step in axis.steps])
