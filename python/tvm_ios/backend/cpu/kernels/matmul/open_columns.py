# SPDX-License-Identifier: Apache-2.0
"""Register tiles of a product whose number of columns is open, so that its right side is computed.

The last tile begins earlier than where the one before it ends, so that all of its columns exist.
If there are fewer columns than a tile has, they are computed vector by vector, and the lanes behind
the last column are neither read nor written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm.tirx.script import builder as T

from ...isa.emit import bind, lanes_of
from ...isa.epilogue import apply_epilogue
from ...isa.masked import load_first, store_first
from ...isa.storage import store
from ..row_tiles import number
from .shape import MatmulShape
from .tile import Columns, MatmulTile

Expr = Any


class OpenColumnsTile(MatmulTile):
    """The tile of columns from ``origin`` on, of which ``count`` exist, or all if that is None."""

    origin: Expr
    count: Expr | None

    def _right(self, block: Expr, k: Expr, width: int) -> Expr:
        matrix = self.matrix if self.matmul.right_batch else 0
        return self._load(self.buffers[1], [matrix, k, self.origin + block * self.lanes], width)

    def _store(self, value: Expr, row: Expr, i: Expr, columns: Columns) -> None:
        epilogue, arguments = self.matmul.epilogue, self.shape.arguments
        column, width = self.origin + i * self.lanes, columns.width

        def load(a: int) -> Expr:
            last = epilogue.arguments[a] == "last"
            place = [column] if last else [self.matrix, row, column]
            return self._load(self.buffers[arguments + a], place, width)

        result = apply_epilogue(epilogue, value, load, width)
        if self.count is None:
            store(self.buffers[-1], result, [self.matrix, row, lanes_of(column, width)])
        else:
            store_first(self.buffers[-1], result, [self.matrix, row, column], self.count)

    def _load(self, tensor: Any, place: list[Expr], width: int) -> Expr:
        if self.count is not None:
            return load_first(tensor, place, self.count, width)
        return tensor[(*place[:-1], lanes_of(place[-1], width))]


def emit_open_columns(
    shape: MatmulShape, tile: OpenColumnsTile, chunk: Expr, body: Callable[[Columns], None]
) -> None:
    """Emit ``body`` for the columns of a chunk."""
    width, lanes = shape.tile.nr * shape.lanes, shape.lanes
    columns = bind(number(shape.matmul.columns))
    with T.If(columns >= width):
        with T.Then():
            tile.origin, tile.count = bind(T.min(chunk * width, columns - width)), None
            body(Columns(0, shape.tile.nr, lanes))
        with T.Else(), T.serial(T.floordiv(columns + (lanes - 1), lanes)) as vector:
            tile.origin = bind(vector * lanes)
            tile.count = bind(T.min(columns - tile.origin, lanes))
            body(Columns(0, 1, lanes))
