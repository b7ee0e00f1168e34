# SPDX-License-Identifier: Apache-2.0
"""Tiles of Winograd's algorithm: their positions, and their transforms from and to feature maps.

Padding is never materialised: a tile at the edge reads zeros instead, and values outside of the
result are not stored. Lanes never mix, so lanes without a channel may hold any value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from ....tir.emit import bind, lanes_of, on_stack, select, tile_scope, unroll, zeros
from ....tir.window import Window
from .conv2d_shape import Conv2d
from .layout import blocks
from .winograd_transform import Transform

Expr = Any


@dataclass(frozen=True)
class Place:
    """The image of a tile and the position of its first output."""

    image: Expr
    row: Expr
    column: Expr


class Tiles:
    """The tiles of all images of a convolution, in row-major order.

    A point of a transformed tile is a vector of channels. Points are in column-major order, so that
    the last transform on the way out yields rows.

    Parameters
    ----------
    conv : Conv2d
        The convolution.
    outputs : int
        Outputs of a tile along an axis.
    lanes : int
        Elements of a vector.

    Attributes
    ----------
    points : int
        Points of a transformed tile.
    count : int
        Number of tiles.
    """

    def __init__(self, conv: Conv2d, outputs: int, lanes: int) -> None:
        self._conv, self._lanes = conv, lanes
        self._transform = Transform(outputs)
        self._high, self._wide = (blocks(w.out, outputs) for w in (conv.rows, conv.columns))
        self.points = self._transform.n**2
        self.count = conv.batch * self._high * self._wide

    def place(self, tile: Expr) -> Place:
        """Return the position of a tile."""
        size, row = self._transform.m, tile // self._wide
        return Place(
            image=bind(row // self._high),
            row=bind(row % self._high * size),
            column=bind(tile % self._wide * size),
        )

    def transform_in(
        self, image: Any, block: Expr, tile: Expr, store: Callable[[Expr, Expr], None]
    ) -> None:
        """Call ``store(point, value)`` for every point of a tile of one block of channels.

        Parameters
        ----------
        image : Buffer
            The feature map.
        block : Expr
            The block of channels.
        tile : Expr
            Index of the tile.
        store : callable
            Emits the store of one transformed point.
        """
        n, lanes = self._transform.n, self._lanes
        with tile_scope():
            square = _Square(n, lanes)

            def row(load: Callable[[Expr, int], Expr], r: Expr) -> None:
                x = [T.Bind(load(r, s)) for s in range(n)]
                for column, value in enumerate(self._transform.data(x, lanes)):
                    square[r, column] = value

            def column(s: Expr) -> None:
                x = [T.Bind(square[r, s]) for r in range(n)]
                for r, value in enumerate(self._transform.data(x, lanes)):
                    store(s * n + r, value)

            self._rows_in(image, block, self.place(tile), row)
            unroll(0, n, column)

    def _rows_in(
        self,
        image: Any,
        block: Expr,
        place: Place,
        row: Callable[[Callable[[Expr, int], Expr], Expr], None],
    ) -> None:
        """Call ``row(load, r)`` for each row of a tile's inputs; ``load(r, s)`` returns one."""
        conv, n, vector = self._conv, self._transform.n, lanes_of(0, self._lanes)
        top, left = bind(place.row - conv.rows.before), bind(place.column - conv.columns.before)

        def pixel(y: Expr, x: Expr) -> Expr:
            return image[place.image, block, y * conv.columns.size + x, vector]

        def inner(r: Expr, s: int) -> Expr:
            return pixel(top + r, left + s)

        def outer(r: Expr, s: int) -> Expr:
            y, y_inside = _clamp(conv.rows, top + r)
            x, x_inside = _clamp(conv.columns, left + s)
            return tirx.Select(tirx.And(y_inside, x_inside), pixel(y, x), zeros(self._lanes))

        with T.If(tirx.And(_within(conv.rows, top, n), _within(conv.columns, left, n))):
            with T.Then():
                unroll(0, n, lambda r: row(inner, r))
            with T.Else():
                unroll(0, n, lambda r: row(outer, r))

    def transform_out(
        self, place: Place, load: Callable[[Expr], Expr], store: Callable[[Expr, Expr], None]
    ) -> None:
        """Call ``store(pixel, value)`` for every output of a tile.

        Tiles at the right edge have code of their own, as they may be narrower.

        Parameters
        ----------
        place : Place
            Position of the tile.
        load : callable
            ``load(point)`` returns a product.
        store : callable
            Emits the store of one output.
        """

        def columns(width: int) -> None:
            with tile_scope():
                self._transform_out(place, width, load, store)

        whole, rest = divmod(self._conv.columns.out, self._transform.m)
        begin = whole * self._transform.m
        select(
            place.column,
            [(begin, lambda _: columns(self._transform.m)), (rest, lambda _: columns(rest))],
        )

    def _transform_out(
        self,
        place: Place,
        width: int,
        load: Callable[[Expr], Expr],
        store: Callable[[Expr, Expr], None],
    ) -> None:
        transform, lanes = self._transform, self._lanes
        height, row_length = self._conv.rows.out, self._conv.columns.out
        square = _Square(transform.n, lanes)

        def column(s: Expr) -> None:
            x = [T.Bind(load(s * transform.n + r)) for r in range(transform.n)]
            for r, value in enumerate(transform.outputs(x, lanes)):
                square[r, s] = value

        def row(r: Expr) -> None:
            x = [T.Bind(square[r, s]) for s in range(transform.n)]
            pixel = bind((place.row + r) * row_length + place.column)
            for s, value in enumerate(transform.outputs(x, lanes)[:width]):
                store(pixel + s, value)

        def row_inside(r: Expr) -> None:
            if height % transform.m == 0:
                row(r)
                return
            with T.If(place.row + r < height), T.Then():
                row(r)

        unroll(0, transform.n, column)
        unroll(0, transform.m, row_inside)


class _Square:
    """A square of vectors between the transforms of its two axes."""

    def __init__(self, size: int, lanes: int) -> None:
        self._size, self._lanes = size, lanes
        self._buffer = on_stack((size * size * lanes,))

    def __getitem__(self, place: tuple[Expr, Expr]) -> Expr:
        return self._buffer[self._index(*place)]

    def __setitem__(self, place: tuple[Expr, Expr], value: Expr) -> None:
        T.buffer_store(self._buffer, value, [self._index(*place)])

    def _index(self, i: Expr, j: Expr) -> Expr:
        return lanes_of((i * self._size + j) * self._lanes, self._lanes)


def _within(window: Window, begin: Expr, length: int) -> Expr:
    """Return whether all of ``length`` positions from ``begin`` lie in the input."""
    return tirx.And(begin >= 0, begin + length <= window.size)


def _clamp(window: Window, position: Expr) -> tuple[Expr, Expr]:
    """Return the nearest position in the input, and whether it is the requested one."""
    inside = tirx.And(position >= 0, position < window.size)
    return T.min(T.max(position, 0), window.size - 1), inside
