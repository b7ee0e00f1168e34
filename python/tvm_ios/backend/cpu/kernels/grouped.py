# SPDX-License-Identifier: Apache-2.0
"""Convolutions of narrow groups, several of which lie in one vector of channels.

Each lane of a vector of output channels reads the channels of its own group. The vectors that hold
these are loaded as they lie in memory, and permuted: for one input channel of every group, each
lane gets the value of its group. A permuted input is multiplied by the weights of every tap through
which some column reads it, as in a depthwise convolution, which is the case of one channel.

Permutations share a port with multiply-adds on Intel's cores with 512-bit vectors. There, a row of
three taps reaches at most three quarters of the peak.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T

from ....target import Core
from ....tir.emit import Accumulators, bind, lanes_of, select, zeros
from ....tir.tensor import TensorSpec
from .kernel import Kernel, Phase
from .layout import Layout, blocks
from .planes import Planes, PlanesEmitter
from .taps import ColumnTile, add_taps, rows_inside, tap_groups

Expr = Any

_SOURCES = 3  # blocks of channels that one permutation takes its values from
_MOST_CODE = 128  # permuted inputs times taps, for all patterns together


@dataclass(frozen=True)
class Groups:
    """The groups of a convolution.

    Attributes
    ----------
    inputs, outputs : int
        Channels of one group.
    """

    inputs: int
    outputs: int

    def period(self, lanes: int) -> int:
        """Return after how many blocks of output channels the patterns repeat."""
        whole = math.lcm(self.outputs, lanes)  # channels: whole groups and whole blocks
        read = whole // self.outputs * self.inputs
        return whole // lanes * (math.lcm(read, lanes) // read)

    def blocks_read(self, lanes: int) -> int:
        """Return how many blocks of input channels the blocks of a period read."""
        return self.period(lanes) * lanes // self.outputs * self.inputs // lanes

    def source(self, block: int, channel: int, lanes: int) -> tuple[list[int], list[int]]:
        """Return where the lanes of a block find an input channel of their groups.

        Parameters
        ----------
        block : int
            The block of output channels, within its period.
        channel : int
            The channel within a group.
        lanes : int
            Channels of a block.

        Returns
        -------
        (list of int, list of int)
            The blocks of input channels that are read, relative to the period's first one; and for
            each lane its element in these blocks, one after another.
        """
        groups = [(block * lanes + lane) // self.outputs for lane in range(lanes)]
        read = [group * self.inputs + channel for group in groups]
        sources = sorted({position // lanes for position in read})
        elements = [sources.index(p // lanes) * lanes + p % lanes for p in read]
        return sources, elements

    def computable(self, lanes: int, taps: int) -> bool:
        """Return whether a kernel of reasonable size computes the convolution.

        Parameters
        ----------
        lanes : int
            Channels of a block.
        taps : int
            Taps of a row.
        """
        period = self.period(lanes)
        if period * self.inputs * taps > _MOST_CODE:
            return False
        patterns = (self.source(b, c, lanes) for b in range(period) for c in range(self.inputs))
        return all(len(sources) <= _SOURCES for sources, _ in patterns)


def pack_grouped(weights: np.ndarray, lanes: int) -> np.ndarray:
    """Pack weights ``[K, C / groups, R, S]`` as ``[ceil(K / b), C / groups, R, S, b]``."""
    k, c, r, s = weights.shape
    padded = np.zeros((blocks(k, lanes) * lanes, c, r, s), weights.dtype)
    padded[:k] = weights
    return np.ascontiguousarray(padded.reshape(-1, lanes, c, r, s).transpose(0, 2, 3, 4, 1))


def grouped_kernel(
    planes: Planes, groups: Groups, channels: int, layout: Layout, core: Core
) -> Kernel:
    """Return the kernel of a convolution of narrow groups on blocked feature maps.

    The kernel's inputs are the feature map, the weights as :func:`pack_grouped` leaves them, and
    the epilogue's arguments.

    Parameters
    ----------
    planes : Planes
        The windows and the epilogue; its channels are those of the result.
    groups : Groups
        What :meth:`Groups.computable` accepts.
    channels : int
        Channels of the feature map.
    layout : Layout
        Layout of all feature maps, blocked by ``core.lanes``.
    core : Core
        The core that runs the kernel.

    Returns
    -------
    Kernel
        A kernel of one phase with one output.
    """
    emitter = _GroupedEmitter(planes, groups, channels, layout, core)
    return Kernel(
        name="grouped",
        key=("grouped", planes, groups, channels, layout, core),
        inputs=emitter.input_specs(),
        outputs=(emitter.plane(planes.rows.out, planes.columns.out),),
        phases=(Phase(emitter.tiles, emitter.emit),),
        plane=emitter.plane_tiles(),
    )


class _GroupedEmitter(PlanesEmitter):
    def __init__(
        self, planes: Planes, groups: Groups, channels: int, layout: Layout, core: Core
    ) -> None:
        super().__init__(planes, layout, core)
        self.groups, self.period = groups, groups.period(core.lanes)
        self.source_blocks = blocks(channels, core.lanes)
        self.source = layout.spec((planes.batch, channels, planes.rows.size, planes.columns.size))

    def input_specs(self) -> tuple[TensorSpec, ...]:
        p = self.planes
        taps = (p.rows.kernel, p.columns.kernel)
        weights = TensorSpec((self.blocks, self.groups.inputs, *taps, self.lanes))
        return (self.source, weights, *self.argument_specs())

    def gather(
        self,
        buffers: Sequence[Any],
        image: Expr,
        block: Expr,
        row: Expr,
        first: Expr,
        tile: ColumnTile,
    ) -> list[Expr]:
        p = self.planes
        begin = bind(p.columns.position(first, 0))
        period = bind(block // self.period * self.groups.blocks_read(self.lanes))
        number = bind(block % self.period) if self.period > 1 else 0
        sums = Accumulators(tile.width, self.lanes, zeros(self.lanes))

        def add(n: int, taps: range, row_tap: Expr, source_row: Expr) -> None:
            pixel = source_row * p.columns.size + begin
            for channel in range(self.groups.inputs):
                add_taps(
                    p.columns,
                    tile,
                    taps,
                    [sums],
                    self._load(buffers[0], image, period, n, channel, pixel),
                    partial(self._weight, buffers[1], block, channel, row_tap),
                )

        def add_row(row_tap: Expr, source_row: Expr) -> None:
            for taps in tap_groups(self.core, p.columns):
                patterns = [
                    (1, lambda _, n=n, taps=taps: add(n, taps, row_tap, source_row))
                    for n in range(self.period)
                ]
                select(number, patterns)

        rows_inside(p.rows, row, add_row)
        return [sums[column] for column in range(tile.width)]

    def _weight(
        self, weights: Any, block: Expr, channel: int, row_tap: Expr, _sums: int, tap: int
    ) -> Expr:
        return weights[block, channel, row_tap, tap, lanes_of(0, self.lanes)]

    def _load(
        self, source: Any, image: Expr, period: Expr, number: int, channel: int, pixel: Expr
    ) -> Callable[[Expr], Expr]:
        """Return what loads an input channel of every group of a block, by its distance."""
        sources, elements = self.groups.source(number, channel, self.lanes)
        vector = lanes_of(0, self.lanes)
        whole = self.source_blocks % self.groups.blocks_read(self.lanes) == 0

        def at(index: Expr) -> Expr:
            # A last period may end early, where lanes that nobody reads have no group.
            return index if whole else T.min(index, self.source_blocks - 1)

        def load(distance: Expr) -> Expr:
            vectors = [source[image, at(period + s), pixel + distance, vector] for s in sources]
            if self.lanes == 1 or (len(sources) == 1 and elements == list(range(self.lanes))):
                return vectors[0]
            return tirx.Shuffle(vectors, [tirx.IntImm("int32", e) for e in elements])

        return load
