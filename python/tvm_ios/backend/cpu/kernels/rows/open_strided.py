# SPDX-License-Identifier: Apache-2.0
"""Rows of elementwise operations whose number or length is open.

A row that is no multiple of a vector ends with a vector that overlaps the one before it. Rows that
are shorter than a vector are computed by shorter ones, or element by element: which of these it is
is decided once for all rows of a call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tvm.tirx.script import builder as T

from .....ops.epilogue import Epilogue
from .....ops.tir_function import tile_scope
from .....sizes.size import AnyShape, AnySize
from ...core import Core
from ...isa.emit import lanes_of, splat
from ...isa.epilogue import store_results
from ..kernel import Phase, phase
from .odometer import (
    Rows,
    axes_with_result,
    number,
    quotient,
    remainder,
    starts_with_result,
)
from .strided_axes import Axis, StridedMap

Expr = Any

_PIECE = 512  # elements of a piece of a row: few enough for workers to have equal shares
_FEW_LANES = 4


def open_rows(strided: StridedMap, core: Core) -> Phase:
    """Return the phase of a strided map, along whose rows the vectors lie."""
    axes, starts = axes_with_result(strided), starts_with_result(strided)
    emitter = RowsEmitter(axes, starts, strided.epilogue, core)
    return phase(emitter.rows.num_pieces, emitter.emit)


def by_width(
    sizes: Sequence[AnySize], lanes: int, body: Callable[[int], None], least: int = 1
) -> None:
    """Emit ``body(width)`` with the widest vectors that fit into all of some sizes.

    Parameters
    ----------
    sizes : sequence of sizes
    lanes : int
        The most elements of a vector.
    body : callable
        Emits code for vectors of that width.
    least : int
        The fewest elements, into which any size fits.
    """
    widths = [lanes, *(w for w in (_FEW_LANES, least) if w < lanes)]
    known = min((n for n in sizes if isinstance(n, int)), default=lanes)
    opened = [number(n) for n in sizes if not isinstance(n, int)]
    usable = [w for w in widths if w <= known] or [known]

    def emit(index: int) -> None:
        width = usable[index]
        if not opened or index == len(usable) - 1:
            body(width)
            return
        fits = opened[0] >= width
        for size in opened[1:]:
            fits = T.And(fits, size >= width)
        with T.If(fits):
            with T.Then():
                body(width)
            with T.Else():
                emit(index + 1)

    emit(0)


class RowsEmitter:
    """Emits an epilogue along rows.

    Parameters
    ----------
    axes : sequence of Axis
        With the steps of all tensors that are read, and of the result, which has no gaps along the
        last axis.
    starts : tuple of sizes
        The first element in each tensor.
    epilogue : Epilogue
    core : Core
    """

    def __init__(
        self, axes: Sequence[Axis], starts: AnyShape, epilogue: Epilogue, core: Core
    ) -> None:
        self.epilogue, self.lanes = epilogue, core.lanes
        *outer, self.last = axes
        length = self.last.size
        piece = length if isinstance(length, int) and length <= _PIECE else _PIECE
        self.rows = Rows(outer, starts, length, piece)

    def emit(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        length = self.last.size
        if isinstance(length, int) and length < self.lanes:
            self._rows(buffers, begin, extent, length)
        else:
            by_width([length], self.lanes, partial(self._rows, buffers, begin, extent))

    def _rows(self, buffers: Sequence[Any], begin: Expr, extent: Expr, width: int) -> None:
        def row(bases: Sequence[Expr], start: Expr, stop: Expr) -> None:
            count = stop - start
            full, rest = quotient(count, width), remainder(count, width)
            with T.serial(full) as i:
                self._vector(buffers, bases, start + i * width, width)
            if width == 1 or (isinstance(rest, int) and rest == 0):
                return
            if isinstance(rest, int):
                self._vector(buffers, bases, stop - width, width)
            else:
                with T.If(rest > 0), T.Then():
                    # The piece may end before a vector does that begins with the row.
                    self._vector(buffers, bases, T.max(stop - width, 0), width)

        self.rows.each(begin, extent, row)

    def _vector(self, buffers: Sequence[Any], bases: Sequence[Expr], at: Expr, width: int) -> None:
        """Emit ``width`` elements of a row from ``at`` on."""

        def read(i: int) -> Expr:
            step = self.last.steps[i]
            if step == 0:
                return splat(buffers[i][bases[i]], width)
            first = bases[i] + at * number(step)
            return buffers[i][first if width == 1 else T.Ramp(first, number(step), width)]

        with tile_scope():
            place = lanes_of(bases[-1] + at, width)
            store_results(self.epilogue, read(0), lambda a: read(a + 1), width, buffers, [place])
