# SPDX-License-Identifier: Apache-2.0
"""Kernels that convert a tensor from one layout to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.tirx.script import builder as T

from ....ops.size import AnySize
from ....ops.tensor import TensorSpec
from ..isa.storage import store
from .kernel import Kernel, Phase, phase
from .layout import Layout, blocks

Expr = Any


def block_kernel(shape: tuple[AnySize, ...], layout: Layout) -> Kernel:
    """Return the kernel that converts row-major ``[N, C, H, W]`` to the blocked ``layout``.

    A tile is one block of one row.
    """
    n, c, h, w = shape
    count, block = blocks(c, layout.block), layout.block

    def emit(buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        source, result = buffers
        with T.serial(begin, begin + extent) as t:
            row, i, image = t % h, (t // h) % count, t // (h * count)
            lanes = T.min(block, c - i * block)
            with T.serial(w) as x, T.serial(lanes) as lane:
                value = source[image, i * block + lane, row, x]
                store(result, value, [image, i, row * w + x, lane])

    return Kernel(
        name="to_blocked",
        key=("to_blocked", shape, layout),
        inputs=(TensorSpec(shape),),
        outputs=(layout.spec(shape),),
        phases=(phase(n * count * h, emit),),
        narrows=True,
    )


def unblock_kernel(shape: tuple[AnySize, ...], layout: Layout) -> Kernel:
    """Return the kernel that converts the blocked ``layout`` to row-major ``[N, C, H, W]``.

    A tile is one channel of one row.
    """
    n, c, h, w = shape
    block = layout.block

    def emit(buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        source, result = buffers
        with T.serial(begin, begin + extent) as t:
            row, channel, image = t % h, (t // h) % c, t // (h * c)
            with T.serial(w) as x:
                value = source[image, channel // block, row * w + x, channel % block]
                store(result, value, [image, channel, row, x])

    return Kernel(
        name="to_plain",
        key=("to_plain", shape, layout),
        inputs=(layout.spec(shape),),
        outputs=(TensorSpec(shape),),
        phases=(phase(n * c * h, emit),),
        narrows=True,
    )


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
