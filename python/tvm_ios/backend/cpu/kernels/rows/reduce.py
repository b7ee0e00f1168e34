# SPDX-License-Identifier: Apache-2.0
"""Sums, means, variances and extremes along an axis of a row-major tensor.

A variance reads its elements twice: the squares of their distances from the mean are added, as
numbers far from zero would cancel in a difference of sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tvm.tirx.script import builder as T

from .....ops.epilogue import NOTHING, Epilogue
from .....ops.tensor import TensorSpec
from .....ops.tir_function import tile_scope
from ...core import Core
from ...isa.emit import Accumulators, lanes_of, loop, splat
from ...isa.epilogue import apply_epilogue
from ...isa.functions import largest, smallest
from ...isa.storage import store
from ..kernel import Kernel, Phase
from ..layout import blocks
from .scan import Combine, chunk, reduce_row

Expr = Any
Reduction = Literal["sum", "mean", "variance", "max", "min"]

_COMBINE: dict[Reduction, tuple[Combine, float]] = {
    "sum": (lambda a, b: a + b, 0.0),
    "mean": (lambda a, b: a + b, 0.0),
    "variance": (lambda a, b: a + b, 0.0),
    "max": (largest, -math.inf),
    "min": (smallest, math.inf),
}


@dataclass(frozen=True)
class Reduce:
    """A reduction of ``[outer, length, inner]`` to ``[outer, inner]``, followed by an epilogue.

    The epilogue's arguments have the result's shape.
    """

    reduction: Reduction
    outer: int
    length: int
    inner: int = 1
    epilogue: Epilogue = NOTHING


def reduce_kernel(reduce: Reduce, core: Core) -> Kernel:
    """Return the kernel of a reduction; all its tensors are flat.

    Vectors lie along the reduced axis if it is the last, across it otherwise. A tile is one number
    in the first case and one vector in the second.
    """
    emitter = _ReduceEmitter(reduce, core)
    size = reduce.outer * reduce.inner
    return Kernel(
        name=reduce.reduction,
        key=("reduce", reduce, core),
        inputs=(
            TensorSpec((size * reduce.length,)),
            *(TensorSpec((size,)) for _ in reduce.epilogue.arguments),
        ),
        outputs=(TensorSpec((size,)),),
        phases=(Phase(emitter.num_tiles, emitter.emit),),
        narrows=True,
    )


class _ReduceEmitter:
    def __init__(self, reduce: Reduce, core: Core) -> None:
        self.reduce, self.lanes = reduce, core.lanes
        self.combine, self.initial = _COMBINE[reduce.reduction]
        self.chunks = blocks(reduce.inner, core.lanes)
        self.num_tiles = reduce.outer * self.chunks

    def emit(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        inner = self.reduce.inner
        with T.serial(begin, begin + extent) as t:
            outer = t // self.chunks

            def columns(first: Expr, width: int) -> None:
                with tile_scope():
                    total = self._columns(buffers[0], outer, first, width)
                    self._store(buffers, total, outer * inner + first, width)

            if inner > 1:
                chunk(t % self.chunks, inner, self.lanes, columns)
                return
            with tile_scope():
                self._store(buffers, self._row(buffers[0], t), t, 1)

    def _row(self, source: Any, outer: Expr) -> Expr:
        start = outer * self.reduce.length

        def load(at: Expr, width: int) -> Expr:
            return source[lanes_of(start + at, width)]

        def total(read: Callable[[Expr, int], Expr]) -> Expr:
            return reduce_row(self.reduce.length, self.lanes, read, self.combine, self.initial)

        if self.reduce.reduction != "variance":
            return total(load)
        mean = T.Bind(total(load) * T.float32(1.0 / self.reduce.length))

        def square(at: Expr, width: int) -> Expr:
            distance = T.Bind(load(at, width) - splat(mean, width))
            return distance * distance

        return total(square)

    def _columns(self, source: Any, outer: Expr, first: Expr, width: int) -> Expr:
        r = self.reduce
        start = outer * (r.length * r.inner) + first

        def load(i: Expr) -> Expr:
            return source[lanes_of(start + i * r.inner, width)]

        def total(read: Callable[[Expr], Expr]) -> Expr:
            result = Accumulators(1, width, splat(T.float32(self.initial), width))

            def add(i: Expr) -> None:
                result[0] = self.combine(result[0], read(i))

            loop(r.length, add)
            return result[0]

        if r.reduction != "variance":
            return total(load)
        mean = T.Bind(total(load) * splat(T.float32(1.0 / r.length), width))

        def square(i: Expr) -> Expr:
            distance = T.Bind(load(i) - mean)
            return distance * distance

        return total(square)

    def _store(self, buffers: Sequence[Any], value: Expr, place: Expr, width: int) -> None:
        r, at = self.reduce, lanes_of(place, width)
        if r.reduction in ("mean", "variance"):
            value = value * splat(T.float32(1.0 / r.length), width)
        value = apply_epilogue(r.epilogue, value, lambda a: buffers[1 + a][at], width)
        store(buffers[-1], value, [at])
