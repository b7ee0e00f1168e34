# SPDX-License-Identifier: Apache-2.0
"""What the kernels' emitters share: vectors, accumulators in registers, column tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

Expr = Any


def lanes_of(base: Expr, lanes: int) -> Expr:
    """The index of ``lanes`` neighbouring elements from ``base``."""
    return T.Ramp(base, 1, lanes)


def splat(value: Expr, lanes: int) -> Expr:
    """A scalar in every lane."""
    return T.Broadcast(value, lanes)


def zeros(lanes: int) -> Expr:
    return splat(T.float32(0), lanes)


@contextmanager
def tile_scope() -> Iterator[None]:
    """A block that owns the registers allocated in it."""
    with T.sblock("tile"):
        T.reads()
        T.writes()
        yield


class Accumulators:
    """``count`` vectors of ``lanes`` float32 that LLVM keeps in registers.

    Every access has a constant index, so that the array is split into scalars ("SROA") and never
    touches memory.
    """

    def __init__(self, count: int, lanes: int, initial: Expr) -> None:
        self.lanes = lanes
        self._buffer = T.sblock_alloc_buffer((count * lanes,), scope="local", layout=None)
        for i in range(count):
            self[i] = initial

    def __getitem__(self, i: int) -> Expr:
        return self._buffer[lanes_of(i * self.lanes, self.lanes)]

    def __setitem__(self, i: int, value: Expr) -> None:
        T.buffer_store(self._buffer, value, [lanes_of(i * self.lanes, self.lanes)])


def select(index: Expr, bodies: list[tuple[int, Callable[[Expr], None]]]) -> None:
    """Run the body whose interval holds ``index``.

    Parameters
    ----------
    index : Expr
        A value from 0 up to the sum of all lengths.
    bodies : list of (length, body)
        Consecutive intervals; a body gets the index relative to its interval's begin.
    """
    bodies = [entry for entry in bodies if entry[0] > 0]

    def emit(position: int, begin: int) -> None:
        length, body = bodies[position]
        if position == len(bodies) - 1:
            body(index - begin)
            return
        with T.If(index < begin + length):
            with T.Then():
                body(index - begin)
            with T.Else():
                emit(position + 1, begin + length)

    emit(0, 0)


def loop(extent: int, body: Callable[[Expr], None]) -> None:
    """``body(i)`` for every ``i``; without a loop where there is a single one."""
    if extent == 1:
        body(0)
        return
    with T.serial(extent) as i:
        body(i)


@dataclass(frozen=True)
class Window:
    """A sliding window along one axis.

    Attributes
    ----------
    size, out : int
        Elements of the input and of the output axis.
    kernel, stride, dilation, before : int
        Taps, step of the window, step of the taps, padding in front.
    """

    size: int
    out: int
    kernel: int
    stride: int = 1
    dilation: int = 1
    before: int = 0

    def position(self, out: Expr, tap: Expr) -> Expr:
        """Where tap ``tap`` of output ``out`` reads; may lie in the padding."""
        return out * self.stride + tap * self.dilation - self.before

    def inside(self, out: int, tap: int) -> bool:
        return 0 <= self.position(out, tap) < self.size

    @property
    def padded(self) -> bool:
        """Whether any tap of any output lies in the padding."""
        last = self.position(self.out - 1, self.kernel - 1)
        return self.before > 0 or last >= self.size


@dataclass(frozen=True)
class ColumnTile:
    """``width`` output columns that one set of registers computes.

    ``valid(tap, j)`` tells whether tap ``tap`` of column ``j`` reads inside the input. It is None
    where all taps of all columns do.
    """

    width: int
    valid: Callable[[int, int], bool] | None

    def columns(self, tap: Expr) -> list[int]:
        """Columns for which ``tap`` reads inside; ``tap`` is an int unless all are."""
        if self.valid is None:
            return list(range(self.width))
        return [j for j in range(self.width) if self.valid(tap, j)]


def column_tiles(window: Window, width: int, body: Callable[[Expr, ColumnTile], None]) -> None:
    """Cover an output row with tiles of ``width`` columns; ``body(first_column, tile)``.

    Tiles that touch no padding run in loops; those at the edges are emitted one by one with the
    taps in the padding left out, so that padding costs neither memory nor multiplications.
    """
    starts = list(range(0, window.out, width))
    widths = [min(width, window.out - start) for start in starts]

    def interior(i: int) -> bool:
        columns = range(starts[i], starts[i] + widths[i])
        return all(window.inside(c, t) for c in columns for t in range(window.kernel))

    i = 0
    while i < len(starts):
        run = i
        while run < len(starts) and widths[run] == widths[i] and interior(run):
            run += 1
        start = starts[i]
        if run > i:
            tile = ColumnTile(widths[i], None)
            loop(run - i, lambda k, start=start, tile=tile: body(start + k * width, tile))
            i = run
        else:
            body(
                start, ColumnTile(widths[i], lambda t, j, start=start: window.inside(start + j, t))
            )
            i += 1


def rows_inside(window: Window, out: Expr, body: Callable[[Expr, Expr], None]) -> None:
    """``body(tap, row)`` for every tap of output row ``out`` that lies inside the input."""

    def at(tap: Expr) -> None:
        row = window.position(out, tap)
        if not window.padded:
            body(tap, row)
            return
        with T.If(tirx.And(row >= 0, row < window.size)), T.Then():
            body(tap, row)

    loop(window.kernel, at)


def taps(window: Window, tile: ColumnTile, body: Callable[[Expr], None]) -> None:
    """``body(tap)`` for the horizontal taps: a loop inside, one by one at the edges."""
    if tile.valid is None:
        loop(window.kernel, body)
        return
    for tap in range(window.kernel):
        if tile.columns(tap):
            body(tap)
