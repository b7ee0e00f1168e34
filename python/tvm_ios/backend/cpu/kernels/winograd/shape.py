# SPDX-License-Identifier: Apache-2.0
"""The tiles of a convolution by Winograd's algorithm, and the tensors that follow from them."""

from __future__ import annotations

from .....sizes.arithmetic import ceil_div
from .....sizes.size import AnyShape, AnySize
from ...core import Core
from ..conv.shape import Conv2d
from ..layout import blocks
from .model import WinogradTiling
from .tiles import Tiles


class WinogradShape:
    """The strips of tiles and the chunks of output channels of a convolution."""

    def __init__(self, conv: Conv2d, tiling: WinogradTiling, core: Core) -> None:
        self.conv, self.tiling, self.core, self.lanes = conv, tiling, core, core.lanes
        self.tiles = Tiles(conv, tiling.outputs, core.lanes)
        self.strip, self.chunk = tiling.registers.mr, tiling.registers.nr
        full = conv.is_open or self.strip <= self.tiles.count
        assert full, "every strip but the last is full"
        self.strips = ceil_div(self.tiles.count, self.strip)
        self.groups = ceil_div(self.strips, tiling.group)
        self.in_blocks = blocks(conv.channels, core.lanes)
        self.out_blocks = blocks(conv.out_channels[0], core.lanes)
        self.chunks = blocks(self.out_blocks, self.chunk)

    def transformed(self, strips: AnySize) -> AnyShape:
        """Return the shape of the transformed inputs of ``strips`` strips.

        The values that one set of registers multiplies lie together. The number of vectors of a
        point is odd: a tile's points are written one after the other, and with an odd distance they
        fall into different sets of the cache.
        """
        return (strips, self.tiles.points, self.in_blocks * self.strip | 1, self.lanes)

    @property
    def block_elements(self) -> int:
        """The weights of a block of output channels at all points."""
        return self.tiles.points * self.conv.channels * self.lanes
