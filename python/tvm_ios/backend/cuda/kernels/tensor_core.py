# SPDX-License-Identifier: Apache-2.0
"""Matrix products on tensor cores: factors in TF32, float16 or bfloat16, sums in float32.

A warp computes ``part_rows`` x ``part_columns`` of the result by ``mma.sync``, which multiplies 16
rows by 8 columns over a depth of 8 (TF32) or 16 (halves). The PTX manual, section "Matrix
Fragments", defines which elements of the fragments each of the 32 threads holds. With
``g = lane / 4`` and ``t = lane % 4``, these are rows ``g`` and ``g + 8`` of the result in columns
``2t`` and ``2t + 1``.

Fragments of the left operand, and fragments of halves, are loaded by ``ldmatrix``, whose 8 rows of
16 bytes should lie in different banks. 32-bit elements of the right operand are read one by one:
lane ``(g, t)`` reads column ``g`` of line ``t``. Lines of shared memory are padded for this
purpose, by 16 bytes or 8 elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.backend.cuda.op import cuda_func_call
from tvm.tirx.script import builder as T

from .emit import registers
from .epilogue_store import Writer
from .gemm_block import GemmBlock
from .staging import Layout, Slice

Expr = Any

ROWS, COLUMNS = 16, 8
"""Rows and columns of the result that one instruction computes."""

_ROUND = """
__device__ __forceinline__ float tvm_ios_round_to_tf32(float x) {
  unsigned nearest = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
  return x != x ? x : __uint_as_float(nearest);
}
"""

_MULTIPLY = """
__device__ __forceinline__ void tvm_ios_mma_%(name)s(float* sums, const void* left,
                                                  const void* right) {
  const unsigned* a = static_cast<const unsigned*>(left);
  const unsigned* b = static_cast<const unsigned*>(right);
  __asm__ __volatile__(
      "mma.sync.aligned.m16n8k%(depth)d.row.col.f32.%(name)s.%(name)s.f32"
      "{%%0, %%1, %%2, %%3}, {%%4, %%5, %%6, %%7}, {%%8, %%9}, {%%10, %%11, %%12, %%13};\\n"
      : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]),
        "f"(sums[0]), "f"(sums[1]), "f"(sums[2]), "f"(sums[3]));
}
"""


_LOAD = """
__device__ __forceinline__ void tvm_ios_ldmatrix%(name)s(void* registers, const void* row) {
  unsigned* r = static_cast<unsigned*>(registers);
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  __asm__ __volatile__(
      "ldmatrix.sync.aligned.m8n8.x4%(trans)s.shared.b16"
      "{%%0, %%1, %%2, %%3}, [%%4];\\n"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
      : "r"(address));
}
"""


@dataclass(frozen=True)
class Factors:
    """The type of the factors.

    Attributes
    ----------
    dtype : str
        Type of the tensors.
    name : str
        Name of the type in PTX.
    depth : int
        Depth of one instruction.
    pair : int
        Neighbours along the depth that a register holds.
    """

    dtype: str
    name: str
    depth: int
    pair: int


FACTORS = {
    "tf32": Factors("float32", "tf32", 8, 1),
    "fp16": Factors("float16", "f16", 16, 2),
    "bf16": Factors("bfloat16", "bf16", 16, 2),
}


def tensor_core_layouts(
    rows: int, columns: int, depth: int, factors: Factors
) -> tuple[Layout, Layout]:
    """Return the layouts of slices: left in lines along the depth, right along the columns.

    Parameters
    ----------
    rows, columns : int
        A block's part of the result.
    depth : int
        Depth of a slice.
    factors : Factors
        Type of the factors.

    Returns
    -------
    (Layout, Layout)
        Layouts in shared memory.
    """
    left = Layout(rows, depth, True, 4 * factors.pair, factors.dtype)
    return left, Layout(columns, depth, False, 8, factors.dtype)


def _round_to_tf32(value: Expr) -> Expr:
    """Round to 11 bits; tensor cores would truncate."""
    name = "tvm_ios_round_to_tf32"
    return cuda_func_call(name, value, source_code=_ROUND, return_type="float32")


def _part(numbers: Any, first: Expr, count: int) -> Expr:
    """Return a pointer to registers, with their count, so that TVM does not shrink the buffer."""
    return numbers.access_ptr("rw", offset=first, extent=count)


class TensorCoreBlock(GemmBlock):
    """A block whose warps multiply by tensor-core instructions."""

    def __init__(self, factors: Factors, *arguments: Any) -> None:
        self.factors = factors
        self.rounded = _round_to_tf32 if factors.name == "tf32" else None
        super().__init__(*arguments)
        tile = self.tile
        self.tall, self.wide = tile.part_rows // ROWS, tile.part_columns // COLUMNS
        warp, self.lane = self.member // 32, self.member % 32
        across = tile.columns // tile.part_columns
        self.row, self.column = warp // across * tile.part_rows, warp % across * tile.part_columns
        self.group, self.place = self.lane // 4, self.lane % 4

    def layouts(self) -> tuple[Layout, Layout]:
        """Return the layouts of the left and of the right operand's slices."""
        tile = self.tile
        return tensor_core_layouts(tile.rows, tile.columns, tile.depth, self.factors)

    def multiply(self, left_slice: Slice, right_slice: Slice) -> None:
        """Emit the product of two slices, added to the sums."""
        factors = self.factors
        left = registers(self.tall * 4 * factors.pair, factors.dtype)
        right = registers(self.wide * 2 * factors.pair, factors.dtype)
        with T.unroll(self.tile.depth // factors.depth) as d:
            with T.unroll(self.tall) as i:
                self._load_left(left, left_slice, i, d * factors.depth)
            if factors.pair == 2:
                with T.unroll(self.wide // 2) as j:
                    self._load_pairs(right, right_slice, j, d * factors.depth)
            else:
                with T.unroll(self.wide) as j:
                    self._load_right(right, right_slice, j, d * factors.depth)
            with T.unroll(self.tall) as i, T.unroll(self.wide) as j:
                self._multiply(left, right, i, j)

    def _multiply(self, left: Any, right: Any, i: Expr, j: Expr) -> None:
        name, pair = self.factors.name, self.factors.pair
        pointers = (
            _part(self.sums, (i * self.wide + j) * 4, 4),
            _part(left, i * 4 * pair, 4 * pair),
            _part(right, j * 2 * pair, 2 * pair),
        )
        source = _MULTIPLY % {"name": name, "depth": self.factors.depth}
        T.evaluate(cuda_func_call(f"tvm_ios_mma_{name}", *pointers, source_code=source))

    def _load_left(self, part: Any, source: Slice, i: Expr, d: Expr) -> None:
        """Load four registers: row ``g``, row ``g + 8``, and both again half the depth further.

        One instruction loads them. Each of 16 lanes supplies the address of a row, the other lanes
        that of the row's other half. The instruction is defined for halves, but works for any type:
        it moves rows of 16 bytes, of which each lane gets 4.
        """
        row = self.row + i * ROWS + self.lane % 16
        depth = d + self.lane // 16 * (self.factors.depth // 2)
        self._load_matrix(part, i, source.shared[source.at(row, depth)], "")

    def _load_pairs(self, part: Any, source: Slice, j: Expr, d: Expr) -> None:
        """Load the pairs along the depth of two neighbouring parts; they lie in different lines.

        The instruction transposes: 16 lanes supply the lines of the first part, the others those of
        the second.
        """
        column = self.column + (j * 2 + self.lane // 16) * COLUMNS
        first = source.shared[source.at(column, d + self.lane % 16)]
        self._load_matrix(part, j, first, ".trans")

    def _load_matrix(self, part: Any, fragment: Expr, row: Expr, trans: str) -> None:
        name, size = trans.replace(".", "_"), 4 * self.factors.pair
        source = _LOAD % {"name": name, "trans": trans}
        pointers = _part(part, fragment * size, size), T.address_of(row)
        T.evaluate(cuda_func_call(f"tvm_ios_ldmatrix{name}", *pointers, source_code=source))

    def _load_right(self, part: Any, source: Slice, j: Expr, d: Expr) -> None:
        """Load column ``g``, and again half the depth further."""
        column = self.column + j * COLUMNS + self.group
        with T.unroll(2) as deeper:
            depth = d + self.place + self.factors.depth // 2 * deeper
            T.buffer_store(part, source.shared[source.at(column, depth)], [j * 2 + deeper])

    def finish(self, writer: Writer, row: Expr, column: Expr) -> None:
        """Emit the stores of the sums of a block's part.

        Parameters
        ----------
        writer : Writer
            Writes sums to the result.
        row, column : Expr
            Where the block's part begins in the result.
        """
        with T.unroll(self.tall) as i, T.unroll(self.wide) as j, T.unroll(2) as lower:
            writer.write(
                self.sums,
                (i * self.wide + j) * 4 + lower * 2,
                2,
                (row + self.row + i * ROWS + self.group + 8 * lower, self.tile.rows),
                (column + self.column + j * COLUMNS + 2 * self.place, self.tile.columns),
            )
