# SPDX-License-Identifier: Apache-2.0
"""Stores of sums to global memory, with the epilogue applied."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm.tirx.script import builder as T

from .contiguity import substitute
from .emit import every, when
from .match_gemm import GemmMatch, Result

Expr = Any


@dataclass(frozen=True)
class Writer:
    """The epilogue's store: writes sums to the result.

    Attributes
    ----------
    match : GemmMatch
    buffers : dict
        The kernel's tensors, by those of the form.
    batch : dict
        The values of the batch's variables.
    """

    match: GemmMatch
    buffers: dict[Any, Any]
    batch: dict[Any, Expr]

    def write(
        self, sums: Any, first: Expr, count: int, row: tuple[Expr, int], column: tuple[Expr, int]
    ) -> None:
        """Write ``count`` neighbouring sums of a row.

        Parameters
        ----------
        sums : buffer
            Registers.
        first : Expr
            Index of the first sum.
        count : int
            Number of sums.
        row, column : (Expr, int)
            Position of the first sum in the result, and the size of the blocks' parts.
        """
        match = self.match
        vector = math.gcd(count, match.vector)
        with T.unroll(count // vector) as part:
            at = column[0] + part * vector
            for result in match.results:
                inside = self._inside(row, (at, column[1]), result)
                with when(inside), T.vectorized(vector) as lane:
                    total = T.Cast(match.dtype, sums[first + part * vector + lane])
                    self._store(result, total, row[0], at, lane)

    def _store(self, result: Result, total: Expr, row: Expr, column: Expr, lane: Expr) -> None:
        match = self.match
        values = self.batch | match.rows.split(row) | match.columns.split(column, lane)
        values[match.total] = total
        value = substitute(match.value, values | self.buffers)
        *outer, last = [substitute(index, values) for index in match.indices]
        shift = result.first - result.begin
        indices = [*outer, last + shift if shift else last]
        T.buffer_store(self.buffers[result.buffer], value, indices)

    def _inside(
        self, row: tuple[Expr, int], column: tuple[Expr, int], result: Result
    ) -> Expr | None:
        axes = ((row, self.match.rows), (column, self.match.columns))
        conditions = [at < axis.extent for (at, size), axis in axes if axis.extent % size]
        if result.begin:
            conditions.append(column[0] >= result.begin)
        if result.end < self.match.columns.extent:
            conditions.append(column[0] < result.end)
        return every(conditions)
