# SPDX-License-Identifier: Apache-2.0
"""Matrix products on a multiprocessor's ordinary units: exact float32.

A thread block computes ``rows`` x ``columns`` of the result, each thread ``part_rows`` x
``part_columns`` of them in registers. Per element of the depth, a thread reads
``part_rows + part_columns`` elements of shared memory for ``part_rows * part_columns``
multiply-adds, in vectors of four: parts of 8 x 8 need 4 reads for 64 multiply-adds. A
multiprocessor issues 4 x 32 multiply-adds and reads 32 x 4 bytes of shared memory per cycle. Parts
of 8 x 8 (64 bytes for 64 multiply-adds) just keep its units busy. Parts of 4 x 4 take twice as long
to read as to compute, less the reads of one address that the threads of a warp share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.tirx.script import builder as T

from .emit import registers
from .epilogue_store import Writer
from .gemm_block import GemmBlock
from .staging import Layout, Slice

Expr = Any


def simt_layouts(rows: int, columns: int, depth: int) -> tuple[Layout, Layout]:
    """Return the layouts of slices of the left and of the right operand.

    Parameters
    ----------
    rows, columns : int
        A block's part of the result.
    depth : int
        Depth of a slice.

    Returns
    -------
    (Layout, Layout)
        Layouts in shared memory.
    """
    return _layout(rows, depth), _layout(columns, depth)


def _layout(outer: int, depth: int) -> Layout:
    """Return a layout for reads along the rows or the columns, in vectors of four."""
    return Layout(outer, depth, along_depth=False, pad=4, dtype="float32")


@dataclass(frozen=True)
class _Side:
    """A thread's part of the rows or of the columns: groups of ``width`` neighbours."""

    size: int
    part: int

    @property
    def width(self) -> int:
        return min(self.part, 4)

    @property
    def groups(self) -> int:
        return self.part // self.width

    def at(self, lane: Expr, group: Expr) -> Expr:
        """Return where a group begins.

        Groups of threads alternate, so that a warp reads neighbours.
        """
        return group * (self.size // self.groups) + lane * self.width


class SimtBlock(GemmBlock):
    """A block whose threads each multiply their own elements."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        tile = self.tile
        self.rows = _Side(tile.rows, tile.part_rows)
        self.columns = _Side(tile.columns, tile.part_columns)
        across = tile.columns // tile.part_columns
        self.row_lane, self.column_lane = self.member // across, self.member % across

    def layouts(self) -> tuple[Layout, Layout]:
        """Return the layouts of the left and of the right operand's slices."""
        return simt_layouts(self.tile.rows, self.tile.columns, self.tile.depth)

    def multiply(self, left_slice: Slice, right_slice: Slice) -> None:
        """Emit the product of two slices, added to the sums."""
        left, right = registers(self.rows.part), registers(self.columns.part)
        with T.unroll(self.tile.depth) as d:
            self._load(left, left_slice, d, self.rows, self.row_lane)
            self._load(right, right_slice, d, self.columns, self.column_lane)
            with T.unroll(self.rows.part) as i, T.unroll(self.columns.part) as j:
                at = i * self.columns.part + j
                T.buffer_store(self.sums, self.sums[at] + left[i] * right[j], [at])

    def _load(self, part: Any, source: Slice, d: Expr, side: _Side, lane: Expr) -> None:
        with T.unroll(side.groups) as g, T.vectorized(side.width) as v:
            value = source.shared[source.at(side.at(lane, g) + v, d)]
            T.buffer_store(part, value, [g * side.width + v])

    def finish(self, writer: Writer, row: Expr, column: Expr) -> None:
        """Emit the stores of the sums of a block's part.

        Parameters
        ----------
        writer : Writer
            Writes sums to the result.
        row, column : Expr
            Where the block's part begins in the result.
        """
        rows, columns = self.rows, self.columns
        with (
            T.unroll(rows.groups) as gi,
            T.unroll(rows.width) as vi,
            T.unroll(columns.groups) as gj,
        ):
            i = gi * rows.width + vi
            writer.write(
                self.sums,
                i * columns.part + gj * columns.width,
                columns.width,
                (row + rows.at(self.row_lane, gi) + vi, self.tile.rows),
                (column + columns.at(self.column_lane, gj), self.tile.columns),
            )
