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

from .....ops.size import AnyShape, AnySize, Size, ceil_div
from .....ops.tir_function import on_stack, tile_scope
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
    return a if isinstance(b, int) and b == 1 else tirx.truncdiv(a, number(b))


def remainder(a: Expr, b: AnySize) -> Expr:
    """Return what a division leaves of a number that is not negative."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    return tirx.truncmod(a, number(b))


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
    """Rows along ``axes``, each divided into pieces that workers share.

    Attributes
    ----------
    axes : sequence of Axis
        The axes around the rows.
    starts : tuple of sizes
        Where the first row begins in each tensor.
    length : int or Size
        Elements of a row.
    piece : int
        Elements of a piece; the last one of a row may have fewer.
    """

    axes: Sequence[Axis]
    starts: AnyShape
    length: AnySize
    piece: int

    @property
    def pieces(self) -> AnySize:
        """The pieces of a row."""
        return ceil_div(self.length, self.piece)

    @property
    def num_pieces(self) -> AnySize:
        """The pieces of all rows."""
        return math.prod(axis.size for axis in self.axes) * self.pieces

    def each(
        self, begin: Expr, extent: Expr, body: Callable[[Sequence[Expr], Expr, Expr], None]
    ) -> None:
        """Emit ``body(bases, start, stop)`` for each row of which some pieces are wanted.

        Parameters
        ----------
        begin, extent : Expr
            The range of pieces.
        body : callable
            ``bases`` are the positions of the row in each tensor, ``start`` and ``stop`` the range
            of its elements.
        """
        end, pieces = begin + extent, self.pieces
        whole = isinstance(pieces, int) and pieces == 1
        with tile_scope():
            first = bind(quotient(begin, pieces))
            stop = first + extent if whole else bind(quotient(end + (pieces - 1), pieces))
            odometer = _Odometer(self.axes, self.starts, first)
            with T.serial(first, stop) as row, tile_scope():
                if whole:
                    body(odometer.bases, 0, number(self.length))
                else:
                    before = row * number(pieces)
                    low = T.max(begin - before, 0) * self.piece
                    high = T.min(end - before, number(pieces)) * self.piece
                    body(odometer.bases, bind(low), bind(T.min(high, number(self.length))))
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
