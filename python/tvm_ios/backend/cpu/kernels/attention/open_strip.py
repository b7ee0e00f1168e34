# SPDX-License-Identifier: Apache-2.0
"""The code of an attention for a strip of queries, if the number of queries or keys is open.

A strip has room for whole vectors of queries, of which those that exist are computed. Tiles of the
result's rows may have more rows than there are queries: what they compute is not stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm.tirx.script import builder as T

from ...core import Core
from ...isa.emit import bind, loop
from ..factors import Multiplication
from ..row_tiles import cover_rows, heights_of, number
from ..tiling import RegisterTile, choose_tile
from .strip import Head, Strip

Expr = Any

_USUAL_KEYS = 128  # for which the register tile is chosen


class OpenStrip(Strip):
    """The code of a strip with room for ``rows`` queries, of which ``existing`` exist."""

    def __init__(
        self,
        head: Head,
        multiplication: Multiplication,
        block: int,
        core: Core,
        first: Expr,
        rows: int,
        existing: Expr,
    ) -> None:
        super().__init__(head, multiplication, block, core, first, rows)
        assert self.step == 1, "numbers are multiplied, not pairs"
        assert rows == self.width, "there is room for whole vectors"
        self.existing = existing
        whole = max(self.attention.columns // self.lanes, 1)
        self.spare = self._value_tile(whole).mr - 1

    def _key_tile(self, count: Expr) -> RegisterTile:
        return choose_tile(self.core, min(self.block, _USUAL_KEYS), self.vectors)

    def _all_keys(self) -> None:
        """Emit blocks of keys, all of about the same size."""
        keys = bind(number(self.attention.keys))
        parts = bind(T.floordiv(keys + (self.block - 1), self.block))
        size = bind(T.floordiv(keys + (parts - 1), parts))
        with T.serial(parts) as part:
            begin = bind(part * size)
            self._keys(begin, bind(T.min(size, keys - begin)))

    def _key_tiles(self, count: Expr, size: int, body: Callable[[Expr, int], None]) -> None:
        with T.serial(T.floordiv(count + (size - 1), size)) as place:
            cover_rows(count, place, size, body)

    def _value_tiles(self, size: int, body: Callable[[Expr, int], None]) -> None:
        heights = [*heights_of(size), 0]
        lower = heights[1]
        whole = bind(T.floordiv(self.existing + (size - 1 - lower), size))
        loop(whole, lambda i: body(i * size, size))
        first = bind(whole * size)
        left = bind(self.existing - first)

        def emit(n: int) -> None:
            with T.If(left > heights[n + 1]):
                with T.Then():
                    body(first, heights[n])
                if heights[n + 1]:
                    with T.Else():
                        emit(n + 1)

        if lower:
            emit(1)
