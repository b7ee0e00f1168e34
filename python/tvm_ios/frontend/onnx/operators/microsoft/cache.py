# SPDX-License-Identifier: Apache-2.0
"""A cache of keys or values, in which an attention writes the rows of a step behind the past."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm import relax

from ....emitter import constant, constant_array, shape_of
from ...node_emitter import NodeEmitter
from ..index import tensor_scatter
from .domain import check_shape


@dataclass(frozen=True)
class Cache:
    """Where the rows of a step are written.

    Attributes
    ----------
    begins : relax.Expr
        ``[batch]``, the place of each image's first new row, in int64.
    known : int or None
        That place, if it is known and all images have it.
    before, length : int
        The rows of the cache before the step and after it.
    """

    begins: relax.Expr
    known: int | None
    before: int
    length: int

    @classmethod
    def of(
        cls,
        emit: NodeEmitter,
        rows: relax.Expr,
        past: relax.Expr | None,
        last: relax.Expr,
        total: int,
    ) -> Cache:
        """Return the cache of new rows.

        Parameters
        ----------
        emit : NodeEmitter
        rows : relax.Expr
            ``[batch, heads, rows, columns]``
        past : relax.Expr or None
            The cache before the step.
        last : relax.Expr
            The place of each image's last row.
        total : int
            The largest number of rows after the step. If that is the number of new ones, they are
            all rows, of which some may be padding.

        Raises
        ------
        ModelError
            If the rows do not fit.
        """
        batch, _, count, _ = shape_of(rows)
        before = 0 if past is None or len(shape_of(past)) != 4 else shape_of(past)[2]
        length = max(total, before)
        if shape_of(last) not in ((batch,), (batch, 1)):
            raise emit.error(f"has lengths of {list(shape_of(last))} for {batch} images.")
        if not count <= total <= before + count:
            raise emit.error(f"has {total} rows after a step of {count}, and {before} before it.")
        if count == total:
            return cls(constant(np.zeros(batch, "int64")), 0, before, length)
        lasts = emit.cast(emit.reshape(last, [batch]), "int64")
        places = constant_array(lasts)
        if places is None:
            begins = emit(relax.op.subtract(lasts, emit.scalar(count - 1, lasts)))
            # What is taken is the place itself, which is checked by it.
            valid = emit.positions(min(before, total - count) + 1, "int64")
            return cls(emit(relax.op.take(valid, begins, 0)), None, before, length)
        first = places - (count - 1)
        if first.min() < 0 or first.max() > before or places.max() >= total:
            raise emit.error(
                f"has its last rows at {places.tolist()}, of {total} rows with {before} past ones."
            )
        known = int(first[0]) if (first == first[0]).all() else None
        return cls(constant(first), known, before, length)

    def positions(self, emit: NodeEmitter, count: int) -> relax.Expr:
        """Return the places of new rows, ``[batch or 1, rows]``."""
        if self.known is not None:
            return constant(np.arange(self.known, self.known + count)[np.newaxis])
        places = emit.reshape(emit.positions(count, "int64"), [1, count])
        begins = emit.reshape(self.begins, [shape_of(self.begins)[0], 1])
        return emit(relax.op.add(begins, places))

    def written(
        self, emit: NodeEmitter, past: relax.Expr | None, rows: relax.Expr, what: str
    ) -> relax.Expr:
        """Return the cache after the step; rows behind the new ones are 0."""
        batch, heads, _, columns = shape_of(rows)
        if past is not None:
            check_shape(emit, past, [batch, heads, self.before, columns], f"past {what}")
        if self.known is not None:
            kept = [] if past is None else [emit.slice(past, 2, 0, self.known)]
            if not kept and self.known:
                raise emit.error(f"has no past {what}, of which {self.known} are read.")
            return self._joined(emit, [*kept, rows])
        if past is None:
            raise emit.error(f"has no past {what} before those of this step.")
        places = emit.along(emit.positions(self.before, "int64"), 2, 4)
        begins = emit.reshape(self.begins, [batch, 1, 1, 1])
        is_past = emit(relax.op.less(places, begins))
        kept = [emit(relax.op.where(is_past, past, emit.scalar(0, past)))]
        return tensor_scatter(emit, self._joined(emit, kept), rows, self.begins, axis=2)

    def _joined(self, emit: NodeEmitter, parts: list[relax.Expr]) -> relax.Expr:
        """Return rows one after the other, and zeros behind them."""
        batch, heads, _, columns = shape_of(parts[0])
        left = self.length - sum(shape_of(part)[2] for part in parts)
        if left:
            parts = [*parts, emit.scalar(0, parts[0])]
            shape = (batch, heads, left, columns)
            parts[-1] = emit(relax.op.broadcast_to(parts[-1], shape))
        filled = [part for part in parts if shape_of(part)[2]]
        return filled[0] if len(filled) == 1 else emit(relax.op.concat(filled, 2))

    def mask(self, emit: NodeEmitter, count: int, window: int, dtype: str) -> relax.Expr:
        """Return what hides keys behind each query, and those that are too far before it.

        Parameters
        ----------
        emit : NodeEmitter
        count : int
            The number of queries.
        window : int
            The number of keys that a query reads at most; 0 or less for all.
        dtype : str
        """
        if self.known is not None:
            emit.allocate([count, self.length], dtype)
            last = np.arange(self.known, self.known + count)[:, np.newaxis]
            places = np.arange(self.length)
            shown = (places <= last) & ((places > last - window) | (window <= 0))
            return constant(np.where(shown, 0, -np.inf).astype(dtype)[np.newaxis, np.newaxis])
        places = emit.along(emit.positions(self.length, "int64"), 3, 4)
        last = self.positions(emit, count)
        last = emit.reshape(last, [shape_of(last)[0], 1, count, 1])
        read = emit(relax.op.less_equal(places, last))
        if window > 0:
            before = emit(relax.op.subtract(last, emit.scalar(window, last)))
            read = emit(relax.op.logical_and(read, emit(relax.op.greater(places, before))))
        shown, hidden = emit.literal(0.0, dtype), emit.literal(-np.inf, dtype)
        return emit(relax.op.where(read, shown, hidden))
