# SPDX-License-Identifier: Apache-2.0
"""Matrix products on tensor cores: factors in TF32, float16 or bfloat16, sums in float32.

A warp computes ``part_rows`` x ``part_columns`` of the result by ``mma.sync``, which multiplies 16
rows by 8 columns over a depth of 8 (TF32) or 16 (halves). Which numbers of the fragments each of
the 32 threads holds is in the PTX manual, section "Matrix Fragments": with ``g = lane / 4`` and
``t = lane % 4``, of the result rows ``g`` and ``g + 8`` of columns ``2t`` and ``2t + 1``.

The lines of shared memory are padded so that the 32 threads read 32 banks: lines of the left
operand along the depth begin 4 banks apart (4 g + t), those of the right one along the columns 8
banks apart (8 t + g), and of halves, that two lines lie in, the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.backend.cuda.op import cuda_func_call
from tvm.tirx.script import builder as T

from .emit import registers
from .gemm_block import GemmBlock, shared_bytes
from .staging import Layout
from .writing import Writer

Expr = Any

ROWS, COLUMNS = 16, 8
"""Of the result that one instruction computes."""

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


@dataclass(frozen=True)
class Factors:
    """A type of factors.

    Attributes
    ----------
    dtype : str
        Of the tensors.
    name : str
        Of the type in PTX.
    depth : int
        Of one instruction.
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


def left_layout(tile_rows: int, depth: int, factors: Factors) -> Layout:
    """Lines along the depth, of which a thread reads one or a pair of neighbours."""
    return Layout(tile_rows, depth, True, 4 * factors.pair, factors.dtype)


def right_layout(tile_columns: int, depth: int, factors: Factors) -> Layout:
    """Lines along the columns."""
    return Layout(tile_columns, depth, False, 8, factors.dtype)


def tensor_core_shared(rows: int, columns: int, depth: int, teams: int, factors: Factors) -> int:
    """Bytes of shared memory of a tile."""
    left, right = left_layout(rows, depth, factors), right_layout(columns, depth, factors)
    return shared_bytes((rows, columns, teams), left, right)


def _round_to_tf32(value: Expr) -> Expr:
    """To 11 bits, as tensor cores would otherwise cut them off."""
    name = "tvm_ios_round_to_tf32"
    return cuda_func_call(name, value, source_code=_ROUND, return_type="float32")


class TensorCoreBlock(GemmBlock):
    """A block whose warps multiply together."""

    def __init__(self, factors: Factors, *arguments: Any) -> None:
        self.factors = factors
        self.rounded = _round_to_tf32 if factors.name == "tf32" else None
        super().__init__(*arguments)
        tile = self.tile
        self.tall, self.wide = tile.part_rows // ROWS, tile.part_columns // COLUMNS
        warp, lane = self.member // 32, self.member % 32
        across = tile.columns // tile.part_columns
        self.row, self.column = warp // across * tile.part_rows, warp % across * tile.part_columns
        self.group, self.place = lane // 4, lane % 4

    def left_layout(self) -> Layout:
        return left_layout(self.tile.rows, self.tile.depth, self.factors)

    def right_layout(self) -> Layout:
        return right_layout(self.tile.columns, self.tile.depth, self.factors)

    def multiply(self) -> None:
        factors = self.factors
        left = registers(self.tall * 4 * factors.pair, factors.dtype)
        right = registers(self.wide * 2 * factors.pair, factors.dtype)
        with T.unroll(self.tile.depth // factors.depth) as d:
            with T.unroll(self.tall) as i:
                self._load_left(left, i, d * factors.depth)
            with T.unroll(self.wide) as j:
                self._load_right(right, j, d * factors.depth)
            with T.unroll(self.tall) as i, T.unroll(self.wide) as j:
                self._multiply(left, right, i, j)

    def _multiply(self, left: Any, right: Any, i: Expr, j: Expr) -> None:
        name, pair = self.factors.name, self.factors.pair
        pointers = (
            T.address_of(self.sums[(i * self.wide + j) * 4]),
            T.address_of(left[i * 4 * pair]),
            T.address_of(right[j * 2 * pair]),
        )
        source = _MULTIPLY % {"name": name, "depth": self.factors.depth}
        T.evaluate(cuda_func_call(f"tvm_ios_mma_{name}", *pointers, source_code=source))

    def _load_left(self, part: Any, i: Expr, d: Expr) -> None:
        """Registers in the order of: row ``g``, row ``g + 8``, and both again deeper by a half."""
        pair = self.factors.pair
        for deeper in range(2):
            for lower in range(2):
                row = self.row + i * ROWS + self.group + 8 * lower
                depth = d + self.place * pair + self.factors.depth // 2 * deeper
                with T.vectorized(pair) as v:
                    at = (i * 4 + deeper * 2 + lower) * pair + v
                    value = self.left.shared[self.left.at(row, depth + v)]
                    T.buffer_store(part, value, [at])

    def _load_right(self, part: Any, j: Expr, d: Expr) -> None:
        """Column ``g``, and again deeper by a half."""
        pair = self.factors.pair
        for deeper in range(2):
            column = self.column + j * COLUMNS + self.group
            depth = d + self.place * pair + self.factors.depth // 2 * deeper
            with T.unroll(pair) as v:
                value = self.right.shared[self.right.at(column, depth + v)]
                T.buffer_store(part, value, [(j * 2 + deeper) * pair + v])

    def finish(self, writer: Writer, row: Expr, column: Expr) -> None:
        with T.unroll(self.tall) as i, T.unroll(self.wide) as j, T.unroll(2) as lower:
            writer.write(
                self.sums,
                (i * self.wide + j) * 4 + lower * 2,
                2,
                (row + self.row + i * ROWS + self.group + 8 * lower, self.tile.rows),
                (column + self.column + j * COLUMNS + 2 * self.place, self.tile.columns),
            )
