# SPDX-License-Identifier: Apache-2.0
"""Bringing a slice of an operand from global to shared memory, through registers.

A thread first reads its numbers of the next slice into registers, the block computes with the slice
that is in shared memory, and only then are the registers written there: global memory's latency
passes during the computation. What lies outside of the operand is zero.

Of a sum of products the slices of one operand come after those of the other, through the same
registers and to the same place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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
class Source:
    """An operand that slices are read of.

    Attributes
    ----------
    operand : Operand
    outer, depth : Axes
        The operand's axes as a whole.
    layout : Layout
        Of a slice.
    steps : int
        Every slice begins at a multiple of its depth, the last of them within the last ``steps``
        numbers of the depth, rounded up.
    threads : int
    """

    operand: Operand
    outer: Axes
    depth: Axes
    layout: Layout
    steps: int
    threads: int

    @property
    def vector(self) -> int:
        """Numbers that are read at once."""
        along = self.layout.depth if self.operand.along_depth else self.layout.outer
        return math.gcd(self.operand.vector, along)

    @property
    def rounds(self) -> int:
        """How many vectors a thread reads."""
        return math.ceil(self._vectors / self.threads)

    @property
    def _vectors(self) -> int:
        return self.layout.outer * self.layout.depth // self.vector

    def position(self, vector: Expr) -> tuple[Expr, Expr]:
        """Where in the slice a vector begins: (outer, depth). Neighbours are read by neighbours."""
        if self.operand.along_depth:
            across = self.layout.depth // self.vector
            return vector // across, vector % across * self.vector
        across = self.layout.outer // self.vector
        return vector % across * self.vector, vector // across

    def in_slice(self, vector: Expr) -> Expr | None:
        """Whether a slice has so many vectors; None where that is always so."""
        return vector < self._vectors if self._vectors % self.threads else None

    def inside(self, vector: Expr, outer: Expr, depth: Expr) -> Expr | None:
        """Whether the thread reads there at all; None where that is always so."""
        within = self.in_slice(vector)
        conditions = [] if within is None else [within]
        if self.outer.extent % self.layout.outer:
            conditions.append(outer < self.outer.extent)
        if self.depth.extent % self.steps:
            conditions.append(depth < self.depth.extent)
        return every(conditions)


@dataclass
class Stage:
    """One side's slices.

    Attributes
    ----------
    sources : tuple of Source
        Of one type and layout.
    begin : Expr
        Where the thread's slice begins in shared memory.
    rounded : callable or None
        What a number of the operand is rounded to before it is multiplied.
    shared : buffer
    """

    sources: tuple[Source, ...]
    begin: Expr
    rounded: Callable[[Expr], Expr] | None
    shared: Any
    _registers: Any = field(init=False)

    def __post_init__(self) -> None:
        most = max(source.rounds * source.vector for source in self.sources)
        self._registers = registers(most, self.sources[0].operand.dtype)

    @property
    def _layout(self) -> Layout:
        return self.sources[0].layout

    def read(self, number: int, thread: Expr, outer: Expr, depth: Expr, element: Any) -> None:
        """Read the slice that begins at (outer, depth) into registers.

        Parameters
        ----------
        number : int
            Of the source.
        thread, outer, depth : Expr
        element : callable
            From the values of the axes' variables to the operand's element.
        """
        source = self.sources[number]
        operand = source.operand
        zero = T.Cast(operand.dtype, T.float32(0))
        with T.unroll(source.rounds) as r:
            vector = r * source.threads + thread
            o, d = source.position(vector)
            inside = source.inside(vector, outer + o, depth + d)
            with T.vectorized(source.vector) as lane:
                o_lane, d_lane = (0, lane) if operand.along_depth else (lane, 0)
                at = source.outer.split(outer + o, o_lane) | source.depth.split(depth + d, d_lane)
                value = element(operand.value, at)
                guarded = T.if_then_else(inside, value, zero) if inside is not None else value
                T.buffer_store(self._registers, guarded, [r * source.vector + lane])

    def write(self, number: int, thread: Expr) -> None:
        """Write what was read of a source to shared memory."""
        source = self.sources[number]
        if self.rounded:
            with T.unroll(source.rounds * source.vector) as i:
                T.buffer_store(self._registers, self.rounded(self._registers[i]), [i])
        with T.unroll(source.rounds) as r:
            vector = r * source.threads + thread
            with when(source.in_slice(vector)):
                self._write_vector(source, r, *source.position(vector))

    def _write_vector(self, source: Source, r: Expr, o: Expr, d: Expr) -> None:
        along_depth = source.operand.along_depth
        loop = T.vectorized if self._layout.along_depth == along_depth else T.unroll
        with loop(source.vector) as lane:
            at = self.at(o, d + lane) if along_depth else self.at(o + lane, d)
            value = self._registers[r * source.vector + lane]
            T.buffer_store(self.shared, T.Cast(self._layout.dtype, value), [at])

    def at(self, outer: Expr, depth: Expr) -> Expr:
        """Where in shared memory a number of the thread's slice lies."""
        return self.begin + self._layout.place(outer, depth)
