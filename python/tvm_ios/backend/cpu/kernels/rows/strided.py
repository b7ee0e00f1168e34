# SPDX-License-Identifier: Apache-2.0
"""Elementwise operations on row-major tensors that are read with arbitrary strides.

Transpositions, slices and broadcasts are all the same operation: each tensor that is read has a
stride in memory for every axis of the result, zero along an axis on which it is repeated.
Neighbouring axes along which all tensors are contiguous are merged, so that most operations have
one or two long axes. Vectors lie along the last axis, where the result is stored without gaps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tvm.tirx.script import builder as T

from .....ops.strides import Strides
from .....ops.tensor import TensorSpec
from .....ops.tir_function import tile_scope
from ...core import Core
from ...isa.emit import lanes_of, loop, splat
from ...isa.epilogue import store_results
from ..compose import with_shapes
from ..kernel import Kernel, Phase
from ..layout import blocks
from .open_strided import open_rows
from .open_transposition import open_transposition
from .strided_axes import Axis, StridedMap, crosses, merge_axes

Expr = Any

_TILE = 2048  # elements of a tile, about: amortizes the index arithmetic, leaves tiles to share


def strided_kernel(strided: StridedMap, core: Core) -> Kernel:
    """Return the kernel of a strided map; all its tensors are flat."""
    crossing = crosses(merge_axes(strided))
    if strided.opened:
        moved = (open_transposition if crossing else open_rows)(strided, core)
    else:
        emitter = (_Transposing if crossing else _Rows)(strided, core)
        moved = Phase(emitter.num_tiles, emitter.emit)
    return Kernel(
        name="map" if strided.epilogue.steps else "copy",
        key=("strided", strided, core),
        inputs=tuple(TensorSpec((read.size,)) for read in strided.reads),
        outputs=(TensorSpec((math.prod(strided.shape),)),) * len(strided.epilogue.results),
        phases=(moved,),
        narrows=True,
        sizes=tuple(n for read in strided.reads for n in (read.offset, *read.steps)),
    )


def copy_kernel(spec: TensorSpec, core: Core) -> Kernel:
    """Return the kernel that copies a tensor."""
    size = math.prod(spec.shape)
    kernel = strided_kernel(StridedMap((size,), Strides(size, (1,))), core)
    copying = with_shapes(kernel, [spec.shape], [spec.shape])
    return replace(copying, inputs=(spec,), outputs=(spec,))


class _Map:
    """The part that both loop orders share."""

    def __init__(self, strided: StridedMap, core: Core) -> None:
        self.strided, self.lanes = strided, core.lanes
        self.axes = merge_axes(strided)

    def bases(self, axes: Sequence[Axis], index: Expr) -> list[Expr]:
        """Return each read's position at the flat ``index`` into ``axes``, without its offset."""
        bases: list[Expr] = [0 for _ in self.strided.reads]
        for axis in reversed(axes):
            here, index = index % axis.size, index // axis.size
            bases = [base + here * step for base, step in zip(bases, axis.steps, strict=True)]
        return bases

    def run(
        self, buffers: Sequence[Any], bases: Sequence[Expr], place: Expr, begin: Expr, length: int
    ) -> None:
        """Emit ``length`` elements of the last axis from ``begin``, stored from ``place`` on."""
        starts = [r.offset + base for r, base in zip(self.strided.reads, bases, strict=True)]

        def vector(at: Expr, width: int) -> None:
            def read(i: int) -> Expr:
                step = self.axes[-1].steps[i]
                if step == 0:
                    return splat(buffers[i][starts[i]], width)
                first = starts[i] + (begin + at) * step
                return buffers[i][first if width == 1 else T.Ramp(first, step, width)]

            with tile_scope():
                store_results(
                    self.strided.epilogue,
                    read(0),
                    lambda a: read(a + 1),
                    width,
                    buffers,
                    [lanes_of(place + begin + at, width)],
                )

        full, rest = divmod(length, self.lanes)
        if full:
            loop(full, lambda i: vector(i * self.lanes, self.lanes))
        if rest:
            vector(full * self.lanes, rest)


class _Rows(_Map):
    """Tiles of several short rows, or of a piece of a long one."""

    def __init__(self, strided: StridedMap, core: Core) -> None:
        super().__init__(strided, core)
        self.rows = math.prod(axis.size for axis in self.axes[:-1])
        self.length = self.axes[-1].size
        self.pieces = blocks(self.length, 2 * _TILE) if self.length > _TILE else 1
        self.piece = blocks(blocks(self.length, self.pieces), core.lanes) * core.lanes
        self.pieces = blocks(self.length, self.piece)
        self.group = max(1, _TILE // self.length)
        self.num_tiles = blocks(self.rows, self.group) * self.pieces

    def emit(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        with T.serial(begin, begin + extent) as t:
            group, piece = t // self.pieces, t % self.pieces
            first = group * self.group
            with T.serial(T.min(self.group, self.rows - first)) as i:
                self._row(buffers, first + i, piece)

    def _row(self, buffers: Sequence[Any], row: Expr, piece: Expr) -> None:
        bases, place = self.bases(self.axes[:-1], row), row * self.length
        if self.pieces == 1:
            self.run(buffers, bases, place, 0, self.length)
            return
        last = self.length - (self.pieces - 1) * self.piece
        run = partial(self.run, buffers, bases, place, piece * self.piece)
        with T.If(piece < self.pieces - 1):
            with T.Then():
                run(self.piece)
            with T.Else():
                run(last)


class _Transposing(_Map):
    """Tiles of as many rows as a vector has lanes; the rows are neighbours in the source.

    All elements of a cache line are thus used while the line is in the cache.
    """

    def __init__(self, strided: StridedMap, core: Core) -> None:
        super().__init__(strided, core)
        *outer, self.last = self.axes
        self.across = next(i for i, axis in enumerate(outer) if axis.steps[0] == 1)
        self.outer = outer[: self.across] + outer[self.across + 1 :]
        self.height = self.axes[self.across].size
        self.strips = blocks(self.height, core.lanes)
        self.num_tiles = math.prod(axis.size for axis in self.outer) * self.strips

    def emit(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        with T.serial(begin, begin + extent) as t:
            first = t % self.strips * self.lanes
            full, rest = divmod(self.last.size, self.lanes)
            height = T.min(self.lanes, self.height - first)
            if full:
                with T.serial(full) as block, T.serial(height) as i:
                    self._piece(buffers, t, first + i, block * self.lanes, self.lanes)
            if rest:
                with T.serial(height) as i:
                    self._piece(buffers, t, first + i, full * self.lanes, rest)

    def _piece(self, buffers: Sequence[Any], t: Expr, i: Expr, begin: Expr, width: int) -> None:
        """Emit ``width`` elements of row ``i`` of tile ``t``."""
        steps = self.axes[self.across].steps
        outer = t // self.strips
        bases = self.bases(self.outer, outer)
        bases = [base + i * step for base, step in zip(bases, steps, strict=True)]
        self.run(buffers, bases, self._place(outer, i), begin, width)

    def _place(self, outer: Expr, i: Expr) -> Expr:
        """Return where the row of index ``i`` begins in the result."""
        within = math.prod(axis.size for axis in self.axes[self.across + 1 : -1])
        row = (outer // within * self.height + i) * within + outer % within
        return row * self.last.size
