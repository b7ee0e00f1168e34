# SPDX-License-Identifier: Apache-2.0
"""Transpositions of open sizes: squares are read, transposed in registers, and written.

Squares at the end of an axis that is no multiple of their size overlap those before them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tvm.tirx.script import builder as T

from .....ops.tir_function import tile_scope
from .....sizes.arithmetic import ceil_div
from .....sizes.size import AnySize
from ...core import Core
from ...isa.emit import Accumulators, bind, lanes_of, splat, unroll, zeros
from ...isa.epilogue import store_results
from ...isa.functions import keep, transposed
from ..kernel import Phase, phase
from .odometer import Rows, axes_with_result, number, quotient, starts_with_result
from .open_strided import by_width, open_rows
from .strided_axes import StridedMap

Expr = Any

_NARROW = 4  # rows of the source that are shorter are read once for each of their elements


def open_transposition(strided: StridedMap, core: Core) -> Phase:
    """Return the phase of a strided map whose source is contiguous along another axis."""
    emitter = _Emitter(strided, core)
    if isinstance(emitter.across.size, int) and emitter.across.size < _NARROW:
        return open_rows(strided, core)
    return phase(emitter.rows.num_pieces, emitter.emit)


class _Emitter:
    def __init__(self, strided: StridedMap, core: Core) -> None:
        self.epilogue, self.lanes = strided.epilogue, core.lanes
        *outer, self.last = axes_with_result(strided)
        position = next(i for i, axis in enumerate(outer) if axis.steps[0] == 1)
        self.across = outer.pop(position)
        self.rows = Rows(outer, starts_with_result(strided), self.across.size, core.lanes)

    @property
    def sizes(self) -> tuple[AnySize, AnySize]:
        """The extents of what is transposed: along the source's rows, and the result's."""
        return self.across.size, self.last.size

    def emit(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        by_width(self.sizes, self.lanes, partial(self._strips, buffers, begin, extent))

    def _strips(self, buffers: Sequence[Any], begin: Expr, extent: Expr, width: int) -> None:
        """Emit strips of the source's columns, each as squares of some width."""
        height, length = map(number, self.sizes)
        blocks = number(ceil_div(self.last.size, width))

        def strip(bases: Sequence[Expr], start: Expr, stop: Expr) -> None:
            with T.serial(quotient(stop - start + (width - 1), width)) as i:
                across = bind(T.min(start + i * width, height - width))
                with T.serial(blocks) as block, tile_scope():
                    along = bind(T.min(block * width, length - width))
                    self._square(buffers, bases, across, along, width)

        self.rows.each(begin, extent, strip)

    def _square(
        self, buffers: Sequence[Any], bases: Sequence[Expr], across: Expr, along: Expr, width: int
    ) -> None:
        """Emit a square from a column of the source and an element of the result's rows on."""
        down = number(self.last.steps[0])
        first = bases[0] + across + along * down
        read = [buffers[0][lanes_of(first + i * down, width)] for i in range(width)]
        squares = Accumulators(width, width, zeros(width))
        rows = transposed([keep(row) for row in read]) if width > 1 else read
        for i, row in enumerate(rows):
            squares[i] = row

        def finish(i: Expr) -> None:
            places = [
                base + (across + i) * number(beside) + along * number(step)
                for base, beside, step in zip(
                    bases, self.across.steps, self.last.steps, strict=True
                )
            ]

            def argument(a: int) -> Expr:
                step = self.last.steps[a + 1]
                if step == 0:
                    return splat(buffers[a + 1][places[a + 1]], width)
                index = places[a + 1] if width == 1 else T.Ramp(places[a + 1], number(step), width)
                return buffers[a + 1][index]

            with tile_scope():
                place = lanes_of(places[-1], width)
                store_results(self.epilogue, squares[i], argument, width, buffers, [place])

        unroll(0, width, finish)
