# SPDX-License-Identifier: Apache-2.0
"""The channels of blocked feature maps in another order: ranges, concatenations, shuffles.

A vector of the result takes its lanes from one or several vectors of the same pixel. Vectors that
do so in the same way are computed by the same code, for which their blocks are divided into runs.
In the concatenation of two maps, for example, all blocks of the second are shifted alike; in a
channel shuffle of two groups, every second block takes the lower halves of two vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm.tirx.script import builder as T

from .....ops.tensor import TensorSpec
from ...core import Core
from ...isa.emit import Accumulators, lanes_of, select, shuffled, zeros
from ..kernel import Kernel, phase
from ..layout import Layout, blocks
from ..taps import ColumnTile
from .planes import Planes, PlanesEmitter

Expr = Any

Channel = tuple[int, int]
"""(operand, channel of the operand)."""

_LONGEST_PERIOD = 8  # blocks after which the code of a run repeats


def channels_kernel(
    planes: Planes,
    operands: Sequence[int],
    channels: Sequence[Channel],
    layout: Layout,
    core: Core,
) -> Kernel:
    """Return the kernel of channels in any order, followed by an epilogue.

    The kernel's inputs are the feature maps and the epilogue's arguments.

    Parameters
    ----------
    planes : Planes
        The result and the epilogue; its windows are single pixels.
    operands : sequence of int
        Channels of each feature map.
    channels : sequence of Channel
        Where each channel of the result is found.
    layout : Layout
        Layout of all feature maps, blocked by ``core.lanes``.
    core : Core
        The core that runs the kernel.

    Returns
    -------
    Kernel
        A kernel of one phase with one output.
    """
    emitter = _ChannelsEmitter(planes, operands, channels, layout, core)
    return Kernel(
        name="channels",
        key=("channels", planes, tuple(operands), tuple(channels), layout, core),
        inputs=emitter.input_specs(),
        outputs=(emitter.plane(planes.rows.out, planes.columns.out),),
        phases=(phase(emitter.num_tiles, emitter.emit),),
        plane=emitter.plane_tiles(),
        order=emitter.order,
        narrows=True,
    )


@dataclass(frozen=True)
class Run:
    """Consecutive blocks of the result.

    Attributes
    ----------
    count : int
        The number of blocks.
    lanes : tuple of tuple of Channel
        Where the lanes of the first blocks are found, after which the code repeats.
    step : int
        By how many blocks a repetition reads behind the one before it.
    """

    count: int
    lanes: tuple[tuple[Channel, ...], ...]
    step: int

    @property
    def repetitions(self) -> int:
        return self.count // len(self.lanes)


def runs_of(channels: Sequence[Channel], lanes: int) -> list[Run]:
    """Divide the blocks of a result into runs, the longest first.

    Parameters
    ----------
    channels : sequence of Channel
        Where each channel of the result is found.
    lanes : int
        Channels of a block.
    """
    rest = [tuple(channels[i : i + lanes]) for i in range(0, len(channels), lanes)]
    runs = []
    while rest:
        periods = range(1, min(len(rest), _LONGEST_PERIOD) + 1)
        candidates = [_run(rest, period, lanes) for period in periods]
        runs.append(max(candidates, key=_worth))
        rest = rest[runs[-1].count :]
    return runs


def _worth(run: Run) -> tuple[int, int]:
    """Order runs by how often their code is used; without repetition, one block is enough."""
    return run.repetitions, run.count if run.repetitions > 1 else -run.count


def _run(found: Sequence[tuple[Channel, ...]], period: int, lanes: int) -> Run:
    """Return the longest run of the given period from the first block on."""
    count, step = period, 0
    for i in range(period, len(found)):
        distance = _distance(found[i - period], found[i], lanes)
        if distance is None or (count > period and distance != step):
            break
        count, step = i + 1, distance
    return Run(count, tuple(found[:period]), step)


def _distance(one: Sequence[Channel], other: Sequence[Channel], lanes: int) -> int | None:
    """Return by how many blocks ``other`` lies behind ``one``; None if it is no whole number."""
    pairs = list(zip(one, other, strict=False))  # the last block may have fewer channels
    distances = {there[1] - here[1] for here, there in pairs}
    same = all(here[0] == there[0] for here, there in pairs)
    if not same or len(distances) != 1:
        return None
    blocks_apart, rest = divmod(distances.pop(), lanes)
    return None if rest else blocks_apart


class _ChannelsEmitter(PlanesEmitter):
    channelwise = False

    def __init__(
        self,
        planes: Planes,
        operands: Sequence[int],
        channels: Sequence[Channel],
        layout: Layout,
        core: Core,
    ) -> None:
        super().__init__(planes, layout, core)
        self.runs = runs_of(channels, core.lanes)
        self.source_blocks = [blocks(count, core.lanes) for count in operands]
        size = (planes.rows.size, planes.columns.size)
        self.sources = [layout.spec((planes.batch, count, *size)) for count in operands]

    def input_specs(self) -> tuple[TensorSpec, ...]:
        return (*self.sources, *self.argument_specs())

    def window_reduce(
        self,
        buffers: Sequence[Any],
        image: Expr,
        block: Expr,
        row: Expr,
        first: Expr,
        tile: ColumnTile,
    ) -> list[Expr]:
        values = Accumulators(tile.width, self.lanes, zeros(self.lanes))
        begin = row * self.planes.columns.size + first

        def load(operand: int, index: Expr, column: int) -> Expr:
            return buffers[operand][image, index, begin + column, lanes_of(0, self.lanes)]

        def part(run: Run, lanes: tuple[Channel, ...], repetition: Expr, _: Expr) -> None:
            vectors = sorted({(operand, c // self.lanes) for operand, c in lanes})
            for column in range(tile.width):
                read = [load(o, self._index(run, o, b, repetition), column) for o, b in vectors]
                values[column] = self._combined(read, lanes, vectors)

        def blocks_of(run: Run, index: Expr) -> None:
            period = len(run.lanes)
            select(
                index % period,
                [(1, partial(part, run, lanes, index // period)) for lanes in run.lanes],
            )

        select(block, [(run.count, partial(blocks_of, run)) for run in self.runs])
        return [values[column] for column in range(tile.width)]

    def _index(self, run: Run, operand: int, block: int, repetition: Expr) -> Expr:
        """Return the block of an operand that a repetition reads in place of ``block``."""
        index = block + run.step * repetition if run.step else block
        last = self.source_blocks[operand] - 1
        farthest = block + run.step * ((run.count - 1) // len(run.lanes))
        # Lanes behind the last channel, which nobody reads, may have no block.
        return T.min(index, last) if farthest > last else index

    def _combined(
        self, read: list[Expr], lanes: tuple[Channel, ...], vectors: list[Channel]
    ) -> Expr:
        """Return the vector whose lanes are found in ``vectors``, which were read."""
        places = [vectors.index((operand, c // self.lanes)) for operand, c in lanes]
        elements = [c % self.lanes for _, c in lanes]
        missing = self.lanes - len(lanes)  # of the last block, which nobody reads
        places, elements = places + [0] * missing, elements + [0] * missing
        result = shuffled(read[:1], elements) if len(read) == 1 else read[0]
        for number in range(1, len(read)):
            kept = elements if number == 1 else range(self.lanes)
            mixed = [
                self.lanes + element if place == number else old
                for place, element, old in zip(places, elements, kept, strict=True)
            ]
            result = shuffled([result, read[number]], mixed)
        return result
