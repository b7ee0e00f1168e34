# SPDX-License-Identifier: Apache-2.0
"""Convolutions of images by large strides, as convolutions of stride 1.

Such a convolution is the first one of many networks: 7x7 taps, stride 2, three channels. *Folding*
turns each square of ``stride`` x ``stride`` pixels into one pixel of ``stride^2`` times the
channels (space to depth). On the folded image, windows have stride 1 and fewer taps, as do those of
Winograd's algorithm. Taps that complete a square are zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm.tirx.script import builder as T

from ....target import Core
from ....tir.emit import lanes_of, loop, tile_scope, unroll, zeros
from ....tir.storage import store
from ....tir.tensor import TensorSpec
from ....tir.window import Window
from .conv2d_shape import Conv2d
from .kernel import Kernel, Phase
from .layout import Layout, blocks

Expr = Any

_STRIDES = (2, 4)  # squares' rows are vectors
_CHANNELS = 4  # at most; others fill the lanes of a vector without folding


def folds(conv: Conv2d) -> bool:
    """Return whether a convolution of a row-major image has a folded form with fewer taps."""
    axes = (conv.rows, conv.columns)
    strides = {axis.stride for axis in axes}
    return (
        conv.channels <= _CHANNELS
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
    return Window(blocks(window.size, stride), window.out, taps, before=before)


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


def fold_kernel(conv: Conv2d, layout: Layout, core: Core) -> Kernel:
    """Return the kernel that folds a row-major image.

    A tile is a row of squares. The channels of a square are in the order row, channel, column:
    neighbouring pixels of the image stay neighbours. Pixels beyond the image are zero.

    Parameters
    ----------
    conv : Conv2d
        The convolution of the image, before it is folded.
    layout : Layout
        Layout of the folded image.
    core : Core
        The core that runs the kernel.

    Returns
    -------
    Kernel
        A kernel of one phase.
    """
    emitter = _Folding(conv, layout)
    shape = (conv.batch, conv.channels, conv.rows.size, conv.columns.size)
    return Kernel(
        name="fold",
        key=("fold", shape, conv.rows.stride, layout, core),
        inputs=(TensorSpec(shape),),
        outputs=(layout.spec(emitter.result),),
        phases=(Phase(conv.batch * emitter.result[2], emitter.emit),),
        narrows=True,
    )


class _Folding:
    """The code that folds an image."""

    def __init__(self, conv: Conv2d, layout: Layout) -> None:
        whole = folded(conv)
        self._channels, self._stride, self._block = conv.channels, conv.rows.stride, layout.block
        assert self._block % self._stride == 0, "the row of a square lies in a block"
        self._size = (conv.rows.size, conv.columns.size)
        self.result = (conv.batch, whole.channels, whole.rows.size, whole.columns.size)

    def emit(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        """Emit a range of rows of squares."""
        stride, (height, _) = self._stride, self._size
        with T.serial(begin, begin + extent) as t:
            image, row = t // self.result[2], t % self.result[2]

            def pixels(y: Expr) -> None:
                with T.If(row * stride + y < height):
                    with T.Then():
                        self._row(buffers, image, row, y, inside=True)
                    with T.Else():
                        self._row(buffers, image, row, y, inside=False)

            unroll(0, stride, pixels)

    def _row(
        self, buffers: Sequence[Any], image: Expr, row: Expr, y: Expr, *, inside: bool
    ) -> None:
        """Emit row ``y`` of the squares of a row; zeros if it is not ``inside`` the image."""
        (source, result), stride = buffers, self._stride
        full, rest = divmod(self._size[1], stride)

        def part(x: Expr, channel: Expr, first: int, width: int, value: Expr) -> None:
            lane = (y * self._channels + channel) * stride + first
            place = [lane // self._block, row * self.result[3] + x]
            vector = lanes_of(lane % self._block, width)
            with tile_scope():
                store(result, value, [image, *place, vector])

        def load(x: Expr, channel: Expr, width: int) -> Expr:
            if not inside:
                return zeros(width)
            return source[image, channel, row * stride + y, lanes_of(x * stride, width)]

        def square(x: Expr) -> None:
            unroll(
                0,
                self._channels,
                lambda channel: part(x, channel, 0, stride, load(x, channel, stride)),
            )

        def last(channel: Expr) -> None:
            part(full, channel, 0, rest, load(full, channel, rest))
            part(full, channel, rest, stride - rest, zeros(stride - rest))

        if full:
            loop(full, square)
        if rest:
            unroll(0, self._channels, last)
