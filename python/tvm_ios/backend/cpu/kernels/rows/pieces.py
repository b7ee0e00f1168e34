# SPDX-License-Identifier: Apache-2.0
"""Reductions of few, long rows: of pieces first, which the workers share, then of their results.

The pieces do not depend on the number of workers, and neither does the order in which numbers are
added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tvm.tirx.script import builder as T

from .....ops.tensor import TensorSpec
from .....sizes.size import Size
from ...core import Core
from ...isa.emit import select
from ..kernel import Kernel, Phase
from ..layout import blocks
from .reduce import Reduce, ReduceEmitter

Expr = Any

_PIECE = 1 << 14  # elements of a piece, about
_MANY = 16  # tiles that the workers share as they are
_LEAST = 1 << 17  # elements whose reduction takes longer than a barrier


def divides(reduce: Reduce, core: Core) -> bool:
    """Return whether a reduction is faster in pieces."""
    tiles = reduce.outer * blocks(reduce.inner, core.lanes)
    large = reduce.outer * reduce.length * reduce.inner >= _LEAST
    simple = reduce.reduction in ("sum", "mean", "max", "min")
    return simple and large and tiles < _MANY and reduce.length > _length(reduce)


def reduce_in_pieces_kernel(reduce: Reduce, core: Core) -> Kernel:
    """Return the kernel of a sum, a mean or an extreme; all its tensors are flat."""
    pieces = _Pieces(reduce, core)
    rows = Reduce(reduce.reduction, reduce.outer, pieces.count, reduce.inner, reduce.epilogue)
    whole = ReduceEmitter(rows, core, divisor=reduce.length)
    size, arguments = reduce.outer * reduce.inner, len(reduce.epilogue.arguments)

    def combine(buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        *_, result, partial = buffers
        whole.emit([partial, *buffers[1 : 1 + arguments], result], begin, extent)

    return Kernel(
        name=reduce.reduction,
        key=("reduce in pieces", reduce, core),
        inputs=(
            TensorSpec((size * reduce.length,)),
            *(TensorSpec((size,)) for _ in range(arguments)),
        ),
        outputs=(TensorSpec((size,)),),
        scratch=(TensorSpec((size * pieces.count,)),),
        phases=(
            Phase(pieces.num_tiles, pieces.emit, work=reduce.length / pieces.count),
            Phase(whole.num_tiles, combine),
        ),
        narrows=True,
    )


def _length(reduce: Reduce) -> int:
    """Return the length of a piece along the axis."""
    return max(_PIECE // reduce.inner, 1)


class _Pieces:
    """The reductions of the pieces ``[outer, count, inner]``, the last of which may be shorter."""

    def __init__(self, reduce: Reduce, core: Core) -> None:
        self._reduce, self._length = reduce, _length(reduce)
        self.count = blocks(reduce.length, self._length)
        self._chunks = blocks(reduce.inner, core.lanes)
        self.num_tiles = reduce.outer * self.count * self._chunks
        assert not isinstance(reduce.length, Size), "open rows are not divided"
        length: int = reduce.length
        self._full, rest = divmod(length, self._length)
        kind = "sum" if reduce.reduction == "mean" else reduce.reduction
        one = Reduce(kind, 1, self._length, reduce.inner)
        self._whole = ReduceEmitter(one, core)
        self._last = ReduceEmitter(replace(one, length=rest), core) if rest else None

    def emit(self, buffers: Sequence[Any], begin: Expr, extent: Expr) -> None:
        tensors, r = (buffers[0], buffers[-1]), self._reduce
        with T.serial(begin, begin + extent) as t:
            row, chunk = t // self._chunks, t % self._chunks
            outer, piece = row // self.count, row % self.count
            start = (outer * r.length + piece * self._length) * r.inner
            place = row * r.inner
            select(
                piece,
                [
                    (self._full, lambda _: self._whole.tile(tensors, start, chunk, place)),
                    (1 if self._last else 0, lambda _: self._ending(tensors, start, chunk, place)),
                ],
            )

    def _ending(self, tensors: Sequence[Any], start: Expr, chunk: Expr, place: Expr) -> None:
        assert self._last is not None, "there is a shorter piece"
        self._last.tile(tensors, start, chunk, place)
