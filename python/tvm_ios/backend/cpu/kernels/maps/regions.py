# SPDX-License-Identifier: Apache-2.0
"""Pooling of the parts of regions, of several blocks of channels at a time.

Where a sample lies, and how much each pixel around it counts, is the same for all channels. It is
computed once for as many blocks of channels as have their results in registers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from .....ops.epilogue import NOTHING, Epilogue
from .....ops.region_parts import Place, RegionPool, kept
from .....ops.tensor import TensorSpec
from .....ops.tir_function import tile_scope
from ...core import Core
from ...isa.emit import Accumulators, bind, lanes_of, splat, unroll
from ...isa.epilogue import apply_epilogue
from ...isa.functions import largest, like
from ...isa.storage import store
from ..kernel import Kernel, Phase
from ..layout import Layout, blocks

Expr = Any

_VECTORS = 8  # of results, so that additions to one of them do not wait for each other


@dataclass(frozen=True)
class Regions:
    """A pooling of ``count`` regions of images ``[batch, channels, height, width]``."""

    pool: RegionPool
    batch: int
    channels: int
    height: int
    width: int
    count: int
    epilogue: Epilogue = NOTHING

    @property
    def result(self) -> tuple[int, int, int, int]:
        """The shape of the result."""
        return (self.count, self.channels, *self.pool.parts)


def regions_kernel(regions: Regions, layout: Layout, core: Core) -> Kernel:
    """Return the kernel of a pooling of regions.

    Its inputs are the images in ``layout``, the regions ``[count, 4]``, the number of each one's
    image, and the epilogue's arguments. A tile is some channels of a region.
    """
    r, emitter = regions, _Emitter(regions, core)
    kinds = {
        "full": layout.spec(r.result),
        "channel": layout.spec((1, r.channels, 1, 1)),
    }
    return Kernel(
        name="regions",
        key=("regions", regions, layout, core),
        inputs=(
            layout.spec((r.batch, r.channels, r.height, r.width)),
            TensorSpec((r.count, 4)),
            TensorSpec((r.count,), "int64"),
            *(kinds[kind] for kind in r.epilogue.arguments),
        ),
        outputs=(kinds["full"],),
        phases=(Phase(emitter.num_tiles, emitter.emit),),
        narrows=True,
    )


class _Emitter:
    def __init__(self, regions: Regions, core: Core) -> None:
        self.regions, self.lanes = regions, core.lanes
        count = blocks(regions.channels, core.lanes)
        self.vectors = max(v for v in range(1, _VECTORS + 1) if count % v == 0)
        self.groups = count // self.vectors
        self.num_tiles = regions.count * self.groups

    def emit(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        rows, columns = self.regions.pool.parts
        with T.serial(begin, begin + extent) as t:
            first, region = bind(t % self.groups * self.vectors), bind(t // self.groups)
            with T.serial(rows) as row, T.serial(columns) as column, tile_scope():
                _Part(self, buffers, region, first).emit(row, column)


class _Part:
    """Emits some channels of a part of a region."""

    def __init__(
        self, emitter: _Emitter, buffers: Sequence[Any], region: Expr, first: Expr
    ) -> None:
        self._emitter, self._regions, self._buffers = emitter, emitter.regions, buffers
        self._region, self._first, self._lanes = region, first, emitter.lanes
        self._kind = self._regions.pool.kind
        self._image = kept(T.Cast("int32", buffers[2][region]))
        initial = 0.0 if self._kind == "average" else -math.inf
        self._totals = Accumulators(
            emitter.vectors, self._lanes, splat(T.float32(initial), self._lanes)
        )

    def emit(self, row: Expr, column: Expr) -> None:
        """Emit the pooling, and store its results."""
        r = self._regions
        place = Place(r.pool, (r.height, r.width), (row, column), self._end)
        if self._kind == "max":
            self._pixels(place)
        else:
            self._samples(place)
        pixel = row * r.pool.parts[1] + column
        self._each(lambda v: self._store(v, pixel))

    def _samples(self, place: Place) -> None:
        rows, columns = place.samples(0), place.samples(1)
        visited = kept(T.float32(0))

        def sample(y: Expr, x: Expr) -> None:
            corners = [
                (kept(row * self._regions.width + column), kept(weight))
                for row, column, weight in place.corners(y, x)
            ]
            T.buffer_store(visited.source, visited + T.float32(1), [0])
            self._each(lambda v: self._add(v, corners))

        place.within(0, rows, lambda y: place.within(1, columns, lambda x: sample(y, x)))
        count = kept(rows.count * columns.count)
        if self._kind == "average":
            mean = kept(T.max(count, T.float32(1)))
            self._change(lambda total: total / splat(mean, self._lanes))
            return
        # What is outside of the image is 0, and so is the largest of no samples.
        with T.If(visited < count), T.Then():
            self._change(lambda total: largest(total, like(total, 0.0)))
        self._zero_if(visited <= T.float32(0))

    def _pixels(self, place: Place) -> None:
        (top, bottom), (left, right) = place.pixels(0), place.pixels(1)
        with T.serial(top, bottom) as y, T.serial(left, right) as x:
            pixel = kept(y * self._regions.width + x)

            def compare(v: Expr) -> None:
                self._totals[v] = largest(self._totals[v], self._load(v, pixel))

            self._each(compare)
        self._zero_if(tirx.Or(bottom <= top, right <= left))

    def _add(self, v: Expr, corners: Sequence[tuple[Expr, Expr]]) -> None:
        for pixel, weight in corners:
            value = self._load(v, pixel) * splat(weight, self._lanes)
            total = self._totals[v]
            self._totals[v] = total + value if self._kind == "average" else largest(total, value)

    def _load(self, v: Expr, pixel: Expr) -> Expr:
        return self._buffers[0][self._image, self._first + v, pixel, lanes_of(0, self._lanes)]

    def _zero_if(self, empty: Expr) -> None:
        with T.If(empty), T.Then():
            self._change(lambda total: like(total, 0.0))

    def _change(self, function: Callable[[Expr], Expr]) -> None:
        def change(v: Expr) -> None:
            self._totals[v] = function(self._totals[v])

        self._each(change)

    def _each(self, body: Callable[[Expr], None]) -> None:
        """Emit something for each block of channels."""

        def scoped(v: Expr) -> None:
            with tile_scope():
                body(v)

        unroll(0, self._emitter.vectors, scoped)

    def _store(self, v: Expr, pixel: Expr) -> None:
        r, vector, block = self._regions, lanes_of(0, self._lanes), self._first + v

        def load(a: int) -> Expr:
            argument = self._buffers[3 + a]
            if r.epilogue.arguments[a] == "channel":
                return argument[0, block, 0, vector]
            return argument[self._region, block, pixel, vector]

        value = apply_epilogue(r.epilogue, self._totals[v], load, self._lanes)
        store(self._buffers[-1], value, [self._region, block, pixel, vector])

    def _end(self, axis: int, side: int) -> Expr:
        return self._buffers[1][self._region, 2 * side + 1 - axis]
