# SPDX-License-Identifier: Apache-2.0
"""Images of few channels as bfloat16, whose channels are multiplied in pairs.

An image has three channels, mostly. Blocks as wide as a vector would be empty but for these, so
that an image is blocked by four channels. Those that it does not have are zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from tvm.tirx.script import builder as T

from .....ops.tensor import TensorSpec
from .....ops.tir_function import tile_scope
from .....sizes.size import AnyShape
from ...core import Core
from ...isa.bfloat16 import STORED, as_dot2, bits_of, joined, round_source
from ...isa.dot4 import DOT4, as_dot4
from ...isa.emit import along, lanes_of, one_by_one, shuffled, splat
from ...isa.int8 import STORED as BYTES
from ..kernel import Kernel, phase
from ..layout import Layout

Expr = Any

IMAGE = Layout(4)
"""The layout of images of up to four channels."""


def image_kernel(shape: AnyShape, core: Core) -> Kernel:
    """Return the kernel that rounds a row-major image to blocks of four channels.

    A tile is a row of pixels.

    Parameters
    ----------
    shape : tuple of int or Size
        ``[N, C, H, W]``, of at most four channels.
    core : Core
        The core that runs the kernel.

    Returns
    -------
    Kernel
        A kernel of one phase.
    """
    n, c, h, w = shape
    assert c <= IMAGE.block, "the channels fit into a block"

    def emit(buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        source, result = buffers[0], as_dot2(buffers[1], (2 * n * h * w,))
        with T.serial(begin, begin + extent) as t:
            image, row = t // h, t % h

            def part(at: Expr, width: int) -> None:
                def bits(channel: int) -> Expr:
                    value = source[image, channel, row, lanes_of(at, width)]
                    return bits_of(value, core.bf16_dot2_lanes)

                def pair(first: int) -> Expr:
                    present = [bits(channel) for channel in range(first, min(first + 2, c))]
                    return joined(*present) if present else splat(T.int32(0), width)

                with tile_scope():
                    pairs = [pair(0), pair(2)]
                    place = 2 * (t * w + at)
                    order = [half * width + i for i in range(width) for half in range(2)]
                    for half in range(2):
                        elements = order[half * width : (half + 1) * width]
                        vector = shuffled(pairs, elements)
                        T.buffer_store(result, vector, [lanes_of(place + half * width, width)])

            along(w, core.lanes, one_by_one(part))

    return Kernel(
        name="image",
        key=("image", shape, core),
        inputs=(TensorSpec(shape),),
        outputs=(IMAGE.spec(shape, STORED),),
        phases=(phase(n * h, emit, sources=round_source(core.bf16_dot2_lanes)),),
        narrows=True,
    )


def byte_image_kernel(shape: AnyShape, core: Core) -> Kernel:
    """Return the kernel that brings a row-major image of bytes into blocks of four channels.

    Channels that it does not have become zero. A tile is a row of pixels.

    Parameters
    ----------
    shape : tuple of int or Size
        ``[N, C, H, W]``, of at most four channels.
    core : Core
        The core that runs the kernel.
    """
    n, c, h, w = shape
    assert c <= IMAGE.block, "the channels fit into a block"

    def emit(buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        source, result = buffers[0], as_dot4(buffers[1], (n * h * w,))
        with T.serial(begin, begin + extent) as t:
            image, row = t // h, t % h

            def part(at: Expr, width: int) -> None:
                def byte(channel: int) -> Expr:
                    value = source[image, channel, row, lanes_of(at, width)]
                    wide = T.cast(value, DOT4 if width == 1 else f"{DOT4}x{width}")
                    return T.shift_left(wide, splat(T.int32(8 * channel), width))

                dot4 = reduce(T.bitwise_or, map(byte, range(c)))
                T.buffer_store(result, dot4, [lanes_of(t * w + at, width)])

            along(w, core.lanes, one_by_one(part))

    return Kernel(
        name="image",
        key=("byte_image", shape, core),
        inputs=(TensorSpec(shape, BYTES),),
        outputs=(IMAGE.spec(shape, BYTES),),
        phases=(phase(n * h, emit),),
    )
