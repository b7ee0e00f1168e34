# SPDX-License-Identifier: Apache-2.0
"""A TIR function that drops boxes which overlap better ones ("non-maximum suppression")."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from ..sizes.arithmetic import smallest
from ..sizes.size import AnySize
from .tir_function import on_stack, tile_scope

Expr = Any


@dataclass(frozen=True)
class Suppression:
    """What is computed of the boxes of some images, which have scores in some classes.

    Attributes
    ----------
    batch, classes, boxes : int or Size
    most : int or Size
        The largest number of boxes of an image and a class that are kept.
    centers : bool
        Whether a box is given by its centre, width and height, ``[x, y, w, h]``; otherwise by two
        corners, ``[y, x, y, x]``.
    """

    batch: AnySize
    classes: AnySize
    boxes: AnySize
    most: AnySize
    centers: bool

    @property
    def kept(self) -> AnySize:
        """The largest number of boxes that are kept."""
        return self.batch * self.classes * smallest(self.boxes, self.most)


def suppressed(
    builder: relax.BlockBuilder, kind: Suppression, tensors: Sequence[relax.Expr]
) -> tuple[relax.Var, relax.Var]:
    """Emit the boxes that are kept, and their number.

    Parameters
    ----------
    builder : relax.BlockBuilder
    kind : Suppression
    tensors : sequence of relax.Expr
        Boxes, float32 ``[batch, boxes, 4]``; their scores, ``[batch, classes, boxes]``; their
        numbers by falling scores, int64; and lists of one number: the most boxes to keep of an
        image and a class, int64; from which overlap on one drops the other, float32; and what a
        score must exceed, float32.

    Returns
    -------
    relax.Var, relax.Var
        int64 ``[kind.kept, 3]``: image, class and box, image by image and class by class, the best
        first, with 0 behind them; and their number, int64 ``[1]``.
    """
    name = f"suppress_{zlib.crc32(repr(kind).encode()):08x}"
    function = builder.add_func(suppression(kind, name), name)
    types = [relax.TensorType((kind.kept, 3), "int64"), relax.TensorType((1,), "int64")]
    both = builder.emit(relax.call_tir(function, list(tensors), types))
    kept, count = (builder.emit(relax.TupleGetItem(both, i)) for i in range(2))
    return kept, count


def suppression(kind: Suppression, name: str) -> tirx.PrimFunc:
    """Build the function that :func:`suppressed` calls."""
    shape = (kind.batch, kind.classes, kind.boxes)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        boxes = T.arg("boxes", T.buffer((kind.batch, kind.boxes, 4), "float32"))
        scores = T.arg("scores", T.buffer(shape, "float32"))
        order = T.arg("order", T.buffer(shape, "int64"))
        most = T.arg("most", T.buffer((1,), "int64"))
        overlap = T.arg("overlap", T.buffer((1,), "float32"))
        least = T.arg("least", T.buffer((1,), "float32"))
        kept = T.arg("kept", T.buffer((kind.kept, 3), "int64"))
        count = T.arg("count", T.buffer((1,), "int64"))
        with tile_scope():
            T.buffer_store(count, T.int64(0), [0])
            state = _State(kind, boxes, overlap[0], kept, count)
            with T.grid(kind.batch, kind.classes) as (image, number):
                state.begin()
                with T.serial(kind.boxes) as i:
                    box = T.Bind(order[image, number, i])
                    scored = scores[image, number, box] > least[0]
                    with T.If(tirx.And(scored, state.kept_here() < most[0])), T.Then():
                        state.consider(image, number, box)
            with T.serial(kind.kept) as i, T.If(T.Cast("int64", i) >= count[0]), T.Then():
                for column in range(3):
                    T.buffer_store(kept, T.int64(0), [i, column])
    return builder.get()


class _State:
    """The boxes that were kept so far, and those among them of this image and class."""

    def __init__(self, kind: Suppression, boxes: Any, overlap: Expr, kept: Any, count: Any) -> None:
        self._kind, self._boxes, self._overlap = kind, boxes, overlap
        self._kept, self._count = kept, count
        self._begin, self._next = on_stack([1], "int64"), on_stack([1], "int64")
        self._drops = on_stack([1], "int32")

    def begin(self) -> None:
        """Emit the begin of an image and a class."""
        T.buffer_store(self._begin, self._count[0], [0])

    def kept_here(self) -> Expr:
        return self._count[0] - self._begin[0]

    def consider(self, image: Expr, number: Expr, box: Expr) -> None:
        """Emit that a box is kept, unless it overlaps one that was."""
        mine = self._sides(image, box)
        T.buffer_store(self._drops, T.int32(0), [0])
        T.buffer_store(self._next, self._begin[0], [0])
        with T.While(tirx.And(self._next[0] < self._count[0], self._drops[0] == 0)):
            other = T.Bind(self._kept[self._next[0], 2])
            drops = self._overlaps(mine, self._sides(image, other))
            T.buffer_store(self._drops, T.Cast("int32", drops), [0])
            T.buffer_store(self._next, self._next[0] + T.int64(1), [0])
        with T.If(self._drops[0] == 0), T.Then():
            for column, value in enumerate((image, number, box)):
                T.buffer_store(self._kept, T.Cast("int64", value), [self._count[0], column])
            T.buffer_store(self._count, self._count[0] + T.int64(1), [0])

    def _sides(self, image: Expr, box: Expr) -> list[tuple[Expr, Expr]]:
        """Return the begin and the end of a box along both axes."""
        first, second, third, fourth = (T.Bind(self._boxes[image, box, i]) for i in range(4))
        if self._kind.centers:
            halves = ((first, third / T.float32(2)), (second, fourth / T.float32(2)))
            return [(T.Bind(centre - half), T.Bind(centre + half)) for centre, half in halves]
        pairs = ((second, fourth), (first, third))
        return [(T.Bind(T.min(a, b)), T.Bind(T.max(a, b))) for a, b in pairs]

    def _overlaps(
        self, mine: Sequence[tuple[Expr, Expr]], others: Sequence[tuple[Expr, Expr]]
    ) -> Expr:
        """Return whether the shared area is too large a share of what both cover."""
        shared = [
            T.Bind(T.min(a[1], b[1]) - T.max(a[0], b[0])) for a, b in zip(mine, others, strict=True)
        ]
        common = T.Bind(shared[0] * shared[1])
        areas = [T.Bind((x[1] - x[0]) * (y[1] - y[0])) for x, y in (mine, others)]
        union = T.Bind(areas[0] + areas[1] - common)
        positive = [value > T.float32(0) for value in (*shared, common, *areas, union)]
        return tirx.all(*positive, common / union > self._overlap)
