# SPDX-License-Identifier: Apache-2.0
"""How register tiles cover rows whose number is open.

A tile has some rows, and there is code of it for several heights: the full one and its halves down
to a single row. The last rows are computed by the lowest height that covers them. Where that is
higher than what is left, the tile begins earlier, and computes some rows again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from ....ops.size import AnySize, Size
from ..isa.emit import bind

Expr = Any


def number(size: AnySize) -> Expr:
    """Return a size as kernels count."""
    return size.short if isinstance(size, Size) else T.int32(size)


def heights_of(most: int) -> tuple[int, ...]:
    """Return the heights of tiles, of which each but the last is at most twice the next one."""
    result = [most]
    while result[-1] > 1:
        result.append(-(-result[-1] // 2))
    return tuple(result)


def cover_rows(
    rows: Expr, place: Expr, heights: Sequence[int], body: Callable[[Expr, int], None]
) -> None:
    """Emit group number ``place`` of ``heights[0]`` rows, which may be more than there are.

    Parameters
    ----------
    rows : Expr
        The number of all rows.
    place : Expr
    heights : sequence of int
        Of :func:`heights_of`.
    body : callable
        ``body(first, height)`` emits a tile.
    """
    first = bind(place * heights[0])
    left = bind(rows - first)

    def emit(n: int) -> None:
        height, last = heights[n], n == len(heights) - 1
        if last:  # of several rows, the next height covers them
            body(first, height)
            return
        with T.If(tirx.And(rows >= height, left > heights[n + 1])):
            with T.Then():
                _overlapping(rows, first, left, height, n == 0, body)
            with T.Else():
                emit(n + 1)

    emit(0)


def _overlapping(
    rows: Expr,
    first: Expr,
    left: Expr,
    height: int,
    single: bool,
    body: Callable[[Expr, int], None],
) -> None:
    """Emit tiles of a height that cover the rows that are left; no more than one if ``single``."""
    if single:
        body(bind(T.min(first, rows - height)), height)
        return
    with T.serial(T.floordiv(left + (height - 1), height)) as i:
        body(bind(T.min(first + i * height, rows - height)), height)
