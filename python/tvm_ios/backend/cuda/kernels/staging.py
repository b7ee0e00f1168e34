# SPDX-License-Identifier: Apache-2.0
"""Staging: operand slices move from global to shared memory through registers.

A thread first reads its elements of the next slice into registers. The block then computes with the
slice that is in shared memory, and only afterwards are the registers written there. The latency of
global memory thus overlaps with the computation. Elements outside of the operand are zero.

Shared memory may have several slots, each for one slice. The slot that is multiplied and the slot
that is filled are then different, and the block need not synchronize between the two.

In a sum of products, the slices of one operand follow those of the other, through the same
registers and into the same slots.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm.tirx.script import builder as T

from .contiguity import bits
from .emit import every, registers, when
from .match_gemm import Axes, Operand

Expr = Any


@dataclass(frozen=True)
class Layout:
    """The layout of a slice in shared memory.

    Attributes
    ----------
    outer, depth : int
        Size along the rows or the columns, and along the depth.
    along_depth : bool
        Whether neighbours along the depth are neighbours in memory; else those along the other axis
        are.
    pad : int
        Elements left free behind each line, so that threads of a warp that access different lines
        access different banks.
    dtype : str
    """

    outer: int
    depth: int
    along_depth: bool
    pad: int
    dtype: str

    @property
    def size(self) -> int:
        """The number of elements, including the padding."""
        lines, line = self.outer, self.depth
        if not self.along_depth:
            lines, line = line, lines
        return lines * (line + self.pad)

    @property
    def bytes(self) -> int:
        """The number of bytes, including the padding."""
        return self.size * bits(self.dtype) // 8

    def place(self, outer: Expr, depth: Expr) -> Expr:
        """Return the position of an element."""
        if self.along_depth:
            return outer * (self.depth + self.pad) + depth
        return depth * (self.outer + self.pad) + outer


@dataclass(frozen=True)
class Slice:
    """A slice in shared memory.

    Attributes
    ----------
    layout : Layout
    shared : buffer
    begin : Expr
        Position of its first element.
    """

    layout: Layout
    shared: Any
    begin: Expr

    def at(self, outer: Expr, depth: Expr) -> Expr:
        """Return the position of an element in shared memory."""
        return self.begin + self.layout.place(outer, depth)


@dataclass(frozen=True)
class Source:
    """The slices of an operand that a thread's team moves, one after another.

    Attributes
    ----------
    operand : Operand
    outer, depth : Axes
        The operand's axes, whole.
    row : Expr
        Where the slices begin along ``outer``.
    first : callable
        Maps the number of a slice to its begin along the depth.
    count : int
        Number of slices. The last may extend past the operand.
    even : bool
        Whether it does not.
    element : callable
        Maps an expression and the values of the axes' variables to the element.
    """

    operand: Operand
    outer: Axes
    depth: Axes
    row: Expr
    first: Callable[[Expr], Expr]
    count: int
    even: bool
    element: Callable[[Expr, dict[Any, Expr]], Expr]


@dataclass
class Stage(ABC):
    """The slices of one operand on their way to shared memory.

    Attributes
    ----------
    source : Source
    layout : Layout
        Layout of a slice.
    thread : Expr
        Number of the thread in the team.
    threads : int
        Threads of the team.
    begin : Expr
        Where the team's slice begins in a slot.
    pitch : int
        Elements from one slot to the next.
    rounded : callable or None
        Rounds an element before it is multiplied.
    shared : buffer
        All slots.
    """

    source: Source
    layout: Layout
    thread: Expr
    threads: int
    begin: Expr
    pitch: int
    rounded: Callable[[Expr], Expr] | None
    shared: Any

    def slice(self, slot: Expr) -> Slice:
        """Return the slice in a slot."""
        return Slice(self.layout, self.shared, self.begin + slot * self.pitch)

    @property
    @abstractmethod
    def vector(self) -> int:
        """The elements that are moved at once."""

    @abstractmethod
    def begin_with(self, number: int) -> None:
        """Move a slice to the slot of its number, before the first slice is multiplied."""

    @abstractmethod
    def bring(self, number: Expr, slot: Expr) -> None:
        """Move a slice to a slot; slices with lower numbers have been moved before."""

    @abstractmethod
    def settle(self, slot: Expr) -> None:
        """Finish a slice that has arrived, before other threads read it."""

    @property
    def vectors(self) -> int:
        """The number of vectors in a slice."""
        return self.layout.outer * self.layout.depth // self.vector

    @property
    def rounds(self) -> int:
        """The number of vectors that a thread moves."""
        return math.ceil(self.vectors / self.threads)

    def position(self, vector: Expr) -> tuple[Expr, Expr]:
        """Return where a vector begins in a slice, as (outer, depth).

        Neighbours read neighbours.
        """
        if self.source.operand.along_depth:
            across = self.layout.depth // self.vector
            return vector // across, vector % across * self.vector
        across = self.layout.outer // self.vector
        return vector % across * self.vector, vector // across

    def exists(self, vector: Expr) -> Expr | None:
        """Return whether a slice has that vector, None if it has one for each thread."""
        return vector < self.vectors if self.vectors % self.threads else None

    def bounds(self, outer: Expr, depth: Expr) -> list[Expr]:
        """Return the conditions for an element to be in the operand, if slices may leave it."""
        source, conditions = self.source, []
        if source.outer.extent % self.layout.outer:
            conditions.append(outer < source.outer.extent)
        if not source.even:
            conditions.append(depth < source.depth.extent)
        return conditions


@dataclass
class RegisterStage(Stage):
    """A stage whose slices pass through registers, where they may be converted."""

    _registers: Any = field(init=False)

    @property
    def vector(self) -> int:
        """The elements that are read at once."""
        operand = self.source.operand
        along = self.layout.depth if operand.along_depth else self.layout.outer
        return math.gcd(operand.vector, along)

    def begin_with(self, number: int) -> None:
        """Move a slice, and start to read the next one."""
        self.read(number)
        self.write(number)
        if number + 1 < self.source.count:
            self.read(number + 1)

    def bring(self, number: Expr, slot: Expr) -> None:
        """Write the slice that was read, and read the next while others are multiplied."""
        self.write(slot)
        with when(number + 1 < self.source.count):
            self.read(number + 1)

    def settle(self, slot: Expr) -> None:
        """Do nothing: the slice was rounded on its way."""

    def read(self, number: Expr) -> None:
        """Read a slice into registers."""
        source = self.source
        zero = T.Cast(source.operand.dtype, T.float32(0))
        with T.unroll(self.rounds) as r:
            vector = r * self.threads + self.thread
            o, d = self.position(vector)
            outer, depth = source.row + o, source.first(number) + d
            exists = self.exists(vector)
            inside = every([*([] if exists is None else [exists]), *self.bounds(outer, depth)])
            with T.vectorized(self.vector) as lane:
                o_lane, d_lane = (0, lane) if source.operand.along_depth else (lane, 0)
                at = source.outer.split(outer, o_lane) | source.depth.split(depth, d_lane)
                value = source.element(source.operand.value, at)
                guarded = T.if_then_else(inside, value, zero) if inside is not None else value
                T.buffer_store(self._registers, guarded, [r * self.vector + lane])

    def write(self, slot: Expr) -> None:
        """Write the registers to a slot."""
        if self.rounded:
            with T.unroll(self.rounds * self.vector) as i:
                T.buffer_store(self._registers, self.rounded(self._registers[i]), [i])
        with T.unroll(self.rounds) as r:
            vector = r * self.threads + self.thread
            with when(self.exists(vector)):
                self._write_vector(self.slice(slot), r, *self.position(vector))

    def _write_vector(self, to: Slice, r: Expr, o: Expr, d: Expr) -> None:
        along_depth = self.source.operand.along_depth
        loop = T.vectorized if self.layout.along_depth == along_depth else T.unroll
        with loop(self.vector) as lane:
            at = to.at(o, d + lane) if along_depth else to.at(o + lane, d)
            value = self._registers[r * self.vector + lane]
            T.buffer_store(self.shared, T.Cast(self.layout.dtype, value), [at])


def share_registers(stages: Sequence[RegisterStage]) -> None:
    """Assign the same registers to all stages: their slices pass one after another."""
    dtypes = {stage.source.operand.dtype for stage in stages}
    assert len(dtypes) <= 1, "operands of the same instructions have one type"
    for dtype in dtypes:
        shared = registers(max(stage.rounds * stage.vector for stage in stages), dtype)
        for stage in stages:
            stage._registers = shared
