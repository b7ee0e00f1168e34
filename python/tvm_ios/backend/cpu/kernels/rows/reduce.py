# SPDX-License-Identifier: Apache-2.0
"""Sums, means, variances, extremes and their places along an axis of a row-major tensor.

A variance reads its elements twice: the squares of their distances from the mean are added, as
numbers far from zero would cancel in a difference of sums. So does the place of an extreme, which
is the first that equals it; that of NaN is the first NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tvm import tirx
from tvm.tirx.script import builder as T

from .....ops.epilogue import NOTHING, Epilogue
from .....ops.tensor import TensorSpec
from .....ops.tir_function import tile_scope
from .....sizes.arithmetic import ceil_div
from .....sizes.size import AnySize, Size, is_open, known_equal
from ...core import Core
from ...isa.emit import Accumulators, lanes_of, loop, splat
from ...isa.epilogue import apply_epilogue
from ...isa.functions import keep, lanes_in, largest, smallest
from ...isa.masked import masked, masked_source
from ...isa.storage import store
from ..kernel import Kernel, phase
from .scan import Combine, Load, chunk, reduce_row

Expr = Any
Total = Callable[[Load, Combine, float], Expr]
Reduction = Literal["sum", "mean", "variance", "max", "min", "argmax", "argmin"]

_COMBINE: dict[Reduction, tuple[Combine, float]] = {
    "sum": (lambda a, b: a + b, 0.0),
    "mean": (lambda a, b: a + b, 0.0),
    "variance": (lambda a, b: a + b, 0.0),
    "max": (largest, -math.inf),
    "min": (smallest, math.inf),
    "argmax": (largest, -math.inf),
    "argmin": (smallest, math.inf),
}

LONGEST = 1 << 24
"""Of an axis whose places are found: float32 has all of their numbers."""


@dataclass(frozen=True)
class Reduce:
    """A reduction of ``[outer, length, inner]`` to ``[outer, inner]``, followed by an epilogue.

    The epilogue's arguments have the result's shape. Places are of int64, and have no epilogue.
    """

    reduction: Reduction
    outer: AnySize
    length: AnySize
    inner: AnySize = 1
    epilogue: Epilogue = NOTHING

    @property
    def finds_places(self) -> bool:
        return self.reduction in ("argmax", "argmin")


def reduce_kernel(reduce: Reduce, core: Core) -> Kernel:
    """Return the kernel of a reduction; all its tensors are flat.

    Vectors lie along the reduced axis if it is the last, across it otherwise. A tile is one number
    in the first case and one vector in the second.
    """
    emitter = ReduceEmitter(reduce, core)
    size = reduce.outer * reduce.inner
    return Kernel(
        name=reduce.reduction,
        key=("reduce", reduce, core),
        inputs=(
            TensorSpec((size * reduce.length,)),
            *(TensorSpec((size,)) for _ in reduce.epilogue.arguments),
        ),
        outputs=(TensorSpec((size,), "int64" if reduce.finds_places else "float32"),),
        phases=(phase(emitter.num_tiles, emitter.emit, sources=emitter.sources),),
        narrows=not reduce.finds_places and not emitter.sources,
    )


class ReduceEmitter:
    """Emits a reduction.

    Parameters
    ----------
    reduce : Reduce
    core : Core
    divisor : int or Size
        What a mean is a sum divided by.
    """

    def __init__(self, reduce: Reduce, core: Core, divisor: AnySize | None = None) -> None:
        self.reduce, self.lanes = reduce, core.lanes
        self._divisor = reduce.length if divisor is None else divisor
        self.combine, self.initial = _COMBINE[reduce.reduction]
        self.chunks = ceil_div(reduce.inner, core.lanes)
        vectors_end = is_open((reduce.length if known_equal(reduce.inner, 1) else reduce.inner,))
        self.sources = frozenset((masked_source(core.lanes),) if vectors_end else ())
        self.num_tiles = reduce.outer * self.chunks

    def emit(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        """Emit the tiles of a range."""
        size = self.reduce.length * self.reduce.inner
        with T.serial(begin, begin + extent) as t:
            outer = t // self.chunks
            self.tile(buffers, outer * size, t % self.chunks, outer * self.reduce.inner)

    def tile(self, buffers: Sequence[Any], start: Expr, number: Expr, place: Expr) -> None:
        """Emit the vector of a number among the results of what is read from an element on.

        Parameters
        ----------
        buffers : sequence of buffers
            What is read, the epilogue's arguments, and what is written.
        start, place : Expr
            Where what is read, and its results, begin.
        number : Expr
        """
        inner = self.reduce.inner

        def columns(first: Expr, width: int, count: Expr | None = None) -> None:
            existing = masked(buffers, count)
            with tile_scope():
                total = self._columns(existing[0], start + first, width)
                self._store(existing, total, place + first, width)

        if not known_equal(inner, 1):
            chunk(number, inner, self.lanes, columns)
            return
        with tile_scope():
            self._store(buffers, self._row(buffers[0], start), place, 1)

    def _row(self, source: Any, start: Expr) -> Expr:
        length = self.reduce.length

        def load(at: Expr, width: int, count: Expr | None = None) -> Expr:
            (row,) = masked([source], count)
            return row[lanes_of(start + at, width)]

        def place(at: Expr, width: int) -> Expr:
            return T.Cast(_lanes("float32", width), lanes_of(at, width))

        def total(read: Load, combine: Combine, initial: float) -> Expr:
            return reduce_row(length, self.lanes, read, combine, initial)

        return self._reduced(load, place, total)

    def _columns(self, source: Any, start: Expr, width: int) -> Expr:
        r = self.reduce

        def load(at: Expr, _: int) -> Expr:
            return source[lanes_of(start + at * r.inner, width)]

        def place(at: Expr, _: int) -> Expr:
            return splat(T.Cast("float32", at), width)

        def total(read: Load, combine: Combine, initial: float) -> Expr:
            result = Accumulators(1, width, splat(T.float32(initial), width))

            def add(i: Expr) -> None:
                result[0] = combine(result[0], read(i, width))

            loop(r.length, add)
            return result[0]

        return self._reduced(load, place, total)

    def _reduced(self, load: Load, place: Load, total: Total) -> Expr:
        """Combine elements, once or twice; ``place`` returns their numbers along the axis."""
        first = total(load, self.combine, self.initial)
        if self.reduce.finds_places:
            extreme = T.Bind(first)

            def hit(at: Expr, width: int, *count: Expr) -> Expr:
                x = T.Bind(load(at, width, *count))
                is_first = tirx.Or(x == _spread(extreme, width), tirx.isnan(x))
                return tirx.Select(is_first, place(at, width), splat(T.float32(LONGEST), width))

            return total(hit, T.min, float(LONGEST))
        if self.reduce.reduction != "variance":
            return first
        mean = T.Bind(first * _share(self.reduce.length, lanes_in(first)))

        def square(at: Expr, width: int, *count: Expr) -> Expr:
            distance = T.Bind(load(at, width, *count) - _spread(mean, width))
            return distance * distance

        return total(square, self.combine, self.initial)

    def _store(self, buffers: Sequence[Any], value: Expr, place: Expr, width: int) -> None:
        r, at = self.reduce, lanes_of(place, width)
        if r.reduction in ("mean", "variance"):
            value = value * _share(self._divisor, width)
        if r.finds_places:
            T.buffer_store(buffers[-1], T.Cast(_lanes("int64", width), value), [at])
            return
        value = apply_epilogue(r.epilogue, value, lambda a: buffers[1 + a][at], width)
        store(buffers[-1], value, [at])


def _share(number: AnySize, width: int) -> Expr:
    """Return the share of one of some elements in a mean, as a vector."""
    if isinstance(number, Size):
        return splat(keep(T.float32(1) / T.Cast("float32", number.short)), width)
    return splat(T.float32(1.0 / number), width)


def _spread(value: Expr, width: int) -> Expr:
    """Return a vector as it is, and a number in each lane of one."""
    return value if value.ty.dtype.lanes == width else splat(value, width)


def _lanes(dtype: str, width: int) -> str:
    return dtype if width == 1 else f"{dtype}x{width}"
