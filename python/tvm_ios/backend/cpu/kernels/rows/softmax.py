# SPDX-License-Identifier: Apache-2.0
"""Softmax along an axis of a row-major tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm.tirx.script import builder as T

from .....ops.epilogue import NOTHING, Epilogue
from .....ops.tensor import TensorSpec
from .....ops.tir_function import tile_scope
from .....sizes.arithmetic import ceil_div
from .....sizes.size import AnySize, hint_of, is_open, known_equal
from ...core import Core
from ...isa.emit import Accumulators, along, lanes_of, loop, splat, zeros
from ...isa.epilogue import apply_epilogue
from ...isa.functions import exp, keep, register
from ...isa.masked import masked, masked_source
from ...isa.storage import store
from ..kernel import Kernel, phase
from .scan import LOWEST, chunk, reduce_row

Expr = Any

_TILE, _ROWS = 2048, 128  # about how many elements a tile has, and its most rows


@dataclass(frozen=True)
class Softmax:
    """A softmax of ``[outer, length, inner]`` along ``length``, followed by an epilogue.

    A ``last`` argument of the epilogue has one value for each position along ``length``, which must
    then be the last axis.
    """

    outer: AnySize
    length: AnySize
    inner: AnySize = 1
    epilogue: Epilogue = NOTHING


def softmax_kernel(softmax: Softmax, core: Core) -> Kernel:
    """Return the kernel of a softmax; all its tensors are flat.

    The kernel subtracts the largest value before it takes the exponential, so that nothing
    overflows.
    """
    s = softmax
    emitter = (_Rows if known_equal(s.inner, 1) else _Columns)(softmax, core)
    sizes = {"full": s.outer * s.length * s.inner, "last": s.length}
    return Kernel(
        name="softmax",
        key=("softmax", softmax, core),
        inputs=(
            TensorSpec((sizes["full"],)),
            *(TensorSpec((sizes[kind],)) for kind in s.epilogue.arguments),
        ),
        outputs=(TensorSpec((sizes["full"],)),),
        phases=(phase(emitter.num_tiles, emitter.emit, sources=emitter.sources),),
    )


class _Softmax:
    def __init__(self, softmax: Softmax, core: Core) -> None:
        self.softmax, self.lanes = softmax, core.lanes
        vectors_end = is_open((softmax.length if known_equal(softmax.inner, 1) else softmax.inner,))
        self.sources = frozenset((masked_source(core.lanes),) if vectors_end else ())

    def _finish(
        self, buffers: Sequence[Any], start: Expr, along: Expr, width: int, scale: Expr
    ) -> None:
        """Divide ``width`` elements, ``along`` after ``start``, and apply the epilogue to them."""
        epilogue, at = self.softmax.epilogue, lanes_of(start + along, width)

        def load(a: int) -> Expr:
            last = epilogue.arguments[a] == "last"
            return buffers[1 + a][lanes_of(along, width) if last else at]

        with tile_scope():
            value = apply_epilogue(epilogue, buffers[-1][at] * scale, load, width)
            store(buffers[-1], value, [at])


class _Rows(_Softmax):
    """Vectors along the axis; a tile is a few rows."""

    def __init__(self, softmax: Softmax, core: Core) -> None:
        super().__init__(softmax, core)
        self.group = min(max(1, _TILE // hint_of(softmax.length)), _ROWS)
        self.num_tiles = ceil_div(softmax.outer, self.group)

    def emit(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        s = self.softmax
        with T.serial(begin, begin + extent) as t, tile_scope():
            first = t * self.group
            self._rows(buffers, first * s.length, T.min(self.group, s.outer - first))

    def _rows(self, buffers: Sequence[Any], start: Expr, rows: Expr) -> None:
        """Emit each pass over all rows of the tile, so that no row waits for its previous pass."""
        length, lanes = self.softmax.length, self.lanes
        shift, scale = register(self.group), register(self.group)

        def load(row: Expr, at: Expr, width: int, count: Expr | None = None) -> Expr:
            (source,) = masked(buffers[:1], count)
            return source[lanes_of(start + row * length + at, width)]

        def exponential(row: Expr, at: Expr, width: int, count: Expr | None = None) -> Expr:
            value = keep(exp(load(row, at, width, count) - splat(shift[row], width)))
            (result,) = masked(buffers[-1:], count)
            store(result, value, [lanes_of(start + row * length + at, width)])
            return value

        def finish(row: Expr, place: Expr, at: Expr, width: int, count: Expr | None = None) -> None:
            self._finish(masked(buffers, count), place, at, width, splat(scale[row], width))

        with T.serial(rows) as row, tile_scope():
            largest = reduce_row(length, lanes, partial(load, row), T.max, LOWEST)
            T.buffer_store(shift, largest, [row])
        with T.serial(rows) as row, tile_scope():
            add = lambda a, b: a + b  # noqa: E731
            total = reduce_row(length, lanes, partial(exponential, row), add, 0.0)
            T.buffer_store(scale, T.float32(1) / total, [row])
        with T.serial(rows) as row:
            place = start + row * length
            along(length, lanes, partial(finish, row, place))


class _Columns(_Softmax):
    """Vectors across the axis; a tile is the columns of one vector."""

    def __init__(self, softmax: Softmax, core: Core) -> None:
        super().__init__(softmax, core)
        self.chunks = ceil_div(softmax.inner, core.lanes)
        self.num_tiles = softmax.outer * self.chunks

    def emit(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        s = self.softmax
        with T.serial(begin, begin + extent) as t:
            start = t // self.chunks * (s.length * s.inner)

            def columns(first: Expr, width: int, count: Expr | None = None) -> None:
                with tile_scope():
                    self._columns(masked(buffers, count), start + first, width)

            chunk(t % self.chunks, s.inner, self.lanes, columns)

    def _columns(self, buffers: Sequence[Any], start: Expr, width: int) -> None:
        source, result = buffers[0], buffers[-1]
        s = self.softmax
        largest = Accumulators(1, width, splat(T.float32(LOWEST), width))
        total = Accumulators(1, width, zeros(width))

        def at(i: Expr) -> Expr:
            return lanes_of(start + i * s.inner, width)

        def compare(i: Expr) -> None:
            largest[0] = T.max(largest[0], source[at(i)])

        def exponential(i: Expr) -> None:
            value = keep(exp(source[at(i)] - largest[0]))
            store(result, value, [at(i)])
            total[0] = total[0] + value

        loop(s.length, compare)
        loop(s.length, exponential)
        total[0] = splat(T.float32(1), width) / total[0]
        loop(s.length, lambda i: self._finish(buffers, start, i * s.inner, width, total[0]))
