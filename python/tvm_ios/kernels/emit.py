# SPDX-License-Identifier: Apache-2.0
"""What the kernels' emitters share: vectors, accumulators in registers, column tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, product
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from ..target import Core

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
        return self.distance(out, tap) - self.before

    def distance(self, column: Expr, tap: Expr) -> Expr:
        """How far from the first tap of column 0 tap ``tap`` of column ``column`` reads."""
        return column * self.stride + tap * self.dilation

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

    def runs(self, taps: range) -> list[tuple[range, range]]:
        """Neighbouring columns that read through the same taps, those inside; (columns, taps).

        Away from the edges there is a single run. Taps inside are neighbours, too.
        """
        return [
            (range(columns[0], columns[-1] + 1), inside)
            for inside, group in groupby(range(self.width), lambda j: self._inside(j, taps))
            if inside and (columns := list(group))
        ]

    def through(self, window: Window) -> ColumnTile:
        """The same columns, reading another input through ``window``."""
        return self if self.window is None else replace(self, window=window)

    def _inside(self, column: int, taps: range) -> range:
        """The taps of ``column`` that lie inside the input."""
        if self.window is None:
            return taps
        inside = [tap for tap in taps if self.window.inside(self.start + column, tap)]
        return range(inside[0], inside[-1] + 1) if inside else range(0)


def distances(window: Window, runs: list[tuple[range, range]]) -> list[int]:
    """How far from the first tap of a tile's first column its columns read, in order."""
    pairs = (pair for columns, taps in runs for pair in product(columns, taps))
    return sorted({window.distance(column, tap) for column, tap in pairs})


def column_tiles(
    window: Window,
    width: int,
    body: Callable[[Expr, ColumnTile], None],
    others: Sequence[Window] = (),
) -> None:
    """Cover an output row with tiles of ``width`` columns; ``body(first_column, tile)``.

    Tiles that touch no padding run in loops; those at the edges are emitted one by one with the
    taps in the padding left out, so that padding costs neither memory nor multiplications. What
    reads further inputs by the same tiles gives their windows as ``others``: a tile is at the edge
    where it is for one of them, see :meth:`ColumnTile.through`.
    """
    windows = (window, *others)
    starts = list(range(0, window.out, width))
    widths = [min(width, window.out - start) for start in starts]

    def interior(i: int) -> bool:
        columns = range(starts[i], starts[i] + widths[i])
        return all(w.inside(c, t) for w in windows for c in columns for t in range(w.kernel))

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


def tap_groups(core: Core, window: Window) -> list[range]:
    """The taps of a row, in as few groups of equal size as leave registers for accumulators."""
    most = core.registers // 2 - 1
    size = -(-window.kernel // -(-window.kernel // most))
    starts = range(0, window.kernel, size)
    return [range(start, min(start + size, window.kernel)) for start in starts]


def add_taps(
    window: Window,
    tile: ColumnTile,
    taps: range,
    sums: Sequence[Accumulators],
    load: Callable[[Expr], Expr],
    weight: Callable[[int, int], Expr],
) -> None:
    """Add to the sums of each column its inputs, weighted.

    The weights of all taps are held in registers, and an input is loaded once for the columns that
    read it: they are neighbours, and LLVM sees that they load the same.

    Parameters
    ----------
    window : Window
    tile : ColumnTile
    taps : range
        Those of this step.
    sums : sequence of Accumulators
        Each holds a vector a column and has weights of its own.
    load : callable
        ``load(distance)``: the vector so far from what the first tap of the first column reads.
    weight : callable
        ``weight(i, tap)``: the weights of ``sums[i]``.
    """
    runs = tile.runs(taps)
    read = sorted({tap for _, inside in runs for tap in inside})
    weights = {tap: [T.Bind(weight(i, tap)) for i in range(len(sums))] for tap in read}

    def add(column: Expr, inside: range) -> None:
        for tap in inside:
            value = T.Bind(load(window.distance(column, tap)))
            for total, factor in zip(sums, weights[tap], strict=True):
                total[column] = total[column] + value * factor

    for columns, inside in runs:
        unroll(columns.start, columns.stop, partial(add, inside=inside))
