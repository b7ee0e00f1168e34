# SPDX-License-Identifier: Apache-2.0
"""Products of small matrices of bfloat16 by Intel's AMX, which holds them in registers.

A *step* multiplies one or two left matrices, each of up to 16 rows, by the matrices of some blocks
of 16 columns, and adds the products to a float32 sum of each pair of them. A left matrix has a row
of pairs for each of its rows, a right one a row of 16 pairs for each pair of the left one's.

The registers are eight: one for each sum, one for each left matrix, the others for right ones in
turn. Their shapes are set before the first step. A process must be permitted to use them, see
:func:`tvm_ios_env.amx.permitted`.

Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, chapter 20.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx.script import builder as T

Expr = Any

PRODUCTS = "llvm.x86.tdpbf16ps"
"""LLVM's name of the instruction that multiplies matrices."""

ROWS = 16
"""The most rows of a matrix."""
COLUMNS = 16
"""The columns of a block, each a float32 or a pair."""
MOST_BLOCKS = {1: 4, 2: 2}
"""The most blocks, by the number of left matrices."""

DOT2_BYTES = 4

_PREFIX = "tvm_ios_amx"
_REGISTERS = 8
_FEWEST_PAIRS = 4  # fewer would leave most of each step's time unused
_ROW_BYTES = 64
_PALETTE = 1  # the numbers of registers and their sizes, as of the first processors with AMX


@dataclass(frozen=True)
class Step:
    """The shapes of the matrices of a step.

    Attributes
    ----------
    rows : tuple of int
        The rows of each left matrix, one or two.
    blocks : int
        The right matrices.
    pairs : int
        The pairs of a row of a left matrix, up to 16.
    """

    rows: tuple[int, ...]
    blocks: int
    pairs: int

    @property
    def starts(self) -> list[int]:
        """The rows before each left matrix."""
        return [0] if len(self.rows) == 1 else [0, self.rows[0]]

    def sums(self) -> list[tuple[int, int, int]]:
        """Return where each sum begins in memory of blocks, of which each has a row for each row of
        all left matrices; in the order of :meth:`end`."""
        return [(block, start, 0) for start in self.starts for block in range(self.blocks)]

    def begin(self) -> None:
        """Set the registers' shapes and all sums to zero."""
        self._call("begin")

    def multiply(
        self, left: Sequence[Expr], left_stride: Expr, right: Sequence[Expr], right_stride: Expr
    ) -> None:
        """Add the products of matrices.

        Parameters
        ----------
        left, right : sequence of Expr
            Pointers to each matrix's first row.
        left_stride, right_stride : Expr
            The bytes from one row to the next.
        """
        strides = [T.cast(stride, "int64") for stride in (left_stride, right_stride)]
        self._call("multiply", *left, *right, *strides)

    def end(self, sums: Sequence[Expr]) -> None:
        """Write the sums, and let the registers go.

        Parameters
        ----------
        sums : sequence of Expr
            Pointers to where each sum begins, those of the first left matrix first. Rows of a sum
            lie one after another.
        """
        self._call("end", *sums)

    def _call(self, what: str, *arguments: Expr) -> None:
        T.evaluate(T.call_extern("int32", self._name(what), *arguments))

    def _name(self, what: str) -> str:
        numbers = "_".join(map(str, (*self.rows, self.blocks, self.pairs)))
        return f"{_PREFIX}_{what}_{numbers}"

    def _sum(self, left: int, block: int) -> int:
        """Return the register of a sum."""
        return left * self.blocks + block

    @property
    def _left(self) -> list[int]:
        """The registers of the left matrices."""
        first = len(self.rows) * self.blocks
        return list(range(first, first + len(self.rows)))

    @property
    def _right(self) -> list[int]:
        """The registers of the right matrices, which take turns."""
        return list(range(self._left[-1] + 1, _REGISTERS))

    @property
    def sources(self) -> frozenset[str]:
        """The LLVM IR of the functions that this step calls."""
        return frozenset(("\n".join((self._begin(), self._multiply(), self._end(), "")),))

    def _begin(self) -> str:
        """Return the function that sets the registers' shapes.

        The shapes are 64 bytes: the palette, from byte 16 on the bytes of a row of each register,
        and from byte 48 on its rows.
        """
        row_bytes, rows = [0] * 16, [0] * 16
        for left, height in enumerate(self.rows):
            for block in range(self.blocks):
                rows[self._sum(left, block)] = height
                row_bytes[self._sum(left, block)] = _ROW_BYTES
            rows[self._left[left]], row_bytes[self._left[left]] = height, 4 * self.pairs
        for register in self._right:
            rows[register], row_bytes[register] = self.pairs, _ROW_BYTES
        config = [_PALETTE, *[0] * 15, *(b for n in row_bytes for b in (n, 0)), *rows]
        shapes, bytes_ = self._name("shapes"), ", ".join(f"i8 {byte}" for byte in config)
        constant = f"@{shapes} = private constant [64 x i8] [{bytes_}], align 64"
        sums = range(len(self.rows) * self.blocks)
        code = ["ldtilecfg ($0)", *(f"tilezero %tmm{register}" for register in sums)]
        lines = [_assembly(code, [f"ptr @{shapes}"])]
        return f"{constant}\n{self._function('begin', [], lines)}"

    def _multiply(self) -> str:
        lefts, blocks = range(len(self.rows)), range(self.blocks)
        parameters = [f"ptr %a{i}" for i in lefts] + [f"ptr %b{k}" for k in blocks]
        parameters += ["i64 %left", "i64 %right"]
        first = len(self.rows)
        left_stride, right_stride = first + self.blocks, first + self.blocks + 1
        load = "tileloadd (${},${}), %tmm{}".format
        code = [load(i, left_stride, self._left[i]) for i in lefts]
        for k in blocks:
            right = self._right[k % len(self._right)]
            code.append(load(first + k, right_stride, right))
            code += [
                f"tdpbf16ps %tmm{right}, %tmm{self._left[i]}, %tmm{self._sum(i, k)}" for i in lefts
            ]
        return self._function("multiply", parameters, [_assembly(code, parameters)])

    def _end(self) -> str:
        parameters = [f"ptr %c{i}" for i in range(len(self.rows) * self.blocks)]
        row = f"i64 {_ROW_BYTES}"
        lines = [
            _assembly([f"tilestored %tmm{register}, ($0,$1)"], [parameter, row])
            for register, parameter in enumerate(parameters)
        ]
        return self._function("end", parameters, [*lines, _assembly(["tilerelease"], [])])

    def _function(self, what: str, parameters: Sequence[str], lines: Sequence[str]) -> str:
        opening = (
            f"define internal i32 @{self._name(what)}({', '.join(parameters)}) alwaysinline {{"
        )
        return "\n".join((opening, *lines, "  ret i32 0", "}"))


