# SPDX-License-Identifier: Apache-2.0
"""What a block of threads does for a matrix product, whatever its threads multiply with.

Slice by slice of the depth it brings both operands into shared memory, and multiplies while the
next slice is on its way (``staging``), or, as a pipeline, the next few (``asynchronous``). With
several teams, each has slices of its own: the depth is shared out among them, and their sums are
added in the end.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from tvm.tirx.script import builder as T

from .asynchronous import AsynchronousStage, await_copies, commit_copies, copyable
from .emit import barrier, registers, shared, when
from .gemm_form import Axes, GemmForm, Operand
from .neighbours import substitute
from .staging import Layout, RegisterStage, Slice, Source, Stage
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
        left = self._stage(form.left, form.rows, left_layout, row, batch)
        right = self._stage(form.right, form.columns, right_layout, column, batch)
        with T.unroll(self.count) as i:
            T.buffer_store(self.sums, T.float32(0), [i])
        if tile.slots == 1:
            self._alternate(left, right)
        else:
            self._pipeline(left, right)
        self._add_teams()
        with when(self.team == 0 if tile.teams > 1 else None):
            self.finish(Writer(form, self.buffers, batch), row, column)

    def _stage(
        self, operand: Operand, outer: Axes, layout: Layout, row: Expr, batch: dict[Any, Expr]
    ) -> Stage:
        tile, depth = self.tile, self.form.depth
        step, pitch = tile.depth * tile.teams, tile.teams * layout.size
        source = Source(
            operand=operand,
            outer=outer,
            depth=depth,
            row=row,
            first=lambda number: (number * tile.teams + self.team) * tile.depth,
            count=self._steps,
            even=depth.extent % step == 0,
            element=lambda value, at: substitute(value, batch | at | self.buffers),
        )
        arguments = {
            "source": source,
            "layout": layout,
            "thread": self.member,
            "threads": self.members,
            "begin": self.team * layout.size,
            "pitch": pitch,
            "rounded": self.rounded,
            "shared": shared(tile.slots * pitch, layout.dtype, tile.dynamic),
        }
        copied = copyable(operand, outer, depth) if tile.slots > 1 else None
        width = copied.width(layout) if copied is not None else None
        if copied is None or width is None:
            return RegisterStage(**arguments)
        return AsynchronousStage(**arguments, copied=copied, width=width)

    @property
    def _steps(self) -> int:
        """Slices of each team's."""
        return -(-self.form.depth.extent // (self.tile.depth * self.tile.teams))

    def _alternate(self, left: RegisterStage, right: RegisterStage) -> None:
        """Multiply while the next slices come to registers, and then write these."""
        for side in (left, right):
            side.read(0)
        for side in (left, right):
            side.write(0)
        with T.serial(self._steps) as s:
            with when(s + 1 < self._steps):
                for side in (left, right):
                    side.read(s + 1)
            barrier()
            self.multiply(left.slice(0), right.slice(0))
            barrier()
            with when(s + 1 < self._steps):
                for side in (left, right):
                    side.write(0)

    def _pipeline(self, left: Stage, right: Stage) -> None:
        """Multiply slices in one slot after another, while others come to the other slots.

        The one barrier of a step says two things: that the slice of the step has arrived, for all
        threads' parts of it, and that all have done with the slice before, to whose slot the next
        one may come.
        """
        slots, steps = self.tile.slots, self._steps
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


def shared_bytes(part: tuple[int, int], teams: int, slots: int, *layouts: Layout) -> int:
    """Bytes of shared memory that a block takes for parts of (rows, columns)."""
    slices = slots * teams * sum(layout.bytes for layout in layouts)
    return slices + 4 * (teams - 1) * math.prod(part)
