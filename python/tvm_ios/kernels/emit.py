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
    return base if lanes == 1 else T.Ramp(base, 1, lanes)


def splat(value: Expr, lanes: int) -> Expr:
    """A scalar in every lane."""
    return value if lanes == 1 else T.Broadcast(value, lanes)


def zeros(lanes: int) -> Expr:
    return splat(T.float32(0), lanes)


@contextmanager
def tile_scope() -> Iterator[None]:
    """A block that owns the registers allocated in it."""
    with T.sblock("tile"):
        T.reads()
        T.writes()
        yield


ON_STACK = {"disable_lower_builtin": True}
"""Annotation of a buffer that is to be on the stack. TVM would have its runtime allocate it, and
LLVM then keeps it in registers only as long as it can prove that no store in a loop overwrites it.
StorageRewrite forgets the annotation, which is why kernels are built without that pass."""


class Accumulators:
    """``count`` vectors of ``lanes`` float32 that LLVM keeps in registers.

    Every access is in an unrolled loop, so that its index is constant in the end, the array is
    split into scalars ("SROA") and never touches memory. That takes an array on the stack, see
    :data:`ON_STACK`.
    """

    def __init__(self, count: int, lanes: int, initial: Expr) -> None:
        self.lanes = lanes
        self._buffer = T.alloc_buffer(
            (count * lanes,), scope="local", layout=None, annotations=ON_STACK
        )

        def clear(i: Expr) -> None:
            self[i] = initial

        unroll(0, count, clear)

    def __getitem__(self, i: Expr) -> Expr:
        return self._buffer[lanes_of(i * self.lanes, self.lanes)]

    def __setitem__(self, i: Expr, value: Expr) -> None:
        T.buffer_store(self._buffer, value, [lanes_of(i * self.lanes, self.lanes)])


def bind(value: Expr) -> Expr:
    """``value`` as a variable, so that every index that uses it stays small."""
    return value if isinstance(value, int) else T.Bind(value)


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


def unroll(begin: int, end: int, body: Callable[[Expr], None]) -> None:
    """``body(i)`` for every ``i``, to be unrolled by TVM when indices are flat.

    Unrolling here would give the same code, but TVM's passes would see each access of it.
    """
    if end - begin == 1:
        body(begin)
    elif end > begin:
        with T.unroll(begin, end) as i:
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

    ``window`` and ``start``, the first column, are given where a tap may lie in the padding, and
    None where no tap of any column does.
    """

    width: int
    window: Window | None = None
    start: int = 0

    def columns(self, tap: Expr) -> tuple[int, int]:
        """The columns (begin, end) for which ``tap`` reads inside.

        At the edges ``tap`` is an int. The columns are neighbours: a window only moves forward.
        """
        if self.window is None:
            return 0, self.width
        inside = [j for j in range(self.width) if self.window.inside(self.start + j, tap)]
        return (inside[0], inside[-1] + 1) if inside else (0, 0)


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
            tile = ColumnTile(widths[i])
            loop(run - i, lambda k, start=start, tile=tile: body(start + k * width, tile))
            i = run
        else:
            body(start, ColumnTile(widths[i], window, start))
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
    if tile.window is None:
        loop(window.kernel, body)
        return
    for tap in range(window.kernel):
        begin, end = tile.columns(tap)
        if begin < end:
            body(tap)
