# SPDX-License-Identifier: Apache-2.0
"""Convolutions of narrow groups, several of which lie in one vector of channels.

Each lane of a vector of output channels reads the channels of its own group. The vectors that hold
these are loaded as they lie in memory, and permuted: for one input channel of every group, each
lane gets the value of its group. A permuted input is multiplied by the weights of every tap through
which some column reads it, as in a depthwise convolution, which is the case of one channel.

Where the core permutes by an index in a register, the channels of a group are a loop. Elsewhere,
and where a permutation takes its values from more vectors than the core allows, they are unrolled
with constant permutations.

Permutations share a port with multiply-adds on Intel's cores with 512-bit vectors. There, a row of
three taps reaches at most three quarters of the peak.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from tvm.tirx.script import builder as T

from .....ops.tensor import TensorSpec
from ...core import Core
from ...isa.emit import Accumulators, bind, lanes_of, loop, select, shuffled, splat, zeros
from ..kernel import Kernel, phase
from ..layout import Layout, blocks
from ..maps.planes import Planes, PlanesEmitter
from ..open_row import guarded_places
from ..taps import ColumnTile, add_taps, each_group, rows_inside

Expr = Any

_PERMUTE = {
    16: ("llvm.x86.avx512.permvar.sf.512", "llvm.x86.avx512.vpermi2var.ps.512"),
    8: ("llvm.x86.avx2.permps",),
}
"""By the lanes of a vector, the permutations of one and of two vectors by an index."""

_Vector = Callable[[Expr, Expr], Expr]
"""Returns a vector of the input, by its block of channels and its distance."""

_Add = Callable[..., None]
"""``add(channel, load=load)`` adds an input channel of every group."""

_EachChannel = Callable[[_Vector, _Add], None]
"""Emits all input channels of a group."""

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
        if self.sources(lanes) <= len(_PERMUTE.get(lanes, ())):
            return True
        size = self.period(lanes) * self.inputs * taps
        return size <= _MOST_CODE and self.sources(lanes) <= _SOURCES

    @functools.cache  # noqa: B019 - of few groups
    def sources(self, lanes: int) -> int:
        """Return how many blocks of input channels a vector takes its values from, at most."""
        return max(
            len(self.source(block, channel, lanes)[0])
            for block in range(self.period(lanes))
            for channel in range(self.inputs)
        )


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
        phases=(phase(emitter.num_tiles, emitter.emit),),
        plane=emitter.plane_tiles(),
        order=emitter.order,
        narrows=True,
    )


@dataclass(frozen=True)
class _Block:
    """A block of output channels: block ``number`` of a period.

    ``period`` is the first block of input channels that its period reads.
    """

    period: Expr
    number: Expr


class _GroupedEmitter(PlanesEmitter):
    channelwise = False

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

    def window_reduce(
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
        own = _Block(
            bind(block // self.period * self.groups.blocks_read(self.lanes)),
            bind(block % self.period) if self.period > 1 else 0,
        )
        permutation = self._permutation(own)
        sums = Accumulators(tile.width, self.lanes, zeros(self.lanes))

        def add_row(row_tap: Expr, source_row: Expr) -> None:
            line = bind(source_row * p.columns.size + (0 if tile.guarded else begin))

            def group(taps: range, left: Expr) -> None:
                def add(channel: Expr, load: Callable[[Expr], Expr]) -> None:
                    weights = [buffers[1], block, channel, row_tap, left]
                    add_taps(p.columns, tile, taps, [sums], load, partial(self._weight, *weights))

                start = (begin if tile.guarded else 0) + left * p.columns.dilation
                read = partial(self._vector, buffers[0], image, line, start, tile.guarded)
                permutation(read, add)

            each_group(self.core, p.columns, tile, group)

        rows_inside(p.rows, row, add_row)
        return [sums[column] for column in range(tile.width)]

    def _weight(
        self,
        weights: Any,
        block: Expr,
        channel: Expr,
        row_tap: Expr,
        left: Expr,
        _sums: int,
        tap: int,
    ) -> Expr:
        return weights[block, channel, row_tap, left + tap, lanes_of(0, self.lanes)]

    def _vector(
        self,
        source: Any,
        image: Expr,
        line: Expr,
        begin: Expr,
        guarded: bool,
        index: Expr,
        distance: Expr,
    ) -> Expr:
        """Return a pixel of block ``index`` of the input.

        It lies behind pixel ``line``, the begin of a row if its column must be tested.
        """
        if self.source_blocks % self.groups.blocks_read(self.lanes):
            # The last period may end early, where lanes that nobody reads have no group.
            index = T.min(index, self.source_blocks - 1)
        vector = lanes_of(0, self.lanes)
        if not guarded:
            return source[image, index, line + begin + distance, vector]
        inside, column = guarded_places(self.planes.columns, begin, distance)
        return T.Select(inside, source[image, index, line + column, vector], zeros(self.lanes))

    def _permutation(self, block: _Block) -> _EachChannel:
        """Return what loads each input channel of the groups of a block."""
        if self.lanes in _PERMUTE and self.groups.sources(self.lanes) <= len(_PERMUTE[self.lanes]):
            return partial(self._by_index, block, self._positions(block))
        return partial(self._by_pattern, block)

    def _positions(self, block: _Block) -> Expr:
        """Return where each lane's group begins in the period's input channels, int32."""
        channel = splat(block.number * self.lanes, self.lanes) + T.Ramp(0, 1, self.lanes)
        groups = self.groups
        return T.Bind(
            channel
            // splat(T.int32(groups.outputs), self.lanes)
            * splat(T.int32(groups.inputs), self.lanes)
        )

    def _by_index(self, block: _Block, positions: Expr, vector: _Vector, add: _Add) -> None:
        """Emit a loop over the channels of a group, which permutes by an index in a register."""
        lanes, groups = self.lanes, self.groups
        begin, end = (
            (block.number * lanes + lane) // groups.outputs * groups.inputs
            for lane in (0, lanes - 1)
        )

        def channel(c: Expr) -> None:
            position = positions + splat(c, lanes)
            if groups.sources(lanes) == 1:  # the core reads the index within a vector
                sources, index = [bind((begin + c) // lanes)], T.Bind(position)
            else:
                sources = [bind((begin + c) // lanes), bind((end + c) // lanes)]
                second = T.min(position // lanes - splat(sources[0], lanes), splat(1, lanes))
                index = T.Bind(second * lanes + position % lanes)

            def load(distance: Expr) -> Expr:
                read = [vector(block.period + source, distance) for source in sources]
                return _permuted(read, index, lanes)

            add(c, load=load)

        loop(groups.inputs, channel)

    def _by_pattern(self, block: _Block, vector: _Vector, add: _Add) -> None:
        """Emit each channel of a group with constant permutations, for each block of a period."""

        def pattern(number: int, _: Expr) -> None:
            for c in range(self.groups.inputs):
                sources, elements = self.groups.source(number, c, self.lanes)

                def load(
                    distance: Expr, sources: list[int] = sources, elements: list[int] = elements
                ) -> Expr:
                    read = [vector(block.period + s, distance) for s in sources]
                    return shuffled(read, elements)

                add(c, load=load)

        select(block.number, [(1, partial(pattern, n)) for n in range(self.period)])


def _permuted(vectors: Sequence[Expr], index: Expr, lanes: int) -> Expr:
    """Return the elements of one or two vectors that ``index`` names."""
    name = _PERMUTE[lanes][len(vectors) - 1]
    arguments = [*vectors, index] if len(vectors) == 1 else [vectors[0], index, vectors[1]]
    return T.call_llvm_pure_intrin(f"float32x{lanes}", name, *arguments)
