# SPDX-License-Identifier: Apache-2.0
"""Convolutions of few results, several columns of which lie in one vector.

Results of up to half as many channels as a vector has lanes leave the others idle. Here a vector
holds ``count`` neighbouring columns, each a lane for every channel: those of a convolution of
``count`` times the stride, whose window is longer by the distance of the columns. Taps that a
column does not have are zero. When the sums are complete, each column is moved to the first lanes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm.tirx.script import builder as T

from .....ops.epilogue import Broadcast
from .....ops.tensor import TensorSpec
from .....ops.window import Window
from .....sizes.arithmetic import ceil_div
from ...core import Core
from ...isa.emit import shuffled
from ..kernel import Kernel, phase
from ..layout import Layout
from ..plane import PlaneTiles
from .conv2d import ConvEmitter
from .shape import Conv2d
from .tile import ConvTile

Expr = Any

_WORTH = 1.5  # times fewer multiply-adds: permutations and shorter rows must pay off


@dataclass(frozen=True)
class Packing:
    """How columns are packed.

    Attributes
    ----------
    count : int
        Columns of a vector.
    lanes : int
        Lanes of a column.
    gain : float
        How many times fewer vectors are multiplied.
    """

    count: int
    lanes: int
    gain: float


def packing_of(conv: Conv2d, core: Core) -> Packing | None:
    """Return the packing that multiplies fewest vectors; None if none is worth it."""
    window, channels = conv.columns, conv.out_channels[0]
    single = len(conv.out_channels) == conv.groups == 1 and not conv.is_open
    if not single or window.dilation > 1 or conv.epilogue.counts or 2 * channels > core.lanes:
        return None
    lanes = 1 << (channels - 1).bit_length()
    counts = [1 << power for power in range(1, int(math.log2(core.lanes // lanes)) + 1)]
    counts = [count for count in counts if count <= window.out]
    found = [Packing(count, lanes, _gain(window, count)) for count in counts]
    best = max(found, key=lambda packing: packing.gain, default=None)
    return best if best is not None and best.gain >= _WORTH else None


def _gain(window: Window, count: int) -> float:
    vectors = ceil_div(window.out, count) * _packed_window(window, count).kernel
    return window.out * window.kernel / vectors


def _packed_window(window: Window, count: int) -> Window:
    return replace(
        window,
        out=ceil_div(window.out, count),
        kernel=window.kernel + (count - 1) * window.stride,
        stride=count * window.stride,
    )


def pack_columns(weights: np.ndarray, conv: Conv2d, packing: Packing, lanes: int) -> np.ndarray:
    """Return weights ``[K, C, R, S]`` as those of the convolution of packed columns.

    Parameters
    ----------
    weights : numpy.ndarray
    conv : Conv2d
        The convolution before columns are packed.
    packing : Packing
    lanes : int
        Elements of a vector.
    """
    stride, kernel = conv.columns.stride, conv.columns.kernel
    taps = _packed_window(conv.columns, packing.count).kernel
    packed = np.zeros((lanes, *weights.shape[1:3], taps), weights.dtype)
    for column in range(packing.count):
        first, begin = column * packing.lanes, column * stride
        packed[first : first + len(weights), :, :, begin : begin + kernel] = weights
    return packed


def packed_kernel(conv: Conv2d, packing: Packing, source: Layout, core: Core) -> Kernel:
    """Return the kernel of a convolution, several columns of which lie in a vector.

    Its inputs are those of :func:`.conv2d.conv2d_kernel`, the weights as :func:`pack_columns` and
    then :func:`.layout.pack_weights` leave them.

    Parameters
    ----------
    conv : Conv2d
        The convolution.
    packing : Packing
        What :func:`packing_of` returns.
    source : Layout
        Layout of the feature map.
    core : Core
        The core that runs the kernel.
    """
    emitter = _PackedEmitter(conv, packing, source, core)
    return Kernel(
        name="conv2d_packed",
        key=("conv2d_packed", conv, packing, source, core),
        inputs=emitter.input_specs(),
        outputs=emitter.output_specs(),
        phases=(phase(emitter.num_tiles, emitter.emit, weights=emitter.weights()),),
        plane=emitter.plane(),
        narrows=True,
    )


class _PackedEmitter(ConvEmitter):
    """The code of the convolution of packed columns, whose tensors are those of ``whole``."""

    def __init__(self, conv: Conv2d, packing: Packing, source: Layout, core: Core) -> None:
        self.whole, self.packing = conv, packing
        columns = _packed_window(conv.columns, packing.count)
        packed = replace(conv, columns=columns, out_channels=(core.lanes,))
        super().__init__(packed, source, Layout(core.lanes), core, flat=False)

    @property
    def tile_type(self) -> type[ConvTile]:
        return _PackedTile

    def plane(self) -> PlaneTiles:
        plane, whole = super().plane(), self.whole
        width, count = whole.columns.out, self.packing.count
        if self.segment is not None:
            width = plane.width * count
        return replace(plane, width=width, pixels=whole.rows.out * whole.columns.out)

    def argument_spec(self, kind: Broadcast) -> TensorSpec:
        whole, size = self.whole, (self.whole.rows.out, self.whole.columns.out)
        if kind == "channel":
            return super().argument_spec(kind)
        return self.result.spec((whole.batch, self.lanes, *size))

    def output_specs(self) -> tuple[TensorSpec, ...]:
        whole, size = self.whole, (self.whole.rows.out, self.whole.columns.out)
        return (self.result.spec((whole.batch, whole.out_channels[0], *size)),)


class _PackedTile(ConvTile):
    """A register tile of packed columns."""

    conv: _PackedEmitter

    def _write(self, value: Expr, column: Expr, k: int, result: int, local: Expr) -> None:
        """Write the columns of a vector one after another; the last vector may have fewer."""
        (out, packing), lanes = (self.conv.whole.columns.out, self.conv.packing), self.conv.lanes
        for number in range(packing.count):
            first = number * packing.lanes
            own = [first + lane % packing.lanes for lane in range(lanes)]
            place = column * packing.count + number

            def write(place: Expr = place, own: list[int] = own) -> None:
                self.finish(shuffled([value], own), self.row * out + place, k, result, local)

            if out % packing.count <= number and out % packing.count:
                with T.If(place < out), T.Then():
                    write()
            else:
                write()
