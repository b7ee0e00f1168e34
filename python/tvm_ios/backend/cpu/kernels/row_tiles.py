# SPDX-License-Identifier: Apache-2.0
"""How register tiles cover rows whose number is open.

There is code for tiles of several heights. If the highest is low, there is code for all heights
below it, too, and all tiles are of about one height. Otherwise there is code for the highest one
and for its halves down to a single row. The last rows are then computed by the lowest height that
covers them. Where that is higher than what is left, the tile begins earlier, and computes some rows
again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from ....sizes.size import AnySize, Size
from ..isa.emit import bind

Expr = Any
Body = Callable[[Expr, int], None]
"""``body(first, height)`` emits a tile."""

_LOW = 8  # of which there is code for all heights


def number(size: AnySize) -> Expr:
    """Return a size as kernels count."""
    return size.short if isinstance(size, Size) else T.int32(size)


def heights_of(most: int) -> tuple[int, ...]:
    """Return the heights of tiles, the highest first."""
    if most <= _LOW:
        return tuple(range(most, 0, -1))
    result = [most]
    while result[-1] > 1:
        result.append(-(-result[-1] // 2))
    return tuple(result)


def cover_rows(rows: Expr, place: Expr, most: int, body: Body) -> None:
    """Emit tile number ``place`` of those that cover some rows.

    There are ``ceil(rows / most)``, of which the last may become several lower ones.
    """
    heights = heights_of(most)
    if most <= _LOW:
        _even(rows, place, heights, body)
    else:
        _overlapping(rows, place, heights, body)


def _even(rows: Expr, place: Expr, heights: Sequence[int], body: Body) -> None:
    """Emit a tile; the first ones may be higher than the others by a row."""
    count = bind(T.floordiv(rows + (heights[0] - 1), heights[0]))
    least = bind(T.floordiv(rows, count))
    higher = bind(rows - least * count)
    first = bind(place * least + T.min(place, higher))
    height = bind(T.Select(place < higher, least + 1, least))

    def emit(n: int) -> None:
        if n == len(heights) - 1:
            body(first, heights[n])
            return
        with T.If(height == heights[n]):
            with T.Then():
                body(first, heights[n])
            with T.Else():
                emit(n + 1)

    emit(0)


def _overlapping(rows: Expr, place: Expr, heights: Sequence[int], body: Body) -> None:
    """Emit a tile of the first height, or of lower ones if fewer rows are left."""
    begin = bind(place * heights[0])
    left = bind(rows - begin)

    def emit(n: int) -> None:
        height, last = heights[n], n == len(heights) - 1
        if last:  # of several rows, the next height covers them
            body(begin, height)
            return
        with T.If(tirx.And(rows >= height, left > heights[n + 1])):
            with T.Then():
                if n == 0:
                    body(bind(T.min(begin, rows - height)), height)
                else:
                    several(height)
            with T.Else():
                emit(n + 1)

    def several(height: int) -> None:
        with T.serial(T.floordiv(left + (height - 1), height)) as i:
            body(bind(T.min(begin + i * height, rows - height)), height)

    emit(0)
