# SPDX-License-Identifier: Apache-2.0
"""Matrix products on a multiprocessor's ordinary units: exact float32.

A block of threads computes ``rows`` x ``columns`` of the result, each thread ``part_rows`` x
``part_columns`` of them in registers. Per number of the depth a thread reads ``part_rows +
part_columns`` numbers of shared memory for ``part_rows * part_columns`` multiply-adds, in vectors
of four: 8 x 8 parts need 4 reads for 64 multiply-adds. A multiprocessor issues 4 x 32 multiply-adds
and 32 x 4 bytes of shared memory a cycle, so that parts of 8 x 8 (64 bytes for 64) are what its
units can just be fed with, and parts of 4 x 4 take twice as long to read as to compute, less what
threads of one warp that read the same address share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from .emit import barrier, kernel, registers, shared, when
from .gemm_form import Axes, GemmForm, Operand
from .neighbours import substitute
from .staging import Stage
from .tile import Tile
from .writing import Writer

Expr = Any

_PAD = 4  # numbers behind each row in shared memory: what one warp writes falls into other banks


def simt_gemm(form: GemmForm, tile: Tile) -> tirx.PrimFunc:
    """The product as a kernel without tensor cores."""

    def body(buffers: Any, block: Expr, thread: Expr) -> None:
        _Block(form, tile, dict(zip(form.parameters, buffers, strict=True)), thread).emit(block)

    return kernel(form.parameters, tile.blocks, tile.threads, body)


def simt_shared(rows: int, columns: int, depth: int, teams: int) -> int:
    """Bytes of shared memory of a tile."""
    return 4 * (teams * depth * (rows + columns + 2 * _PAD) + (teams - 1) * rows * columns)


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
        """Where a group begins. The threads' groups alternate, as a warp reads neighbours then."""
        return group * (self.size // self.groups) + lane * self.width


class _Block:
    """What one block does."""

    def __init__(self, form: GemmForm, tile: Tile, buffers: dict[Any, Any], thread: Expr) -> None:
        self.form, self.tile, self.buffers = form, tile, buffers
        self.rows = _Side(tile.rows, tile.part_rows)
        self.columns = _Side(tile.columns, tile.part_columns)
        self.members = tile.threads // tile.teams
        self.team, self.thread = thread // self.members, thread % self.members
        across = tile.columns // tile.part_columns
        self.row_lane, self.column_lane = self.thread // across, self.thread % across
        self.left = self._stage(form.left, form.rows, tile.rows)
        self.right = self._stage(form.right, form.columns, tile.columns)
        self.count = tile.part_rows * tile.part_columns
        self.sums = registers(self.count)

    def _stage(self, operand: Operand, outer: Axes, size: int) -> Stage:
        pitch = size + _PAD
        begin = self.team * (self.tile.depth * pitch)
        return Stage(
            operand=operand,
            outer=outer,
            depth=self.form.depth,
            outer_size=size,
            depth_size=self.tile.depth,
            steps=self.tile.depth * self.tile.teams,
            threads=self.members,
            place=lambda o, d: begin + d * pitch + o,
            along_depth=False,
            shared=shared(self.tile.teams * self.tile.depth * pitch, "float32"),
        )

    def emit(self, block: Expr) -> None:
        form, tile = self.form, self.tile
        wide = -(-form.columns.extent // tile.columns)
        tall = -(-form.rows.extent // tile.rows)
        row, column = block // wide % tall * tile.rows, block % wide * tile.columns
        batch = form.batch.split(block // (wide * tall))

        def element(value: Expr, at: dict[Any, Expr]) -> Expr:
            return substitute(value, batch | at | self.buffers)

        def read(step: Expr) -> None:
            depth = (step * tile.teams + self.team) * tile.depth
            self.left.read(self.thread, row, depth, element)
            self.right.read(self.thread, column, depth, element)

        with T.unroll(self.count) as i:
            T.buffer_store(self.sums, T.float32(0), [i])
        read(0)
        self._write()
        steps = -(-form.depth.extent // (tile.depth * tile.teams))
        with T.serial(steps) as s:
            with when(s + 1 < steps):
                read(s + 1)
            barrier()
            self._multiply()
            barrier()
            with when(s + 1 < steps):
                self._write()
        self._add_teams()
        with when(self.team == 0 if tile.teams > 1 else None):
            self._finish(Writer(form, self.buffers, batch), row, column)

    def _write(self) -> None:
        self.left.write(self.thread)
        self.right.write(self.thread)

    def _multiply(self) -> None:
        left, right = registers(self.rows.part), registers(self.columns.part)
        with T.unroll(self.tile.depth) as d:
            self._load(left, self.left, d, self.rows, self.row_lane)
            self._load(right, self.right, d, self.columns, self.column_lane)
            with T.unroll(self.rows.part) as i, T.unroll(self.columns.part) as j:
                at = i * self.columns.part + j
                T.buffer_store(self.sums, self.sums[at] + left[i] * right[j], [at])

    def _load(self, part: Any, stage: Stage, d: Expr, side: _Side, lane: Expr) -> None:
        with T.unroll(side.groups) as g, T.vectorized(side.width) as v:
            value = stage.shared[stage.place(side.at(lane, g) + v, d)]
            T.buffer_store(part, value, [g * side.width + v])

    def _add_teams(self) -> None:
        """Add to the first team's sums those of the others."""
        others = self.tile.teams - 1
        if not others:
            return
        sums = shared(others * self.count * self.members, "float32")
        with when(self.team > 0), T.unroll(self.count) as i:
            at = ((self.team - 1) * self.count + i) * self.members + self.thread
            T.buffer_store(sums, self.sums[i], [at])
        barrier()
        with when(self.team == 0), T.serial(others) as t, T.unroll(self.count) as i:
            other = sums[(t * self.count + i) * self.members + self.thread]
            T.buffer_store(self.sums, self.sums[i] + other, [i])

    def _finish(self, writer: Writer, row: Expr, column: Expr) -> None:
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
