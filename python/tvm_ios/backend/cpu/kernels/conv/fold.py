# SPDX-License-Identifier: Apache-2.0
"""Convolutions of images by large strides, as convolutions of stride 1.

Such a convolution is the first one of many networks: 7x7 taps, stride 2, three channels. *Folding*
turns each square of ``stride`` x ``stride`` pixels into one pixel of ``stride^2`` times the
channels (space to depth). On the folded image, windows have stride 1 and fewer taps, as do those of
Winograd's algorithm. Taps that complete a square are zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T

from .....ops.tir_function import tile_scope
from .....ops.window import Window
from .....sizes.arithmetic import ceil_div
from ...isa.emit import bind, lanes_of, loop, unroll, zeros
from ..layout import blocks
from .shape import Conv2d

Expr = Any

_Store = Callable[[Expr, Expr, Expr, Expr], None]
"""``store(block, column, lanes, value)`` emits the store of some lanes of a square."""

_STRIDES = (2, 4)  # a row of a square is part of a vector
_CHANNELS = 4  # at most; others fill the lanes of a vector without folding
_ROW_BYTES = 32 << 10  # of a folded row, at most: a worker has several rows on its stack


def folds(conv: Conv2d) -> bool:
    """Return whether a convolution of a row-major image has a folded form with fewer taps."""
    axes = (conv.rows, conv.columns)
    strides = {axis.stride for axis in axes}
    pixels = blocks(conv.columns.size, conv.columns.stride) * conv.columns.stride
    return (
        conv.channels <= _CHANNELS
        and 4 * conv.channels * conv.rows.stride * pixels <= _ROW_BYTES
        and conv.groups == 1
        and len(strides) == 1
        and strides <= set(_STRIDES)
        and all(axis.dilation == 1 and axis.kernel > axis.stride for axis in axes)
    )


def folded(conv: Conv2d) -> Conv2d:
    """Return the convolution of the folded image that has the same result."""
    return replace(
        conv,
        channels=conv.channels * conv.rows.stride * conv.columns.stride,
        rows=_folded_window(conv.rows),
        columns=_folded_window(conv.columns),
    )


def _folded_window(window: Window) -> Window:
    stride, before = window.stride, blocks(window.before, window.stride)
    taps = blocks(window.kernel + _missing(window), stride)
    return Window(ceil_div(window.size, stride), window.out, taps, before=before)


def _missing(window: Window) -> int:
    """Return how many taps are missing in front, as a window begins within a square."""
    return -window.before % window.stride


def fold_weights(weights: np.ndarray, conv: Conv2d) -> np.ndarray:
    """Return the weights ``[K, C stride^2, R', S']`` of :func:`folded`.

    Parameters
    ----------
    weights : numpy.ndarray
        ``[K, C, R, S]``.
    conv : Conv2d
        The convolution before it is folded.
    """
    (k, c), stride = weights.shape[:2], conv.rows.stride
    taps = [_folded_window(axis).kernel for axis in (conv.rows, conv.columns)]
    padding = [
        (_missing(axis), stride * count - _missing(axis) - axis.kernel)
        for axis, count in zip((conv.rows, conv.columns), taps, strict=True)
    ]
    padded = np.pad(weights, ((0, 0), (0, 0), *padding))
    squares = padded.reshape(k, c, taps[0], stride, taps[1], stride)
    return squares.transpose(0, 3, 1, 5, 2, 4).reshape(k, -1, *taps)


class Folding:
    """The code that folds rows of an image.

    The channels of a square are in the order row, channel, column: neighbouring pixels of the image
    stay neighbours. Pixels beyond the image are zero, and so are lanes without a channel.

    Parameters
    ----------
    conv : Conv2d
        The convolution of the image, before it is folded.
    lanes : int
        Elements of a block of channels.
    """

    def __init__(self, conv: Conv2d, lanes: int) -> None:
        self._channels, self._stride, self._lanes = conv.channels, conv.rows.stride, lanes
        assert lanes % self._stride == 0, "the row of a square lies in a block"
        self._high, self._wide = conv.rows.size, conv.columns.size

    def emit(self, source: Any, image: Expr, row: Expr, store: _Store) -> None:
        """Emit a row of squares.

        Parameters
        ----------
        source : Buffer
            The row-major image ``[N, C, H, W]``.
        image, row : Expr
            The image's number, and the row of squares.
        store : callable
            ``store(block, column, lanes, value)`` emits the store of some lanes of a square.
        """
        stride = self._stride

        def pixels(y: Expr) -> None:
            def load(x: Expr, channel: Expr, width: int) -> Expr:
                return source[image, channel, row * stride + y, lanes_of(x * stride, width)]

            with T.If(row * stride + y < self._high):
                with T.Then():
                    self._row(y, load, store)
                with T.Else():
                    self._row(y, lambda _x, _channel, width: zeros(width), store)

        unroll(0, stride, pixels)
        self._clear(store)

    def _row(
        self,
        y: Expr,
        load: Callable[[Expr, Expr, int], Expr],
        store: _Store,
    ) -> None:
        """Emit row ``y`` of the squares."""
        stride = self._stride
        full, rest = divmod(self._wide, stride)
        part = self._parts(y, store)

        def square(x: Expr) -> None:
            unroll(0, self._channels, lambda c: part(x, c, 0, stride, load(x, c, stride)))

        def last(channel: Expr) -> None:
            part(full, channel, 0, rest, load(full, channel, rest))
            part(full, channel, rest, stride - rest, zeros(stride - rest))

        if full:
            loop(full, square)
        if rest:
            unroll(0, self._channels, last)

    def _parts(self, y: Expr, store: _Store) -> Callable[..., None]:
        """Return what stores some pixels of row ``y`` of a square, of one channel."""

        def part(x: Expr, channel: Expr, first: Expr, width: int, value: Expr) -> None:
            lane = (y * self._channels + channel) * self._stride + first
            with tile_scope():
                store(lane // self._lanes, x, lanes_of(lane % self._lanes, width), value)

        return part

    def emit_some(
        self, source: Any, image: Expr, row: Expr, columns: tuple[Expr, Expr], store: _Store
    ) -> None:
        """Emit some squares of a row of an image of any size.

        Parameters
        ----------
        source, image, row, store
            As :meth:`emit` takes them.
        columns : (Expr, Expr)
            The first square, and the number of squares.
        """
        stride, (first, count) = self._stride, columns

        def pixels(y: Expr) -> None:
            line, part = bind(row * stride + y), self._parts(y, store)

            def load(x: Expr, channel: Expr, width: int) -> Expr:
                return source[image, channel, line, lanes_of(x, width)]

            def whole(x: Expr, channel: Expr) -> None:
                part(x, channel, 0, stride, load(x * stride, channel, stride))

            def single(x: Expr, channel: Expr, pixel: Expr) -> None:
                place = x * stride + pixel
                part(x, channel, pixel, 1, T.float32(0))
                with T.If(tirx.And(line < self._high, place < self._wide)), T.Then():
                    part(x, channel, pixel, 1, load(place, channel, 1))

            def square(i: Expr) -> None:
                x = bind(first + i)
                with T.If(tirx.And(line < self._high, (x + 1) * stride <= self._wide)):
                    with T.Then():
                        unroll(0, self._channels, lambda c: whole(x, c))
                    with T.Else(), T.serial(self._channels) as c, T.serial(stride) as pixel:
                        single(x, c, pixel)

            loop(count, square)

        unroll(0, stride, pixels)
        self._clear(store, columns)

    def _clear(self, store: _Store, columns: tuple[Expr, Expr] | None = None) -> None:
        """Clear the lanes behind the last channel: numbers that are left there may be slow."""
        block, first = divmod(self._channels * self._stride**2, self._lanes)
        if first:
            width = self._lanes - first
            lanes, value = lanes_of(first, width), zeros(width)
            begin, count = columns or (0, blocks(self._wide, self._stride))
            loop(count, lambda x: store(block, begin + x, lanes, value))
