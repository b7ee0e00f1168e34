# SPDX-License-Identifier: Apache-2.0
"""Bringing slices of an operand from global to shared memory, through registers.

A thread first reads its numbers of the next slice into registers, the block computes with the slice
that is in shared memory, and only then are the registers written there: global memory's latency
passes during the computation. What lies outside of the operand is zero.

Shared memory may have several slots, each for a slice. That in which a slice is multiplied and that
to which the next is brought are then two, and the block need not wait between these.

Of a sum of products the slices of one operand come after those of the other, through the same
registers and to the same place.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm.tirx.script import builder as T

from .emit import every, registers, when
from .gemm_form import Axes, Operand
from .neighbours import bits

Expr = Any


@dataclass(frozen=True)
class Layout:
    """How a slice lies in shared memory.

    Attributes
    ----------
    outer, depth : int
        Its size along the rows or the columns, and along the depth.
    along_depth : bool
        Whether neighbours along the depth lie beside each other, else those along the other axis.
    pad : int
        Numbers that are left free behind each line, so that those of a warp who access different
        lines access different banks.
    dtype : str
    """

    outer: int
    depth: int
    along_depth: bool
    pad: int
    dtype: str

    @property
    def size(self) -> int:
        """Numbers that it takes."""
        lines, line = self.outer, self.depth
        if not self.along_depth:
            lines, line = line, lines
        return lines * (line + self.pad)

    @property
    def bytes(self) -> int:
        return self.size * bits(self.dtype) // 8

    def place(self, outer: Expr, depth: Expr) -> Expr:
        """Where a number lies."""
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
        Where it begins there.
    """

    layout: Layout
    shared: Any
    begin: Expr

    def at(self, outer: Expr, depth: Expr) -> Expr:
        """Where in shared memory a number lies."""
        return self.begin + self.layout.place(outer, depth)


@dataclass(frozen=True)
class Source:
    """The slices of an operand that a thread's team brings, one after another.

    Attributes
    ----------
    operand : Operand
    outer, depth : Axes
        The operand's axes as a whole.
    row : Expr
        Where the slices begin along the first of them.
    first : callable
        From the number of a slice to where it begins along the depth.
    count : int
        How many there are. The last of them may end behind the operand.
    even : bool
        Whether it does not.
    element : callable
        From an expression and the values of the axes' variables to the element.
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
    """One operand's slices on their way.

    Attributes
    ----------
    source : Source
    layout : Layout
        Of a slice.
    thread : Expr
        Its number in the team.
    threads : int
        Of the team.
    begin : Expr
        Where the team's slice begins in a slot.
    pitch : int
        Numbers from one slot to the next.
    rounded : callable or None
        What a number of the operand is rounded to before it is multiplied.
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
        """What is in a slot."""
        return Slice(self.layout, self.shared, self.begin + slot * self.pitch)

    @property
    @abstractmethod
    def vector(self) -> int:
        """Numbers that are brought at once."""

    @abstractmethod
    def begin_with(self, number: int) -> None:
        """Bring a slice to the slot of its number, before the first is multiplied."""

    @abstractmethod
    def bring(self, number: Expr, slot: Expr) -> None:
        """Bring a slice to a slot; those with lower numbers have been brought."""

    @abstractmethod
    def settle(self, slot: Expr) -> None:
        """Do what is left to do to a slice that has arrived, before others see it."""

    @property
    def vectors(self) -> int:
        """How many make up a slice."""
        return self.layout.outer * self.layout.depth // self.vector

    @property
    def rounds(self) -> int:
        """How many vectors a thread brings."""
        return math.ceil(self.vectors / self.threads)

    def position(self, vector: Expr) -> tuple[Expr, Expr]:
        """Where in a slice a vector begins: (outer, depth). Neighbours are read by neighbours."""
        if self.source.operand.along_depth:
            across = self.layout.depth // self.vector
            return vector // across, vector % across * self.vector
        across = self.layout.outer // self.vector
        return vector % across * self.vector, vector // across

    def exists(self, vector: Expr) -> Expr | None:
        """Whether a slice has so many vectors; None where it does for each thread."""
        return vector < self.vectors if self.vectors % self.threads else None

    def bounds(self, outer: Expr, depth: Expr) -> list[Expr]:
        """What has to hold for a number to be in the operand, where slices may leave it."""
        source, conditions = self.source, []
        if source.outer.extent % self.layout.outer:
            conditions.append(outer < source.outer.extent)
        if not source.even:
            conditions.append(depth < source.depth.extent)
        return conditions


@dataclass
class RegisterStage(Stage):
    """Slices that pass through registers, where they may be converted."""

    _registers: Any = field(init=False)

    @property
    def vector(self) -> int:
        """Numbers that are read at once."""
        operand = self.source.operand
        along = self.layout.depth if operand.along_depth else self.layout.outer
        return math.gcd(operand.vector, along)

    def begin_with(self, number: int) -> None:
        """Bring a slice, and have the next one read."""
        self.read(number)
        self.write(number)
        if number + 1 < self.source.count:
            self.read(number + 1)

    def bring(self, number: Expr, slot: Expr) -> None:
        """Write what was read, and read the next slice: it arrives while others are multiplied."""
        self.write(slot)
        with when(number + 1 < self.source.count):
            self.read(number + 1)

    def settle(self, slot: Expr) -> None:
        """It was rounded on its way."""

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
    """Give stages registers, the same to all: their slices pass one after another."""
    dtypes = {stage.source.operand.dtype for stage in stages}
    assert len(dtypes) <= 1, "what is multiplied by the same instructions is of one type"
    for dtype in dtypes:
        shared = registers(max(stage.rounds * stage.vector for stage in stages), dtype)
        for stage in stages:
            stage._registers = shared
