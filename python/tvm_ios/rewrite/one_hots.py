# SPDX-License-Identifier: Apache-2.0
"""Products that choose rows of a table, as gathers.

TensorFlow exports small embeddings as a comparison of each index with all places, and a product of
that with the table. An index out of range yields zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tvm
from tvm import relax
from tvm.relax.dpl import is_const, wildcard

from ..relax_ir.constants import constant_array, held_array
from ..relax_ir.expressions import held_shape, is_float32, known_shape, op_name
from ..sizes.size import AnySize, known_equal
from .compositions import raise_by
from .matching import Matcher, operation


def take_rows(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Take rows of tables instead of multiplying them by ones and zeros."""
    return raise_by({"matmul": (_Chosen(),)}, mod, func)


class _Chosen:
    """The pattern of a product of a constant table and rows that each have at most a single 1."""

    def __init__(self) -> None:
        self._equal = operation("equal", wildcard(), wildcard())
        self._on, self._off, self._table = is_const(), is_const(), is_const()
        self._cast = operation("astype", self._equal)
        self._hot = self._cast | operation("where", self._equal, self._on, self._off)
        self._rows = operation("reshape", self._hot, wildcard())
        self._pattern = operation("matmul", self._rows | self._hot, self._table)

    def raised(self, matcher: Matcher, call: relax.Call) -> relax.Expr | None:
        """Return the rows that are chosen; None if it is another product."""
        match = matcher.match(self._pattern, call)
        if match is None or not is_float32(call):
            return None
        table, equal = held_array(match.call(self._table)), match.call(self._equal)
        ones = match.is_number(self._on, 1.0) and match.is_number(self._off, 0.0)
        if table.ndim != 2 or not ones or not np.isfinite(table).all():
            return None
        shape = known_shape(call)
        places = _places(equal, len(table))
        if places is None or shape is None:
            return None
        last, one = (relax.const(n, str(places.ty.dtype)) for n in (len(table), 1))
        padded = np.pad(table, ((1, 1), (0, 0)))  # what is out of range is limited to its ends
        moved = relax.op.add(relax.op.minimum(_listed(matcher, places), last), one)
        rows = relax.op.take(relax.const(padded), moved, axis=0, mode="clip")
        same = _are([*held_shape(places)[:-1], table.shape[1]], shape)
        return rows if same else relax.op.reshape(rows, shape)


def _places(equal: relax.Call, count: int) -> relax.Expr | None:
    """Return the integers that a comparison finds among ``0, 1, ..., count - 1``.

    Their last axis has one element.
    """
    left, right = equal.args
    for numbers, given in ((left, right), (right, left)):
        array = constant_array(numbers)
        if array is None or array.shape[-1:] != (count,):
            continue
        if not np.array_equal(np.broadcast_to(np.arange(count), array.shape), array):
            continue
        own, whole = known_shape(given), known_shape(equal)
        if own and whole and _are(own[-1:], [1]) and _are([*own[:-1], count], whole):
            dtype = str(given.ty.dtype)
            fits = "int" in dtype and count < np.iinfo(dtype).max  # also one beyond the last place
            return given if fits else None
    return None


def _listed(matcher: Matcher, places: relax.Expr) -> relax.Expr:
    """Return integers without their last axis."""
    shape, value = held_shape(places)[:-1], matcher.value(places)
    if op_name(value) in ("expand_dims", "reshape"):
        own = known_shape(value.args[0])
        if own is not None and _are(own, shape):
            return value.args[0]
    return relax.op.reshape(places, shape)


def _are(shape: Sequence[AnySize], wanted: Sequence[AnySize]) -> bool:
    return len(shape) == len(wanted) and all(map(known_equal, shape, wanted))
