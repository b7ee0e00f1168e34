# SPDX-License-Identifier: Apache-2.0
"""What a block of threads does for a matrix product, whatever its threads multiply with.

Slice by slice of the depth it brings both operands into shared memory, and multiplies while the
next slice is on its way (``staging``). With several teams, each has slices of its own: the depth is
shared out among them, and their sums are added in the end. Of several products the slices of the
second follow those of the first: they are added up in the same registers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

from tvm.tirx.script import builder as T

from .emit import barrier, every, registers, shared, when
from .gemm_form import Axes, GemmForm, Operand
from .neighbours import substitute
from .staging import Layout, Source, Stage
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
    left, right : Stage
        The operands' slices.
    sums : buffer
        A thread's part of the result, in registers.
    """

    rounded: Callable[[Expr], Expr] | None = None
    """What numbers of the operands are rounded to before they are multiplied."""

    def __init__(self, form: GemmForm, tile: Tile, buffers: dict[Any, Any], thread: Expr) -> None:
        self.form, self.tile, self.buffers = form, tile, buffers
        self.members = tile.threads // tile.teams
        self.team, self.member = thread // self.members, thread % self.members
        sides = [(product.left, product.depth) for product in form.products]
        self.left = self._stage(sides, form.rows, self.left_layout())
        sides = [(product.right, product.depth) for product in form.products]
        self.right = self._stage(sides, form.columns, self.right_layout())
        deep = tile.depth * tile.teams
        steps = (-(-product.depth.extent // deep) for product in form.products)
        self._steps = list(accumulate(steps))  # where those of each product end
        self.count = tile.rows * tile.columns // self.members
        self.sums = registers(self.count)

    @abstractmethod
    def left_layout(self) -> Layout:
        """How a slice of the left operand lies in shared memory."""

    @abstractmethod
    def right_layout(self) -> Layout:
        """How a slice of the right operand lies in shared memory."""

    @abstractmethod
    def multiply(self) -> None:
        """Add the products of the team's slices to the sums."""

    @abstractmethod
    def finish(self, writer: Writer, row: Expr, column: Expr) -> None:
        """Write the sums of a block's part that begins at (row, column)."""

    def _stage(self, sides: Sequence[tuple[Operand, Axes]], outer: Axes, layout: Layout) -> Stage:
        steps = self.tile.depth * self.tile.teams
        return Stage(
            sources=tuple(
                Source(operand, outer, depth, layout, steps, self.members)
                for operand, depth in sides
            ),
            begin=self.team * layout.size,
            rounded=self.rounded,
            shared=shared(self.tile.teams * layout.size, layout.dtype),
        )

    def emit(self, block: Expr) -> None:
        """Emit the code of block number ``block``."""
        form, tile = self.form, self.tile
        wide = -(-form.columns.extent // tile.columns)
        tall = -(-form.rows.extent // tile.rows)
        row, column = block // wide % tall * tile.rows, block % wide * tile.columns
        batch = form.batch.split(block // (wide * tall))

        def element(value: Expr, at: dict[Any, Expr]) -> Expr:
            return substitute(value, batch | at | self.buffers)

        def read(product: int, step: Expr) -> None:
            depth = (step * tile.teams + self.team) * tile.depth
            self.left.read(product, self.member, row, depth, element)
            self.right.read(product, self.member, column, depth, element)

        with T.unroll(self.count) as i:
            T.buffer_store(self.sums, T.float32(0), [i])
        read(0, 0)
        self._write(0, 0)
        steps = self._steps[-1]
        with T.serial(steps) as s:
            with when(s + 1 < steps):
                self._of_each(read, s + 1)
            barrier()
            self.multiply()
            barrier()
            with when(s + 1 < steps):
                self._of_each(self._write, s + 1)
        self._add_teams()
        with when(self.team == 0 if tile.teams > 1 else None):
            self.finish(Writer(form, self.buffers, batch), row, column)

    def _of_each(self, do: Callable[[int, Expr], None], step: Expr) -> None:
        """``do(product, step)`` for the product whose turn it is, its steps counted from 0."""
        for product, (begin, end) in enumerate(pairwise([0, *self._steps])):
            conditions = [step >= begin] if begin else []
            if end < self._steps[-1]:
                conditions.append(step < end)
            with when(every(conditions)):
                do(product, step - begin if begin else step)

    def _write(self, product: int, _step: Expr) -> None:
        self.left.write(product, self.member)
        self.right.write(product, self.member)

    def _add_teams(self) -> None:
        """Add to the first team's sums those of the others."""
        others = self.tile.teams - 1
        if not others:
            return
        sums = shared(others * self.count * self.members, "float32")
        with when(self.team > 0), T.unroll(self.count) as i:
            at = ((self.team - 1) * self.count + i) * self.members + self.member
            T.buffer_store(sums, self.sums[i], [at])
        barrier()
        with when(self.team == 0), T.serial(others) as t, T.unroll(self.count) as i:
            other = sums[(t * self.count + i) * self.members + self.member]
            T.buffer_store(self.sums, self.sums[i] + other, [i])


def shared_bytes(tile: tuple[int, int, int], left: Layout, right: Layout) -> int:
    """Bytes of shared memory that a block takes for parts of (rows, columns) and so many teams."""
    rows, columns, teams = tile
    return teams * (left.bytes + right.bytes) + 4 * (teams - 1) * rows * columns
