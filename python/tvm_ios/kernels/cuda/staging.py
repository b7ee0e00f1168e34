# SPDX-License-Identifier: Apache-2.0
"""Bringing a slice of an operand from global to shared memory, through registers.

A thread first reads its numbers of the next slice into registers, the block computes with the slice
that is in shared memory, and only then are the registers written there: global memory's latency
passes during the computation. What lies outside of the operand is zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tvm.tirx.script import builder as T

from .emit import every, registers, when
from .gemm_form import Axes, Operand

Expr = Any
Place = Callable[[Expr, Expr], Expr]


@dataclass
class Stage:
    """One operand's slices of ``outer`` rows or columns and ``depth`` numbers of the depth.

    Attributes
    ----------
    operand : Operand
    outer, depth : Axes
        The operand's axes as a whole.
    outer_size, depth_size : int
        Of a slice.
    steps : int
        Every slice begins at a multiple of ``depth_size``, the last of them within the last
        ``steps`` numbers of the depth, rounded up.
    threads : int
    place : callable
        Position in shared memory of the number at (outer, depth).
    along_depth : bool
        Whether ``place`` puts neighbours along the depth beside each other, else along the outer
        axis.
    shared : buffer
    """

    operand: Operand
    outer: Axes
    depth: Axes
    outer_size: int
    depth_size: int
    steps: int
    threads: int
    place: Place
    along_depth: bool
    shared: Any
    _registers: Any = field(init=False)

    def __post_init__(self) -> None:
        self._registers = registers(self._rounds * self._vector, self.operand.dtype)

    @property
    def _vector(self) -> int:
        """Numbers that are read at once."""
        along = self.depth_size if self.operand.along_depth else self.outer_size
        return math.gcd(self.operand.vector, along)

    @property
    def _vectors(self) -> int:
        return self.outer_size * self.depth_size // self._vector

    @property
    def _rounds(self) -> int:
        """How many vectors a thread reads."""
        return math.ceil(self._vectors / self.threads)

    def _position(self, vector: Expr) -> tuple[Expr, Expr]:
        """Where in the slice a vector begins: (outer, depth). Neighbours are read by neighbours."""
        if self.operand.along_depth:
            across = self.depth_size // self._vector
            return vector // across, vector % across * self._vector
        across = self.outer_size // self._vector
        return vector % across * self._vector, vector // across

    def read(self, thread: Expr, outer: Expr, depth: Expr, element: Any) -> None:
        """Read the slice that begins at (outer, depth) into registers.

        Parameters
        ----------
        thread, outer, depth : Expr
        element : callable
            From the values of the axes' variables to the operand's element.
        """
        zero = T.Cast(self.operand.dtype, T.float32(0))
        with T.unroll(self._rounds) as r:
            vector = r * self.threads + thread
            o, d = self._position(vector)
            inside = self._inside(vector, outer + o, depth + d)
            with T.vectorized(self._vector) as lane:
                o_lane, d_lane = (0, lane) if self.operand.along_depth else (lane, 0)
                at = self.outer.split(outer + o, o_lane) | self.depth.split(depth + d, d_lane)
                value = element(self.operand.value, at)
                guarded = T.if_then_else(inside, value, zero) if inside is not None else value
                T.buffer_store(self._registers, guarded, [r * self._vector + lane])

    def _inside(self, vector: Expr, outer: Expr, depth: Expr) -> Expr | None:
        """Whether the thread reads there at all; None where that is always so."""
        conditions = []
        if self._vectors % self.threads:
            conditions.append(vector < self._vectors)
        if self.outer.extent % self.outer_size:
            conditions.append(outer < self.outer.extent)
        if self.depth.extent % self.steps:
            conditions.append(depth < self.depth.extent)
        return every(conditions)

    def write(self, thread: Expr) -> None:
        """Write the registers to shared memory."""
        with T.unroll(self._rounds) as r:
            vector = r * self.threads + thread
            with when(vector < self._vectors if self._vectors % self.threads else None):
                self._write_vector(r, *self._position(vector))

    def _write_vector(self, r: Expr, o: Expr, d: Expr) -> None:
        beside = self.along_depth == self.operand.along_depth
        loop = T.vectorized if beside else T.unroll
        with loop(self._vector) as lane:
            place = self.place(o, d + lane) if self.operand.along_depth else self.place(o + lane, d)
            value = self._registers[r * self._vector + lane]
            T.buffer_store(self.shared, T.Cast(str(self.shared.dtype), value), [place])
