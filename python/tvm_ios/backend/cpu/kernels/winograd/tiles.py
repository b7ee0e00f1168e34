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

from .....ops.tir_function import on_stack, tile_scope
from .....ops.window import Window
from .....sizes.arithmetic import ceil_div
from ...isa.emit import bind, lanes_of, select, unroll, zeros
from ..conv.shape import Conv2d
from .transform import transforms

Expr = Any


Pixel = Callable[[Expr, Expr, Expr, Expr], Expr]
"""``pixel(image, block, y, x)`` returns a vector of channels of a feature map."""


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
        Outputs of a tile along an axis of several taps.
    lanes : int
        Elements of a vector.

    Attributes
    ----------
    points : int
        Points of a transformed tile.
    count : int
        Number of tiles.
    rows, columns : int
        Rows of tiles of an image, and tiles of a row.
    inputs, outputs : int
        Rows of inputs, and of outputs, of a tile.
    inputs_across, outputs_across : int
        The columns.
    """

    def __init__(self, conv: Conv2d, outputs: int, lanes: int) -> None:
        self._conv, self._lanes = conv, lanes
        self._down, self._across = transforms(conv, outputs)
        self.inputs, self.outputs = self._down.n, self._down.m
        self.inputs_across, self.outputs_across = self._across.n, self._across.m
        self.rows = ceil_div(conv.rows.out, self.outputs)
        self.columns = ceil_div(conv.columns.out, self._across.m)
        self.points = self.inputs * self._across.n
        self.count = conv.batch * self.rows * self.columns

    def place(self, tile: Expr) -> Place:
        """Return the position of a tile."""
        row = tile // self.columns
        return Place(
            image=bind(row // self.rows),
            row=bind(row % self.rows * self.outputs),
            column=bind(tile % self.columns * self._across.m),
        )

    def transform_in(
        self, pixel: Pixel, block: Expr, tile: Expr, store: Callable[[Expr, Expr], None]
    ) -> None:
        """Call ``store(point, value)`` for every point of a tile of one block of channels.

        Parameters
        ----------
        pixel : callable
            ``pixel(image, block, y, x)`` returns a vector of channels of the feature map.
        block : Expr
            The block of channels.
        tile : Expr
            Index of the tile.
        store : callable
            Emits the store of one transformed point.
        """
        high, wide, lanes = self._down.n, self._across.n, self._lanes
        with tile_scope():
            half = _Vectors(high, wide, lanes)

            def row(load: Callable[[Expr, int], Expr], r: Expr) -> None:
                x = [T.Bind(load(r, s)) for s in range(wide)]
                for column, value in enumerate(self._across.data(x, lanes)):
                    half[r, column] = value

            def column(s: Expr) -> None:
                x = [T.Bind(half[r, s]) for r in range(high)]
                for r, value in enumerate(self._down.data(x, lanes)):
                    store(s * high + r, value)

            self._rows_in(pixel, block, self.place(tile), row)
            unroll(0, wide, column)

    def _rows_in(
        self,
        pixel: Pixel,
        block: Expr,
        place: Place,
        row: Callable[[Callable[[Expr, int], Expr], Expr], None],
    ) -> None:
        """Call ``row(load, r)`` for each row of a tile's inputs; ``load(r, s)`` returns one."""
        conv, high, wide = self._conv, self.inputs, self._across.n
        top = bind(conv.rows.position(place.row, 0))
        left = bind(conv.columns.position(place.column, 0))

        def inner(r: Expr, s: int) -> Expr:
            return pixel(place.image, block, top + r, left + s)

        def outer(r: Expr, s: int) -> Expr:
            y, y_inside = _clamp(conv.rows, top + r)
            x, x_inside = _clamp(conv.columns, left + s)
            value = pixel(place.image, block, y, x)
            return tirx.Select(tirx.And(y_inside, x_inside), value, zeros(self._lanes))

        with T.If(tirx.And(_within(conv.rows, top, high), _within(conv.columns, left, wide))):
            with T.Then():
                unroll(0, high, lambda r: row(inner, r))
            with T.Else():
                unroll(0, high, lambda r: row(outer, r))

    def transform_out(
        self, place: Place, load: Callable[[Expr], Expr], store: Callable[[Expr, Expr], None]
    ) -> None:
        """Call ``store(pixel, value)`` for every output of a tile.

        Tiles at the right edge have code of their own, as they may be narrower. If the length of
        rows is open, that code tests for each column whether it exists.

        Parameters
        ----------
        place : Place
            Position of the tile.
        load : callable
            ``load(point)`` returns a product.
        store : callable
            Emits the store of one output.
        """

        def columns(width: int | None) -> None:
            with tile_scope():
                self._transform_out(place, width, load, store)

        across, out = self._across.m, self._conv.columns.out
        if not isinstance(out, int):
            with T.If(place.column + across <= out):
                with T.Then():
                    columns(across)
                with T.Else():
                    columns(None)
            return
        whole, rest = divmod(out, across)
        select(
            place.column,
            [(whole * across, lambda _: columns(across)), (rest, lambda _: columns(rest))],
        )

    def _transform_out(
        self,
        place: Place,
        width: int | None,
        load: Callable[[Expr], Expr],
        store: Callable[[Expr, Expr], None],
    ) -> None:
        down, across, lanes = self._down, self._across, self._lanes
        height, row_length = self._conv.rows.out, self._conv.columns.out
        half = _Vectors(down.m, across.n, lanes)

        def column(s: Expr) -> None:
            x = [T.Bind(load(s * down.n + r)) for r in range(down.n)]
            for r, value in enumerate(down.outputs(x, lanes)):
                half[r, s] = value

        def row(r: Expr) -> None:
            x = [T.Bind(half[r, s]) for s in range(across.n)]
            pixel = bind((place.row + r) * row_length + place.column)
            for s, value in enumerate(across.outputs(x, lanes)[:width]):
                if width is not None or s == 0:
                    store(pixel + s, value)
                    continue
                with T.If(place.column + s < row_length), T.Then():
                    store(pixel + s, value)

        def row_inside(r: Expr) -> None:
            if height % down.m == 0:
                row(r)
                return
            with T.If(place.row + r < height), T.Then():
                row(r)

        unroll(0, across.n, column)
        unroll(0, down.m, row_inside)


class _Vectors:
    """A tile of vectors between the transforms of its two axes."""

    def __init__(self, high: int, wide: int, lanes: int) -> None:
        self._wide, self._lanes = wide, lanes
        self._buffer = on_stack((high * wide * lanes,))

    def __getitem__(self, place: tuple[Expr, Expr]) -> Expr:
        return self._buffer[self._index(*place)]

    def __setitem__(self, place: tuple[Expr, Expr], value: Expr) -> None:
        T.buffer_store(self._buffer, value, [self._index(*place)])

    def _index(self, i: Expr, j: Expr) -> Expr:
        return lanes_of((i * self._wide + j) * self._lanes, self._lanes)


def _within(window: Window, begin: Expr, length: int) -> Expr:
    """Return whether all of ``length`` positions from ``begin`` lie in the input."""
    return tirx.And(begin >= 0, begin + length <= window.size)


def _clamp(window: Window, position: Expr) -> tuple[Expr, Expr]:
    """Return the nearest position in the input, and whether it is the requested one."""
    inside = tirx.And(position >= 0, position < window.size)
    return T.min(T.max(position, 0), window.size - 1), inside
