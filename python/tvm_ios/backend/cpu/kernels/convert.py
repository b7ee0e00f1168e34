# SPDX-License-Identifier: Apache-2.0
"""Kernels that convert a tensor from one layout to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm.tirx.script import builder as T

from ....ops.tensor import TensorSpec
from ....ops.tir_function import tile_scope
from ....sizes.size import AnyShape
from ..isa.emit import bind, lanes_of, select
from ..isa.functions import keep, transposed
from ..isa.storage import store
from .compose import with_shapes
from .kernel import Kernel, Phase, phase
from .layout import Layout, blocks

Expr = Any
Move = Callable[[Sequence[Any], Expr, Expr, Expr, int], None]
"""``move(tensors, image, block, pixel, channels)`` moves some pixels from one layout to another."""

_SQUARES = 4  # of a tile


def block_kernel(shape: AnyShape, layout: Layout, dtype: str = "float32") -> Kernel:
    """Return the kernel that converts row-major ``[N, C, H, W]`` to the blocked ``layout``."""

    def square(tensors: Sequence[Any], image: Expr, i: Expr, pixel: Expr, channels: int) -> None:
        source, result = tensors
        block, at = layout.block, lanes_of(pixel, layout.block)
        rows = [keep(source[image, i * block + lane, at]) for lane in range(channels)]
        rows += [rows[0]] * (block - channels)  # nobody reads what lies behind the last channel
        for x, value in enumerate(transposed(rows)):
            store(result, value, [image, i, pixel + x, lanes_of(0, block)])

    def single(tensors: Sequence[Any], image: Expr, i: Expr, pixel: Expr, channels: int) -> None:
        source, result = tensors
        with T.serial(channels) as lane:
            value = source[image, i * layout.block + lane, pixel]
            store(result, value, [image, i, pixel, lane])

    n, c, h, w = shape
    kernel = Kernel(
        name="to_blocked",
        key=("to_blocked", shape, layout, dtype),
        inputs=(TensorSpec((n, c, h * w), dtype),),
        outputs=(layout.spec(shape, dtype),),
        phases=(_in_strips(shape, layout, square, single),),
        narrows=True,
    )
    return with_shapes(kernel, [shape], [layout.spec(shape).shape])


def unblock_kernel(shape: AnyShape, layout: Layout, dtype: str = "float32") -> Kernel:
    """Return the kernel that converts the blocked ``layout`` to row-major ``[N, C, H, W]``."""

    def square(tensors: Sequence[Any], image: Expr, i: Expr, pixel: Expr, channels: int) -> None:
        source, result = tensors
        block, at = layout.block, lanes_of(pixel, layout.block)
        rows = [keep(source[image, i, pixel + x, lanes_of(0, block)]) for x in range(block)]
        for lane, value in enumerate(transposed(rows)[:channels]):
            store(result, value, [image, i * block + lane, at])

    def single(tensors: Sequence[Any], image: Expr, i: Expr, pixel: Expr, channels: int) -> None:
        source, result = tensors
        with T.serial(channels) as lane:
            value = source[image, i, pixel, lane]
            store(result, value, [image, i * layout.block + lane, pixel])

    n, c, h, w = shape
    kernel = Kernel(
        name="to_plain",
        key=("to_plain", shape, layout, dtype),
        inputs=(layout.spec(shape, dtype),),
        outputs=(TensorSpec((n, c, h * w), dtype),),
        phases=(_in_strips(shape, layout, square, single),),
        narrows=True,
    )
    return with_shapes(kernel, [layout.spec(shape).shape], [shape])


def _in_strips(shape: AnyShape, layout: Layout, square: Move, single: Move) -> Phase:
    """Return the phase that moves all pixels; a tile is some pixels of one block of channels.

    Parameters
    ----------
    shape : tuple of sizes
        ``[N, C, H, W]``.
    layout : Layout
    square : Move
        Moves as many pixels as a block has channels.
    single : Move
        Moves one pixel.
    """
    n, c, h, w = shape
    count, block = blocks(c, layout.block), layout.block
    full, rest = divmod(h * w, block)
    strips = blocks(h * w, _SQUARES * block)

    def strip(tensors: Sequence[Any], image: Expr, i: Expr, number: Expr, channels: int) -> None:
        if full:
            first = number * _SQUARES
            with T.serial(T.min(_SQUARES, full - first)) as k, tile_scope():
                square(tensors, image, i, bind((first + k) * block), channels)
        if rest:
            with T.If(number > strips - 2), T.Then(), T.serial(rest) as x:
                single(tensors, image, i, full * block + x, channels)

    def emit(tensors: Sequence[Any], begin: Expr, extent: Expr) -> None:
        with T.serial(begin, begin + extent) as t:
            number, i = bind(t % strips), bind(t // strips % count)
            image = bind(t // (strips * count))
            whole, last = divmod(c, block)
            select(
                i,
                [
                    (whole, lambda _: strip(tensors, image, i, number, block)),
                    (1 if last else 0, lambda _: strip(tensors, image, i, number, last)),
                ],
            )

    return phase(n * count * strips, emit)


def pack_weights_kernel(shape: tuple[int, ...], in_block: int, out_block: int) -> Kernel:
    """Return the kernel that packs weights ``[K, C, R, S]`` known only at run time.

    It is the run-time counterpart of :func:`.layout.pack_weights`. A tile is one output channel.
    Lanes beyond the last channel are not written.

    Parameters
    ----------
    shape : tuple of int
        ``(K, C, R, S)``.
    in_block, out_block : int
        Channels of the input and of the output that lie together.

    Returns
    -------
    Kernel
        A kernel of one phase.
    """
    k, c, r, s = shape
    packed = (blocks(k, out_block), blocks(c, in_block), r, in_block, s, out_block)

    def emit(buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        source, result = buffers
        with (
            T.serial(begin, begin + extent) as o,
            T.serial(c) as i,
            T.serial(r) as y,
            T.serial(s) as x,
        ):
            target = [o // out_block, i // in_block, y, i % in_block, x, o % out_block]
            T.buffer_store(result, source[o, i, y, x], target)

    return Kernel(
        name="pack_weights",
        key=("pack_weights", shape, in_block, out_block),
        inputs=(TensorSpec(shape),),
        outputs=(TensorSpec(packed),),
        phases=(Phase(k, emit),),
    )
