# SPDX-License-Identifier: Apache-2.0
"""A range of the channels of a blocked feature map.

A range that begins within a block takes each of its vectors from two neighbouring ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx.script import builder as T

from ....target import Core
from ....tir.emit import lanes_of, shuffled
from ....tir.tensor import TensorSpec
from .kernel import Kernel, Phase
from .layout import Layout, blocks
from .planes import Planes, PlanesEmitter
from .taps import ColumnTile

Expr = Any


def channels_kernel(
    planes: Planes, begin: int, channels: int, layout: Layout, core: Core
) -> Kernel:
    """Return the kernel of a range of channels, followed by an epilogue.

    The kernel's inputs are the feature map and the epilogue's arguments.

    Parameters
    ----------
    planes : Planes
        The result and the epilogue; its windows are single pixels.
    begin : int
        The first channel of the range.
    channels : int
        Channels of the feature map.
    layout : Layout
        Layout of all feature maps, blocked by ``core.lanes``.
    core : Core
        The core that runs the kernel.

    Returns
    -------
    Kernel
        A kernel of one phase with one output.
    """
    emitter = _ChannelsEmitter(planes, begin, channels, layout, core)
    return Kernel(
        name="channels",
        key=("channels", planes, begin, channels, layout, core),
        inputs=emitter.input_specs(),
        outputs=(emitter.plane(planes.rows.out, planes.columns.out),),
        phases=(Phase(emitter.tiles, emitter.emit),),
        plane=emitter.plane_tiles(),
        narrows=True,
    )


class _ChannelsEmitter(PlanesEmitter):
    channelwise = False

    def __init__(
        self, planes: Planes, begin: int, channels: int, layout: Layout, core: Core
    ) -> None:
        super().__init__(planes, layout, core)
        self.first, self.shift = divmod(begin, core.lanes)
        self.source_blocks = blocks(channels, core.lanes)
        size = (planes.rows.size, planes.columns.size)
        self.source = layout.spec((planes.batch, channels, *size))

    def input_specs(self) -> tuple[TensorSpec, ...]:
        return (self.source, *self.argument_specs())

    def gather(
        self,
        buffers: Sequence[Any],
        image: Expr,
        block: Expr,
        row: Expr,
        first: Expr,
        tile: ColumnTile,
    ) -> list[Expr]:
        # Lanes behind the range, which nobody reads, may have no block after theirs.
        sources = [block + self.first]
        if self.shift:
            sources.append(T.min(sources[0] + 1, self.source_blocks - 1))
        elements = range(self.shift, self.shift + self.lanes)

        def pixel(column: int) -> Expr:
            place = row * self.planes.columns.size + first + column
            vector = lanes_of(0, self.lanes)
            return shuffled([buffers[0][image, s, place, vector] for s in sources], elements)

        return [pixel(column) for column in range(tile.width)]
