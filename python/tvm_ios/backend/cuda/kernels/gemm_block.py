# SPDX-License-Identifier: Apache-2.0
"""What a block of threads does for a matrix product, whatever its threads multiply with.

Slice by slice of the depth it brings both operands into shared memory, and multiplies while the
next slice is on its way (``staging``), or, as a pipeline, the next few (``asynchronous``). With
several teams, each has slices of its own: the depth is shared out among them, and their sums are
added in the end. Of several products the slices of the second follow those of the first: they are
added up in the same registers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any

from tvm.tirx.script import builder as T

from .asynchronous import AsynchronousStage, await_copies, commit_copies, copyable
from .emit import barrier, every, registers, shared, when
from .gemm_form import Axes, GemmForm, Operand
from .neighbours import substitute
from .staging import Layout, RegisterStage, Slice, Source, Stage, share_registers
from .tile import Tile
from .writing import Writer

Expr = Any


class GemmBlock(ABC):
    """Emits a block's code.

    Parameters
    ----------
    form : GemmForm
    tile : Tile
    buffers : dict
        The kernel's tensors, by the form's.
    thread : Expr
        Index in the block.

    Attributes
    ----------
    member : Expr
        Index of the thread in its team.
    sums : buffer
        A thread's part of the result, in registers.
    """

    rounded: Callable[[Expr], Expr] | None = None
    """What numbers of the operands are rounded to before they are multiplied."""

    def __init__(self, form: GemmForm, tile: Tile, buffers: dict[Any, Any], thread: Expr) -> None:
        self.form, self.tile, self.buffers = form, tile, buffers
        self.members = tile.threads // tile.teams
        self.team, self.member = thread // self.members, thread % self.members
        self.count = tile.rows * tile.columns // self.members
        self.sums = registers(self.count)

    @abstractmethod
    def layouts(self) -> tuple[Layout, Layout]:
        """How slices of the left and of the right operand lie in shared memory."""

    @abstractmethod
    def multiply(self, left: Slice, right: Slice) -> None:
        """Add the products of two slices to the sums."""

    @abstractmethod
    def finish(self, writer: Writer, row: Expr, column: Expr) -> None:
        """Write the sums of a block's part that begins at (row, column)."""

    def emit(self, block: Expr) -> None:
        """Emit the code of block number ``block``."""
        form, tile = self.form, self.tile
        wide = -(-form.columns.extent // tile.columns)
        tall = -(-form.rows.extent // tile.rows)
        row, column = block // wide % tall * tile.rows, block % wide * tile.columns
        batch = form.batch.split(block // (wide * tall))
        left_layout, right_layout = self.layouts()
        operands = [(product.left, product.depth) for product in form.products]
        left = self._side(operands, form.rows, left_layout, row, batch)
        operands = [(product.right, product.depth) for product in form.products]
        right = self._side(operands, form.columns, right_layout, column, batch)
        with T.unroll(self.count) as i:
            T.buffer_store(self.sums, T.float32(0), [i])
        products = list(zip(left, right, strict=True))
        if tile.slots == 1:
            self._alternate([(_registers(left), _registers(right)) for left, right in products])
        else:
            assert len(products) == 1, "the slices of a sum are brought one at a time"
            self._pipeline(*products[0])
        self._add_teams()
        with when(self.team == 0 if tile.teams > 1 else None):
            self.finish(Writer(form, self.buffers, batch), row, column)

    def _side(
        self,
        operands: Iterable[tuple[Operand, Axes]],
        outer: Axes,
        layout: Layout,
        row: Expr,
        batch: dict[Any, Expr],
    ) -> list[Stage]:
        """One side of every product: through the same registers, to the same place."""
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
        """Slices of each team's along a depth."""
        return -(-depth.extent // (self.tile.depth * self.tile.teams))

    def _alternate(self, products: Sequence[tuple[RegisterStage, RegisterStage]]) -> None:
        """Multiply while the next slices come to registers, and then write these."""
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
        """Multiply slices in one slot after another, while others come to the other slots.

        The one barrier of a step says two things: that the slice of the step has arrived, for all
        threads' parts of it, and that all have done with the slice before, to whose slot the next
        one may come.
        """
        slots, steps = self.tile.slots, left.source.count
        ahead = slots - 1
        copies = any(isinstance(side, AsynchronousStage) for side in (left, right))
        with T.attr(0, "hand_threaded", 0):  # TVM would take the slots for one, and add barriers
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
                if copies:  # of nothing in the end, so that there is a group for each step
                    commit_copies()
                self.multiply(left.slice(s % slots), right.slice(s % slots))

    def _add_teams(self) -> None:
        """Add to the first team's sums those of the others."""
        others = self.tile.teams - 1
        if not others:
            return
        sums = shared(others * self.count * self.members, "float32", self.tile.dynamic)
        barrier()  # TVM gives the sums memory of slices, which others may still be reading
        with when(self.team > 0), T.unroll(self.count) as i:
            at = ((self.team - 1) * self.count + i) * self.members + self.member
            T.buffer_store(sums, self.sums[i], [at])
        barrier()
        with when(self.team == 0), T.serial(others) as t, T.unroll(self.count) as i:
            other = sums[(t * self.count + i) * self.members + self.member]
            T.buffer_store(self.sums, self.sums[i] + other, [i])


def _registers(stage: Stage) -> RegisterStage:
    assert isinstance(stage, RegisterStage), "slices that have one slot come through registers"
    return stage


def _of_each(ends: Sequence[int], do: Callable[[int, Expr], None], step: Expr) -> None:
    """``do(product, step)`` for the product whose turn it is, its steps counted from 0.

    Parameters
    ----------
    ends : sequence of int
        Where the steps of each product end.
    do : callable
    step : Expr
        Counted from the first product's first.
    """
    for number, (begin, end) in enumerate(pairwise([0, *ends])):
        conditions = [step >= begin] if begin else []
        if end < ends[-1]:
            conditions.append(step < end)
        with when(every(conditions)):
            do(number, step - begin if begin else step)


def shared_bytes(part: tuple[int, int], teams: int, slots: int, *layouts: Layout) -> int:
    """Bytes of shared memory that a block takes for parts of (rows, columns)."""
    slices = slots * teams * sum(layout.bytes for layout in layouts)
    return slices + 4 * (teams - 1) * math.prod(part)
