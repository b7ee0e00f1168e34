# SPDX-License-Identifier: Apache-2.0
"""Planes: how a kernel's tiles cover its result, and which part of its input's plane they read.

Kernels that describe their plane can be computed by fused tiling, by row strips: each strip of the
result's rows runs through all kernels of a chain before the next strip begins. The values that pass
between the kernels are then still in the core's cache.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....ops.window import Window
from ....sizes.size import is_open

_COLUMNS = 256  # of a segment, at most: its inputs fit into L2, and loops cost next to nothing
_FEWEST = 8  # segments of a short row, so that workers share it evenly

Interval = tuple[int, int]
"""(first element, one past the last)."""


@dataclass(frozen=True)
class PlaneTiles:
    """The tiles of one phase.

    Tile ``tile`` of plane ``outer`` has index ``outer * num_tiles + tile``.

    Attributes
    ----------
    outer : int
        Number of planes: images times chunks of channels.
    num_tiles : int
        Tiles of one plane. Each covers ``width`` neighbouring pixels of the result; the last one
        covers the remainder.
    width : int
    pixels : int
        Pixels of the result's plane.
    rows : Window or None
        How a tile that is a row of the result reads rows of the first input. None if a pixel of the
        result reads the same pixel of the input.
    row_pixels : int
        Pixels of a row of the first input.
    mixes : bool
        Whether each tile reads all channels of the first input.
    images : int
        Number of images, by which the planes are divided first.
    matrix : bool
        Whether a pixel is a row of a row-major matrix, instead of a pixel of a feature map.
    blocks : tuple of int
        The blocks of channels that each plane of an image begins with, and their number. Empty if
        a plane does not hold whole blocks.
    channelwise : bool
        Whether each block reads only the block of the same number of the first input.
    repeatable : bool
        Whether two workers may compute the same tile at the same time. A kernel that keeps sums in
        its result would read those of the other worker.
    """

    outer: int
    num_tiles: int
    width: int
    pixels: int
    rows: Window | None = None
    row_pixels: int = 0
    mixes: bool = False
    images: int = 1
    matrix: bool = False
    blocks: tuple[int, ...] = ()
    channelwise: bool = False
    repeatable: bool = True

    @property
    def source_pixels(self) -> int:
        """The pixels of the first input's plane."""
        return self.pixels if self.rows is None else self.rows.size * self.row_pixels

    def follows(self, producer: PlaneTiles) -> bool:
        """Return whether the pixels of the inputs are those that ``producer`` writes."""
        return producer.pixels == self.source_pixels and producer.matrix == self.matrix

    def covering(self, pixels: Interval) -> Interval:
        """Return the tiles that hold ``pixels`` of the result."""
        begin, end = pixels
        return begin // self.width, -(-min(end, self.pixels) // self.width)

    def pixels_of(self, tiles: Interval) -> Interval:
        """Return the pixels of the result that ``tiles`` hold."""
        begin, end = tiles
        return begin * self.width, min(end * self.width, self.pixels)

    def starting_in(self, pixels: Interval) -> Interval:
        """Return the tiles whose first pixel is one of ``pixels``.

        Every tile starts in exactly one row strip.
        """
        begin, end = (-(-min(p, self.pixels) // self.width) for p in pixels)
        return begin, end

    def read(self, tiles: Interval) -> Interval:
        """Return the pixels of the inputs that ``tiles`` read.

        They are pixels of the first input's plane. Other inputs are read at the result's own
        pixels, and only where both planes are the same.
        """
        if self.rows is None:
            return self.pixels_of(tiles)
        begin, end = tiles
        first = self.rows.position(begin, 0)
        last = self.rows.position(end - 1, self.rows.kernel - 1)
        rows = max(first, 0), min(last + 1, self.rows.size)
        return rows[0] * self.row_pixels, rows[1] * self.row_pixels


def segment_window(columns: Window, length: int) -> Window:
    """Return how the segments of a row, of ``length`` columns each, read pixels of the input's row.

    A plane of one row has them for tiles, as a plane of many rows has these.
    """
    return Window(
        columns.size,
        -(-columns.out // length),
        columns.distance(length - 1, columns.kernel - 1) + 1,
        length * columns.stride,
        before=columns.before,
    )


def segment_tiles(rows: Window, columns: Window, width: int) -> int | None:
    """Return into how many register tiles of ``width`` columns the segments of a row are divided.

    A map of one row is divided so that all workers compute some of it, and that what one reads is
    still in its cache for the next channels. None if a map has more rows, a short one, or one of
    open size.
    """
    if is_open((rows.size, rows.out, columns.size, columns.out)):
        return None
    if (rows.size, rows.out, rows.kernel) != (1, 1, 1):
        return None
    tiles = -(-columns.out // width)
    return None if tiles < _FEWEST else max(1, min(_COLUMNS // width, tiles // _FEWEST))
