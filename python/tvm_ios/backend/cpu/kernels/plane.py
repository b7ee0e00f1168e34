# SPDX-License-Identifier: Apache-2.0
"""How a kernel's tiles cover the plane of its result, and what of its input's plane they read.

Kernels that say so can be computed band by band: a band of the result's rows through all kernels of
a chain, before the next band, while what passes between them is still in the core's cache.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....tir.window import Window

Interval = tuple[int, int]
"""From a first element to one past the last."""


@dataclass(frozen=True)
class PlaneTiles:
    """Tiles of one phase whose index is ``outer * tiles + tile``.

    Attributes
    ----------
    outer : int
        Images times chunks of channels: how often the plane is covered.
    tiles : int
        Tiles of one plane; each covers ``width`` neighbouring pixels of the result, the last one
        what is left.
    width : int
    pixels : int
        Of the result's plane.
    rows : Window or None
        How rows of the first input are read by a tile that is a row of the result; None where a
        pixel of the result reads the same pixel of the input.
    row_pixels : int
        Pixels of a row of the first input.
    """

    outer: int
    tiles: int
    width: int
    pixels: int
    rows: Window | None = None
    row_pixels: int = 0

    @property
    def source_pixels(self) -> int:
        """Pixels of the first input's plane."""
        return self.pixels if self.rows is None else self.rows.size * self.row_pixels

    def covering(self, pixels: Interval) -> Interval:
        """The tiles that hold ``pixels`` of the result."""
        begin, end = pixels
        return begin // self.width, -(-min(end, self.pixels) // self.width)

    def starting_in(self, pixels: Interval) -> Interval:
        """The tiles whose first pixel is one of ``pixels``: every tile starts in one band."""
        begin, end = (-(-min(p, self.pixels) // self.width) for p in pixels)
        return begin, end

    def read(self, tiles: Interval) -> Interval:
        """The pixels of the inputs that ``tiles`` read.

        These are pixels of the first input's plane; where other inputs are read at the result's
        own pixels, the plane is the same.
        """
        begin, end = tiles
        if self.rows is None:
            return begin * self.width, min(end * self.width, self.pixels)
        first = self.rows.position(begin, 0)
        last = self.rows.position(end - 1, self.rows.kernel - 1)
        rows = max(first, 0), min(last + 1, self.rows.size)
        return rows[0] * self.row_pixels, rows[1] * self.row_pixels
