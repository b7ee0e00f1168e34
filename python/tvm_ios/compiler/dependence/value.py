# SPDX-License-Identifier: Apache-2.0
"""What is known of a tensor: along which axes it has the rows or positions that are tracked."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .ranges import ANY, Range, range_of
from .refusal import RefusalError

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Carried:
    """An axis of a tensor that has the tracked rows or positions.

    Its index is ``(o * size + t) * inner + i`` for the row or position ``t``, as it is after a
    reshape that merges axes to one.

    Attributes
    ----------
    axis, outer, inner : int
    padding : Range
        The numbers at positions of padding, whatever the other indices are.
    """

    axis: int
    outer: int = 1
    inner: int = 1
    padding: Range = ANY

    @property
    def form(self) -> tuple[int, int]:
        """How the axis is divided."""
        return self.outer, self.inner


@dataclass(frozen=True)
class Value:
    """A tensor.

    Attributes
    ----------
    shape : tuple of int
    key : int
        Equal for tensors that are equal in the rows or positions that are kept.
    kept : tuple of int
        The shape of what is kept.
    carried : tuple of Carried
        Without any, the tensor depends on no row or position.
    range : Range
        Of all numbers in it.
    array : numpy.ndarray or None
        If it is constant.
    """

    shape: Shape
    key: int
    kept: Shape
    carried: tuple[Carried, ...] = ()
    range: Range = ANY
    array: np.ndarray | None = None

    def along(self, axis: int) -> Carried | None:
        """Return how an axis carries rows or positions; None if it does not."""
        return next((c for c in self.carried if c.axis == axis), None)


@dataclass
class Tracking:
    """Which rows or positions are tracked, and which of them are kept in what is compared.

    Attributes
    ----------
    size : int
        How many there are, at least 2; 0 if none are tracked.
    kept : int
        How many of the first are kept.
    rows : bool
        Whether they are rows, which never meet, or positions, the last of which are padding.
    """

    size: int
    kept: int
    rows: bool
    keys: dict[Hashable, int] = field(default_factory=dict)

    def key(self, *what: Hashable) -> int:
        """Return a number that stands for a description, always the same one."""
        return self.keys.setdefault(what, len(self.keys))

    def kept_shape(self, shape: Shape, carried: tuple[Carried, ...]) -> Shape:
        """Return the shape of what is kept of a tensor."""
        sizes = list(shape)
        for c in carried:
            sizes[c.axis] = c.outer * self.kept * c.inner
        return tuple(sizes)

    def constant(self, array: np.ndarray) -> Value:
        """Return what is known of a constant."""
        known = ANY if self.rows else range_of(array)
        return Value(array.shape, self._digest(array), array.shape, (), known, array)

    def carrying(self, value: Value, axis: int, form: tuple[int, int]) -> Value:
        """Return a constant as one that carries rows or positions along an axis.

        Raises
        ------
        RefusalError
            If it is not constant, or not the same for all rows.
        """
        array = value.array
        if array is None:
            raise RefusalError("combines rows with what has as many, but is no row of each")
        outer, inner = form
        parts = _divided(array, axis, outer, self.size, inner)
        if self.rows and any(not _same(parts, axis + 1, row) for row in range(1, self.size)):
            raise RefusalError("reads a constant that differs between rows")
        carried = (*value.carried, Carried(axis, outer, inner, value.range))
        kept = array
        for c in carried:
            whole = _divided(kept, c.axis, c.outer, self.size, c.inner)
            kept = whole.take(range(self.kept), c.axis + 1)
            kept = kept.reshape(*whole.shape[: c.axis], -1, *whole.shape[c.axis + 3 :])
        return replace(value, carried=carried, key=self._digest(kept), kept=kept.shape)

    def _digest(self, array: np.ndarray) -> int:
        # Constants of one element without axes of length 1 are the same in all networks.
        digest = hashlib.sha1(np.ascontiguousarray(array).view(np.uint8).data).hexdigest()
        return self.key("constant", str(array.dtype), array.shape, digest)


def _divided(array: np.ndarray, axis: int, outer: int, size: int, inner: int) -> np.ndarray:
    shape = array.shape
    return array.reshape(*shape[:axis], outer, size, inner, *shape[axis + 1 :])


def _same(parts: np.ndarray, axis: int, row: int) -> bool:
    """Return whether a row has the bits of the first one."""
    first, other = (np.ascontiguousarray(parts.take(i, axis)) for i in (0, row))
    return bool(first.tobytes() == other.tobytes())


Known = Any
"""A Value, a tuple of such, or a RefusalError for a tensor that must not be read."""