def _assembly(code: Sequence[str], operands: Sequence[str]) -> str:
    """Return LLVM IR of machine code whose operands are in general registers.

    LLVM has intrinsics of these instructions, but takes registers of different shapes for equal and
    exchanges them.
    """
    constraints = ",".join([*["r"] * len(operands), "~{memory}"])
    return f'  call void asm sideeffect "{"; ".join(code)}", "{constraints}"({", ".join(operands)})'


def needed(sources: Collection[str]) -> bool:
    """Return whether code that calls functions of these sources multiplies by AMX."""
    return any(_PREFIX in source for source in sources)


def whole_pairs(depth: int) -> int:
    """Return the most pairs of a step of which a depth consists; 0 if they are few."""
    return next((n for n in range(ROWS, _FEWEST_PAIRS - 1, -1) if depth % n == 0), 0)


def split(rows: int) -> tuple[int, ...]:
    """Return the rows of the left matrices that ``rows`` make up, which are as equal as may be."""
    assert 0 < rows <= 2 * ROWS, "two left matrices at most"
    return (rows,) if rows <= ROWS else (rows - rows // 2, rows // 2)


def address(tensor: Any, place: Sequence[Expr], access: str = "r") -> Expr:
    """Return a pointer to an element of a tensor, by which it is read or written."""
    (offset,) = tensor.offset_of(place)
    return tensor.access_ptr(access, offset=offset)
