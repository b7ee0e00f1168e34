# SPDX-License-Identifier: Apache-2.0
"""Sums, means and extremes along an axis of a row-major tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tvm.tirx.script import builder as T

from ....target import Core
from ....tir.emit import Accumulators, lanes_of, loop, splat, tile_scope
from ....tir.epilogue import NOTHING, Epilogue
from ....tir.functions import largest, smallest
from ....tir.tensor import TensorSpec
from .kernel import Kernel, Phase
from .layout import blocks
from .scan import Combine, chunk, reduce_row

Expr = Any
Reduction = Literal["sum", "mean", "max", "min"]

_COMBINE: dict[Reduction, tuple[Combine, float]] = {
    "sum": (lambda a, b: a + b, 0.0),
    "mean": (lambda a, b: a + b, 0.0),
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
        phases=(Phase(emitter.tiles, emitter.emit),),
    )


class _ReduceEmitter:
    def __init__(self, reduce: Reduce, core: Core) -> None:
        self.reduce, self.lanes = reduce, core.lanes
        self.combine, self.initial = _COMBINE[reduce.reduction]
        self.chunks = blocks(reduce.inner, core.lanes)
        self.tiles = reduce.outer * self.chunks

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

        return reduce_row(self.reduce.length, self.lanes, load, self.combine, self.initial)

    def _columns(self, source: Any, outer: Expr, first: Expr, width: int) -> Expr:
        r = self.reduce
        start = outer * (r.length * r.inner) + first
        total = Accumulators(1, width, splat(T.float32(self.initial), width))

        def add(i: Expr) -> None:
            value = source[lanes_of(start + i * r.inner, width)]
            total[0] = self.combine(total[0], value)

        loop(r.length, add)
        return total[0]

    def _store(self, buffers: Sequence[Any], value: Expr, place: Expr, width: int) -> None:
        r, at = self.reduce, lanes_of(place, width)
        if r.reduction == "mean":
            value = value * splat(T.float32(1.0 / r.length), width)
        value = r.epilogue.apply(value, lambda a: buffers[1 + a][at], width)
        T.buffer_store(buffers[-1], value, [at])
