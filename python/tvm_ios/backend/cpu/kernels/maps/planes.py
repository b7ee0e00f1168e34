# SPDX-License-Identifier: Apache-2.0
"""Kernels that treat each channel on its own: depthwise convolution, pooling, elementwise.

On a blocked feature map all of these have the same structure. A tile is one row of one block of
channels, and a register holds one pixel of that block. They differ only in how they combine the
values of the window, see :mod:`~tvm_ios.backend.cpu.kernels.maps.window_reduce`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from tvm.tirx.script import builder as T

from .....ops.epilogue import NOTHING, Epilogue
from .....ops.tensor import TensorSpec
from .....ops.tir_function import tile_scope
from .....ops.window import Window
from .....sizes.size import AnySize, is_open
from ...core import Core
from ...isa.emit import bind, lanes_of, splat
from ...isa.epilogue import apply_epilogue, store_results
from ...isa.maximum import maximum, maximum_source
from ...isa.storage import store
from ..kernel import Kernel, Order, phase
from ..layout import Layout, blocks
from ..open_row import cover_row, guarded_load
from ..plane import PlaneTiles, segment_tiles, segment_window
from ..rows.scan import add_vectors
from ..taps import ColumnTile, Part, rows_inside
from .window_reduce import pooled, pooled_width, weighted_sums, weighted_width

Expr = Any
WindowReduce = Literal["depthwise", "max", "average", "identity"]


@dataclass(frozen=True)
class Planes:
    """A window over each channel, followed by an epilogue.

    Attributes
    ----------
    window_reduce : {"depthwise", "max", "average", "identity"}
        The window's weighted sum, its maximum, its mean, or its only value.
    batch : int or Size
    channels : int
    rows, columns : Window
        How the window slides over height and width.
    pad_after : (int, int)
        Padding below and to the right, in pixels; read only if ``include_pad`` is set.
    include_pad : bool
        Whether the mean divides by the number of taps inside the padded input.
    epilogue : Epilogue
        The epilogue.
    """

    window_reduce: WindowReduce
    batch: AnySize
    channels: int
    rows: Window
    columns: Window
    pad_after: tuple[int, int] = (0, 0)
    include_pad: bool = False
    epilogue: Epilogue = NOTHING


def planes_kernel(planes: Planes, layout: Layout, core: Core) -> Kernel:
    """Return the kernel of a per-channel operator on blocked feature maps.

    The kernel's inputs are the feature map, the weights ``[ceil(C / b), R, S, b]`` for
    ``depthwise``, and the epilogue's arguments.

    Parameters
    ----------
    planes : Planes
        The operator.
    layout : Layout
        Layout of all feature maps, blocked by ``core.lanes``.
    core : Core
        The core that runs the kernel.

    Returns
    -------
    Kernel
        A kernel of one phase with an output for each result of the epilogue.
    """
    emitter = PlanesEmitter(planes, layout, core)
    sources = [maximum_source(core.lanes)] if planes.window_reduce == "max" else []
    return Kernel(
        name=planes.window_reduce,
        key=("planes", planes, layout, core),
        inputs=emitter.input_specs(),
        outputs=(emitter.plane(planes.rows.out, planes.columns.out),)
        * len(planes.epilogue.results),
        phases=(phase(emitter.num_tiles, emitter.emit, sources=frozenset(sources)),),
        plane=emitter.plane_tiles(),
        order=emitter.order,
        narrows=True,
    )


class PlanesEmitter:
    """The code of a per-channel operator; a tile is one row of one block, or a segment."""

    channelwise = True

    def __init__(self, planes: Planes, layout: Layout, core: Core) -> None:
        assert layout.block == core.lanes, "a block of channels is one vector"
        self.planes, self.layout, self.core, self.lanes = planes, layout, core, core.lanes
        self.blocks = blocks(planes.channels, core.lanes)
        width = weighted_width if planes.window_reduce == "depthwise" else pooled_width
        self.width = width(core, planes.columns.hinted)
        self.segment = segment_tiles(planes.rows, planes.columns, self.width)
        length = self.width * (self.segment or 1)
        columns = blocks(planes.columns.out, length) if self.segment else None
        self.plane_count = columns or planes.rows.out
        self.num_tiles = planes.batch * self.blocks * self.plane_count

    def plane(self, height: AnySize, width: AnySize) -> TensorSpec:
        return self.layout.spec((self.planes.batch, self.planes.channels, height, width))

    @property
    def is_open(self) -> bool:
        """Whether the number of its tiles or what they cover is known only at run time."""
        p = self.planes
        return is_open((p.batch, p.rows.size, p.rows.out, p.columns.size, p.columns.out))

    @property
    def order(self) -> Order | None:
        """What consecutive tiles cover, if there is no plane."""
        return "channels" if self.is_open else None

    def plane_tiles(self) -> PlaneTiles | None:
        """Return how the tiles cover the result; None if sizes are open."""
        p = self.planes
        if self.is_open:
            return None
        outer, width = p.batch * self.blocks, p.columns.out
        pixels, read, rows = p.rows.out * width, p.columns.size, p.rows
        if self.segment is not None:
            width = self.segment * self.width
            read, rows = 1, segment_window(p.columns, width)
        return PlaneTiles(
            outer,
            self.plane_count,
            width,
            pixels,
            rows,
            read,
            images=p.batch,
            blocks=tuple(range(self.blocks + 1)),
            channelwise=self.channelwise,
        )

    def input_specs(self) -> tuple[TensorSpec, ...]:
        p = self.planes
        specs = [self.plane(p.rows.size, p.columns.size)]
        if p.window_reduce == "depthwise":
            shape = (self.blocks, p.rows.kernel, p.columns.kernel, self.lanes)
            specs.append(TensorSpec(shape))
        return (*specs, *self.argument_specs())

    def argument_specs(self) -> Iterator[TensorSpec]:
        """Yield the epilogue's arguments."""
        p = self.planes
        kinds = {
            "full": self.plane(p.rows.out, p.columns.out),
            "channel": self.layout.spec((1, p.channels, 1, 1)),
            "image": self.plane(1, 1),
        }
        yield from (kinds[kind] for kind in p.epilogue.arguments)

    def emit(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        p = self.planes
        with T.serial(begin, begin + extent) as t:
            place = bind(t % self.plane_count)
            block = bind((t // self.plane_count) % self.blocks)
            image = bind(t // (self.plane_count * self.blocks))
            row = place if self.segment is None else 0
            part = None if self.segment is None else Part(bind(place * self.segment), self.segment)

            def columns(first: Expr, tile: ColumnTile) -> None:
                with tile_scope():
                    values = self.window_reduce(buffers, image, block, row, first, tile)
                    for j, value in enumerate(values):
                        pixel = row * p.columns.out + first + j
                        self._store(buffers, value, image, block, pixel)

            counted = [self._counted] if p.window_reduce == "average" else []
            cover_row(p.columns, self.width, columns, counted, part=part)

    @property
    def _counted(self) -> Window:
        """How a column reads what its mean counts at and behind the beginning of the input."""
        p = self.planes
        end = p.columns.size + (p.pad_after[1] if p.include_pad else 0)
        return replace(p.columns, size=end)

    def window_reduce(
        self,
        buffers: Sequence[Any],
        image: Expr,
        block: Expr,
        row: Expr,
        first: Expr,
        tile: ColumnTile,
    ) -> list[Expr]:
        """Return the reduction of each column's window."""
        p, core, vector = self.planes, self.core, lanes_of(0, self.lanes)
        begin = bind(p.columns.position(first, 0))

        def rows(body: Callable[[Expr, Expr], None]) -> None:
            rows_inside(p.rows, row, body)

        def load(source_row: Expr, distance: Expr) -> Expr:
            pixel = source_row * p.columns.size + begin + distance
            return buffers[0][image, block, pixel, vector]

        def guarded(source_row: Expr, distance: Expr) -> Expr:
            line = source_row * p.columns.size
            outside = splat(T.float32(neutral), self.lanes)
            return guarded_load(
                p.columns,
                begin,
                tile.width,
                lambda column: buffers[0][image, block, line + column, vector],
                outside,
            )(distance)

        neutral = -math.inf if p.window_reduce == "max" else 0.0
        if tile.guarded:
            load = guarded

        def weight(r: Expr, s: int) -> Expr:
            return buffers[1][block, r, s, vector]

        if p.window_reduce == "depthwise":
            return weighted_sums(core, p.columns, tile, rows, load, weight)
        if p.window_reduce == "max":
            return pooled(core, p.columns, tile, rows, load, maximum, neutral)
        sums = pooled(core, p.columns, tile, rows, load, operator.add, neutral)
        return sums if p.window_reduce == "identity" else self._means(sums, row, first, tile)

    def _means(self, sums: list[Expr], row: Expr, first: Expr, tile: ColumnTile) -> list[Expr]:
        """Divide each sum by the number of values in it."""
        p, lanes, scales = self.planes, self.lanes, {}
        rows: Expr = p.rows.kernel
        if p.rows.padded:
            rows = _count(p.rows, row, p.pad_after[0] if p.include_pad else None)
        if tile.guarded:
            after = p.pad_after[1] if p.include_pad else None
            return [
                value / splat(T.cast(rows * _count(p.columns, first + j, after), "float32"), lanes)
                for j, value in enumerate(sums)
            ]
        counts = [self._count_columns(tile, j) for j in range(tile.width)]
        for count in set(counts):
            scale = T.float32(1.0) / T.cast(rows * count, "float32")
            scales[count] = T.Bind(splat(scale, lanes))
        return [value * scales[count] for value, count in zip(sums, counts, strict=True)]

    def _count_columns(self, tile: ColumnTile, column: int) -> int:
        """Return how many columns the mean at a tile's column covers."""
        window = tile.window
        if window is None:
            return self.planes.columns.kernel
        before, before_end = self._counted.bounds(tile.start + column)
        return max(before_end - (0 if self.planes.include_pad else before), 1)

    def _store(
        self, buffers: Sequence[Any], value: Expr, image: Expr, block: Expr, pixel: Expr
    ) -> None:
        epilogue, lanes = self.planes.epilogue, self.lanes
        first = len(buffers) - len(epilogue.results) - len(epilogue.arguments)
        arguments = buffers[first : first + len(epilogue.arguments)]
        vector = lanes_of(0, lanes)

        def load(a: int) -> Expr:
            places = {"channel": (0, 0), "image": (image, 0), "full": (image, pixel)}
            number, place = places[epilogue.arguments[a]]
            return arguments[a][number, block, place, vector]

        store_results(epilogue, value, load, lanes, buffers, [image, block, pixel, vector])


def _count(window: Window, out: Expr, pad_after: int | None) -> Expr:
    """Count the taps of output ``out`` inside the input, or inside the padded input.

    In ceil mode a window may extend past the end of the padding; those taps do not count. A window
    that lies in the padding has one, to divide by.
    """
    begin = window.position(out, 0)
    if pad_after is None:
        low, end = T.max(begin, 0), window.size
    else:
        low, end = begin, window.size + pad_after
    return T.max(T.min(begin + window.kernel, end) - low, T.int32(1))


def plane_sum_kernel(
    batch: AnySize,
    channels: int,
    pixels: AnySize,
    factor: float | None,
    epilogue: Epilogue,
    layout: Layout,
    core: Core,
) -> Kernel:
    """Return the kernel of the sum over all pixels of each channel, times a factor.

    A tile is one block of channels.

    Parameters
    ----------
    batch, channels, pixels : int or Size
        Extent of the feature map.
    factor : float or None
        One over the pixels for a mean; None for that of an open number.
    epilogue : Epilogue
        The epilogue.
    layout : Layout
        Layout of all tensors, blocked by ``core.lanes``.
    core : Core
        The core that runs the kernel.

    Returns
    -------
    Kernel
        Its inputs are the feature map and the epilogue's arguments.
    """
    block_count, lanes = blocks(channels, core.lanes), core.lanes

    def share() -> Expr:
        return T.float32(1) / T.cast(pixels, "float32") if factor is None else T.float32(factor)

    def emit(buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        vector = lanes_of(0, lanes)
        with T.serial(begin, begin + extent) as t:
            block, image = t % block_count, t // block_count
            with tile_scope():
                total = add_vectors(
                    pixels, lanes, lambda pixel: buffers[0][image, block, pixel, vector]
                )
                scaled = total * splat(share(), lanes)

                def load(a: int) -> Expr:
                    index = 0 if epilogue.arguments[a] == "channel" else image
                    return buffers[1 + a][index, block, 0, vector]

                value = apply_epilogue(epilogue, scaled, load, lanes)
                store(buffers[-1], value, [image, block, 0, vector])

    one = {
        "full": layout.spec((batch, channels, 1, 1)),
        "channel": layout.spec((1, channels, 1, 1)),
    }
    return Kernel(
        name="plane_sum",
        key=("plane_sum", batch, channels, pixels, factor, epilogue, layout, core),
        inputs=(layout.spec((batch, channels, pixels, 1)), *(one[k] for k in epilogue.arguments)),
        outputs=(one["full"],),
        phases=(phase(batch * block_count, emit),),
        order="channels",
        narrows=True,
    )
