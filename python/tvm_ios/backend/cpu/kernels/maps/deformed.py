# SPDX-License-Identifier: Apache-2.0
"""What the windows of a deformed convolution read, for a matrix product.

The pixels around an element, and their weights, are the same for all channels that share offsets.
They are computed for neighbouring places at once, a place in each lane, and kept on the stack. Then
each place's channels are added, a vector at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx.script import builder as T

from .....ops.deformed import Columns, corners
from .....ops.tensor import TensorSpec
from .....ops.tir_function import on_stack, tile_scope
from ...core import Core
from ...isa.emit import along, bind, lanes_of, loop, splat
from ...isa.functions import keep
from ...isa.storage import store
from ..compose import with_shapes
from ..kernel import Kernel, Phase

Expr = Any


def columns_kernel(columns: Columns, core: Core) -> Kernel:
    """Return the kernel that collects columns; a tile is a row of places."""
    c, emitter = columns, _Emitter(columns, core)
    image = TensorSpec((c.batch, c.height * c.width, c.channels))
    kernel = Kernel(
        name="deformed",
        key=("deformed", columns, core),
        inputs=(image, *map(TensorSpec, c.inputs[1:])),
        outputs=(TensorSpec(columns.result),),
        phases=(Phase(columns.batch * columns.places[0], emitter.emit),),
        order="rows",
        narrows=True,
    )
    return with_shapes(kernel, c.inputs, [c.result])


class _Emitter:
    def __init__(self, columns: Columns, core: Core) -> None:
        self.columns, self.lanes = columns, core.lanes

    def emit(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        c = self.columns
        with T.serial(begin, begin + extent) as t:
            image, row = bind(t // c.places[0]), bind(t % c.places[0])

            def places(first: Expr, width: int) -> None:
                with T.serial(c.groups) as group, T.serial(c.elements) as element, tile_scope():
                    self._element(buffers, (image, row, first), group, element, width)

            along(c.places[1], self.lanes, places)

    def _element(
        self,
        buffers: Sequence[Any],
        at: tuple[Expr, Expr, Expr],
        group: Expr,
        element: Expr,
        width: int,
    ) -> None:
        """Emit an element of the windows at neighbouring places, for a group of channels."""
        c, (image, row, first) = self.columns, at
        number, across = group * c.elements + element, lanes_of(first, width)
        moved = [buffers[1][image, 2 * number + axis, row, across] for axis in range(2)]
        factor = buffers[2][image, number, row, across] if c.masked else None
        index = (element // c.kernel[1], element % c.kernel[1])
        found = corners(c, (row, across), index, [*map(keep, moved)], factor, keep)
        pixels, weights = on_stack([4 * width], "int32"), on_stack([4 * width])
        for corner, (y, x, weight) in enumerate(found):
            where = [lanes_of(corner * width, width)]
            T.buffer_store(pixels, y * splat(T.int32(c.width), width) + x, where)
            T.buffer_store(weights, weight, where)

        def place(i: Expr) -> None:
            with tile_scope():
                here = (image, row * c.places[1] + first + i, element, group)
                chosen = [(pixels[k * width + i], weights[k * width + i]) for k in range(4)]
                self._channels(buffers, here, chosen)

        loop(width, place)

    def _channels(
        self,
        buffers: Sequence[Any],
        at: tuple[Expr, Expr, Expr, Expr],
        chosen: Sequence[tuple[Expr, Expr]],
    ) -> None:
        """Emit the channels of a group at one place."""
        c, (image, place, element, group) = self.columns, at
        size = c.channels // c.groups
        bound = [(bind(pixel), keep(weight)) for pixel, weight in chosen]

        def vector(offset: Expr, width: int) -> None:
            channel = lanes_of(group * size + offset, width)
            total = None
            for pixel, weight in bound:
                value = buffers[0][image, pixel, channel]
                term = value * splat(weight, width)
                total = term if total is None else total + term
            store(buffers[-1], total, [image, place, element, channel])

        along(size, self.lanes, vector)
