# SPDX-License-Identifier: Apache-2.0
"""The code of a thread block for a matrix product, independent of how its threads multiply.

The block moves both operands into shared memory, slice by slice of the depth. It multiplies one
slice while the next is in flight (``staging``), or the next few if it is a pipeline
(``asynchronous``). Several teams of threads split the depth: each has slices of its own, and their
sums are added at the end. In a sum of products, the slices of the second product follow those of
the first and are added to the same registers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any

from tvm.tirx.script import builder as T

from .asynchronous import AsynchronousStage, await_copies, commit_copies, copyable
from .contiguity import substitute
from .emit import barrier, every, registers, shared, when
from .epilogue_store import Writer
from .match_gemm import Axes, GemmMatch, Operand
from .staging import Layout, RegisterStage, Slice, Source, Stage, share_registers
from .tile import Tile

Expr = Any


class GemmBlock(ABC):
    """The code of one thread block.

    Parameters
    ----------
    match : GemmMatch
        The product.
    tile : Tile
        Its partition.
    buffers : dict
        The kernel's tensors, by those of the form.
    thread : Expr
        Index of the thread in the block.

    Attributes
    ----------
    member : Expr
        Index of the thread in its team.
    sums : buffer
        A thread's part of the result, in registers.
    """

    rounded: Callable[[Expr], Expr] | None = None
    """Rounds the operands' elements before they are multiplied."""

    def __init__(self, match: GemmMatch, tile: Tile, buffers: dict[Any, Any], thread: Expr) -> None:
        self.match, self.tile, self.buffers = match, tile, buffers
        self.members = tile.threads // tile.teams
        self.team, self.member = thread // self.members, thread % self.members
        self.count = tile.rows * tile.columns // self.members
        self.sums = registers(self.count)

    @abstractmethod
    def layouts(self) -> tuple[Layout, Layout]:
        """Return the shared-memory layouts of the left and of the right operand's slices."""

    @abstractmethod
    def multiply(self, left: Slice, right: Slice) -> None:
        """Emit the product of two slices, added to the sums."""

    @abstractmethod
    def finish(self, writer: Writer, row: Expr, column: Expr) -> None:
        """Emit the stores of the sums of a block's part that begins at (row, column).

        Parameters
        ----------
        writer : Writer
            Writes sums to the result.
        row, column : Expr
            Where the block's part begins in the result.
        """

    def emit(self, block: Expr) -> None:
        """Emit the code of block number ``block``."""
        match, tile = self.match, self.tile
        wide = -(-match.columns.extent // tile.columns)
        tall = -(-match.rows.extent // tile.rows)
        row, column = block // wide % tall * tile.rows, block % wide * tile.columns
        batch = match.batch.split(block // (wide * tall))
        left_layout, right_layout = self.layouts()
        operands = [(product.left, product.depth) for product in match.products]
        left = self._side(operands, match.rows, left_layout, row, batch)
        operands = [(product.right, product.depth) for product in match.products]
        right = self._side(operands, match.columns, right_layout, column, batch)
        with T.unroll(self.count) as i:
            T.buffer_store(self.sums, T.float32(0), [i])
        products = list(zip(left, right, strict=True))
        if tile.slots == 1:
            self._alternate([(_registers(left), _registers(right)) for left, right in products])
        else:
            assert len(products) == 1, "a sum of products is not pipelined"
            self._pipeline(*products[0])
        self._add_teams()
        with when(self.team == 0 if tile.teams > 1 else None):
            self.finish(Writer(match, self.buffers, batch), row, column)

    def _side(
        self,
        operands: Iterable[tuple[Operand, Axes]],
        outer: Axes,
        layout: Layout,
        row: Expr,
        batch: dict[Any, Expr],
    ) -> list[Stage]:
        """Return the stages of one side of every product, through the same registers and slots."""
        tile = self.tile
        slots = shared(tile.slots * tile.teams * layout.size, layout.dtype, tile.dynamic)
        stages = []
        for operand, depth in operands:
            source = Source(
                operand=operand,
                outer=outer,
                depth=depth,
                row=row,
                first=lambda number: (number * tile.teams + self.team) * tile.depth,
                count=self._steps(depth),
                even=depth.extent % (tile.depth * tile.teams) == 0,
                element=lambda value, at: substitute(value, batch | at | self.buffers),
            )
            stages.append(self._stage(source, layout, slots))
        share_registers([stage for stage in stages if isinstance(stage, RegisterStage)])
        return stages

    def _stage(self, source: Source, layout: Layout, slots: Any) -> Stage:
        arguments = {
            "source": source,
            "layout": layout,
            "thread": self.member,
            "threads": self.members,
            "begin": self.team * layout.size,
            "pitch": self.tile.teams * layout.size,
            "rounded": self.rounded,
            "shared": slots,
        }
        pipeline = self.tile.slots > 1
        copied = copyable(source.operand, source.outer, source.depth) if pipeline else None
        width = copied.width(layout) if copied is not None else None
        if copied is None or width is None:
            return RegisterStage(**arguments)
        return AsynchronousStage(**arguments, copied=copied, width=width)

    def _steps(self, depth: Axes) -> int:
        """Return the number of slices per team along a depth."""
        return -(-depth.extent // (self.tile.depth * self.tile.teams))

    def _alternate(self, products: Sequence[tuple[RegisterStage, RegisterStage]]) -> None:
        """Emit a loop that loads the next slices into registers while it multiplies."""
        ends = list(accumulate(left.source.count for left, _ in products))

        def read(number: int, step: Expr) -> None:
            for side in products[number]:
                side.read(step)

        def write(number: int, _step: Expr) -> None:
            for side in products[number]:
                side.write(0)

        read(0, 0)
        write(0, 0)
        left, right = products[0]
        with T.serial(ends[-1]) as s:
            with when(s + 1 < ends[-1]):
                _of_each(ends, read, s + 1)
            barrier()
            self.multiply(left.slice(0), right.slice(0))
            barrier()
            with when(s + 1 < ends[-1]):
                _of_each(ends, write, s + 1)

    def _pipeline(self, left: Stage, right: Stage) -> None:
        """Emit a loop that multiplies one slot after another while the other slots are filled.

        Each step has a single barrier, which ensures two things. The slice of the step has arrived,
        with the parts that all threads moved. And all threads have finished the slice before, whose
        slot may now be overwritten.
        """
        slots, steps = self.tile.slots, left.source.count
        ahead = slots - 1
        copies = any(isinstance(side, AsynchronousStage) for side in (left, right))
        with T.attr(0, "hand_threaded", 0):  # else TVM merges the slots and adds barriers
            for number in range(ahead):
                for side in (left, right) if number < steps else ():
                    side.begin_with(number)
                if copies:
                    commit_copies()
            with T.serial(steps) as s:
                if copies:
                    await_copies(ahead - 1)
                for side in (left, right):
                    side.settle(s % slots)
                barrier()
                with when(s + ahead < steps):
                    for side in (left, right):
                        side.bring(s + ahead, (s + ahead) % slots)
                if copies:  # empty at the end: one group per step
                    commit_copies()
                self.multiply(left.slice(s % slots), right.slice(s % slots))

    def _add_teams(self) -> None:
        """Add the sums of the other teams to those of the first."""
        others = self.tile.teams - 1
        if not others:
            return
        sums = shared(others * self.count * self.members, "float32", self.tile.dynamic)
        barrier()  # TVM may reuse memory of slices that are still read
        with when(self.team > 0), T.unroll(self.count) as i:
            at = ((self.team - 1) * self.count + i) * self.members + self.member
            T.buffer_store(sums, self.sums[i], [at])
        barrier()
        with when(self.team == 0), T.serial(others) as t, T.unroll(self.count) as i:
            other = sums[(t * self.count + i) * self.members + self.member]
            T.buffer_store(self.sums, self.sums[i] + other, [i])


def _registers(stage: Stage) -> RegisterStage:
    assert isinstance(stage, RegisterStage), "slices with a single slot pass through registers"
    return stage


def _of_each(ends: Sequence[int], do: Callable[[int, Expr], None], step: Expr) -> None:
    """Call ``do(product, step)`` for the active product, its steps counted from 0.

    Parameters
    ----------
    ends : sequence of int
        End of each product's steps.
    do : callable
        Emits one step of a product.
    step : Expr
        The step, counted from the first product's first.
    """
    for number, (begin, end) in enumerate(pairwise([0, *ends])):
        conditions = [step >= begin] if begin else []
        if end < ends[-1]:
            conditions.append(step < end)
        with when(every(conditions)):
            do(number, step - begin if begin else step)


def shared_bytes(part: tuple[int, int], teams: int, slots: int, *layouts: Layout) -> int:
    """Return the bytes of shared memory of a block.

    Parameters
    ----------
    part : (int, int)
        Rows and columns of a block's part.
    teams : int
        Teams that split the depth.
    slots : int
        Slices of each operand that are in shared memory.
    layouts : Layout
        Layouts of the slices of both operands.

    Returns
    -------
    int
        Bytes.
    """
    slices = slots * teams * sum(layout.bytes for layout in layouts)
    return slices + 4 * (teams - 1) * math.prod(part)
