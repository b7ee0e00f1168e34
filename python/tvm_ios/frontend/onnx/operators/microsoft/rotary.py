# SPDX-License-Identifier: Apache-2.0
"""Rotation of the rows of heads by angles of their positions."""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax

from .....sizes.arithmetic import is_one
from ....emitter import shape_of
from ...node_emitter import NodeEmitter
from .domain import check_shape, contributed
from .heads import by_heads, join_heads, rows_of_heads


@contributed("RotaryEmbedding")
def rotary_embedding(
    emit: NodeEmitter,
    data: relax.Expr,
    positions: relax.Expr,
    cosines: relax.Expr,
    sines: relax.Expr,
    *,
    interleaved: int = 0,
    is_packed_batching: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> relax.Expr:
    """Rotate rows of all heads, or ``[batch, heads, rows, columns]``."""
    if is_packed_batching:
        raise emit.error("has sequences of several lengths in one, which is not supported.")
    if scale != 1.0:
        raise emit.error(f"has scale={scale}, which ONNX Runtime does not apply on CPUs.")
    table = RotaryTable(emit, cosines, sines, bool(interleaved))
    heads = _heads(emit, data, num_heads, rotary_embedding_dim, 2 * table.pairs)
    columns = rotary_embedding_dim or shape_of(heads)[3]
    if columns != 2 * table.pairs:
        raise emit.error(f"rotates {columns} columns by angles of {2 * table.pairs} columns.")
    rows = _rows_of_positions(emit, positions, shape_of(heads)[0], shape_of(heads)[2])
    rotated = table.rotated(emit, heads, rows)
    return rotated if len(shape_of(data)) == 4 else join_heads(emit, rotated)


def _heads(
    emit: NodeEmitter, data: relax.Expr, heads: int, rotated: int, columns: int
) -> relax.Expr:
    """Return data as ``[batch, heads, rows, columns]``."""
    if len(shape_of(data)) == 4:
        return data
    if len(shape_of(data)) != 3 or (rotated and not heads):
        raise emit.error(
            f"has data of {list(shape_of(data))}; it must have 4 axes, or 3 and num_heads."
        )
    count = heads or shape_of(data)[2] // columns
    return by_heads(emit, rows_of_heads(emit, data, count, "data"))


def _rows_of_positions(
    emit: NodeEmitter, positions: relax.Expr, batch: int, rows: int
) -> relax.Expr:
    """Return the position of each row; a single one is that of the first row of each image."""
    if is_one(shape_of(positions)):
        first = emit.reshape(positions, [1, 1])
        places = emit.reshape(emit.positions(rows, "int64"), [1, rows])
        return emit(relax.op.add(places, emit.cast(first, "int64")))
    check_shape(emit, positions, [batch, rows], "positions")
    return positions


class RotaryTable:
    """The cosines and sines of the angles of each position.

    Parameters
    ----------
    emit : NodeEmitter
    cosines, sines : relax.Expr
        ``[positions, pairs]``
    interleaved : bool
        Whether the columns that are rotated together are neighbours; otherwise they are in two
        halves.

    Raises
    ------
    ModelError
        If they are no tables of one shape.
    """

    def __init__(
        self, emit: NodeEmitter, cosines: relax.Expr, sines: relax.Expr, interleaved: bool
    ) -> None:
        if len(shape_of(cosines)) != 2:
            raise emit.error(f"has cosines of {list(shape_of(cosines))}; they must have 2 axes.")
        check_shape(emit, sines, shape_of(cosines), "sines")
        self._cosines, self._sines, self._interleaved = cosines, sines, interleaved
        self.pairs = shape_of(cosines)[1]

    def rotated(self, emit: NodeEmitter, heads: relax.Expr, positions: relax.Expr) -> relax.Expr:
        """Rotate the first columns of ``[batch, heads, rows, columns]``; others stay.

        Parameters
        ----------
        emit : NodeEmitter
        heads : relax.Expr
        positions : relax.Expr
            ``[batch, rows]``, or ``[1, rows]`` if images share them.
        """
        shape, pairs = shape_of(heads), self.pairs
        if 2 * pairs > shape[3]:
            raise emit.error(f"rotates {2 * pairs} of {shape[3]} columns.")
        images, rows = shape_of(positions)
        cosines, sines = (
            emit.reshape(emit(relax.op.take(table, positions, 0)), [images, 1, rows, pairs])
            for table in (self._cosines, self._sines)
        )
        left, right = self._halves(emit, emit.slice(heads, 3, 0, 2 * pairs))
        turned = [
            _combined(emit, relax.op.subtract, left, cosines, right, sines),
            _combined(emit, relax.op.add, left, sines, right, cosines),
        ]
        if self._interleaved:
            joined = emit.reshape(emit(relax.op.stack(turned, -1)), [*shape[:3], 2 * pairs])
            turned = [joined]
        if 2 * pairs < shape[3]:
            turned.append(emit.slice(heads, 3, 2 * pairs, shape[3]))
        return turned[0] if len(turned) == 1 else emit(relax.op.concat(turned, 3))

    def _halves(self, emit: NodeEmitter, columns: relax.Expr) -> list[relax.Expr]:
        """Return the first and the second column of each pair."""
        if not self._interleaved:
            pairs = self.pairs
            return [emit.slice(columns, 3, begin, begin + pairs) for begin in (0, pairs)]
        shape = shape_of(columns)[:3]
        apart = emit.reshape(columns, [*shape, self.pairs, 2])
        parts = [emit.slice(apart, 4, part, part + 1) for part in range(2)]
        return [emit.reshape(part, [*shape, self.pairs]) for part in parts]


def _combined(
    emit: NodeEmitter,
    build: Callable[[relax.Expr, relax.Expr], relax.Expr],
    left: relax.Expr,
    of_left: relax.Expr,
    right: relax.Expr,
    of_right: relax.Expr,
) -> relax.Expr:
    """Return the sum, or the difference, of two products."""
    products = (emit(relax.op.multiply(x, y)) for x, y in ((left, of_left), (right, of_right)))
    return emit(build(*products))
