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
    masked : Range
        Those of them that are at no position of padding along another axis.
    """

    axis: int
    outer: int = 1
    inner: int = 1
    padding: Range = ANY
    masked: Range = ANY

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
    spread : frozenset of int
        Axes along which it is the same; what is kept has one element of them.
    range : Range
        Of all numbers in it.
    array : numpy.ndarray or None
        If it is constant.
    """

    shape: Shape
    key: int
    kept: Shape
    carried: tuple[Carried, ...] = ()
    spread: frozenset[int] = frozenset()
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
    keys : dict of Hashable to int
        What all networks that are compared have in common.
    sources : dict of int to Any
        By key: the operation that a value of this network is the result of.
    """

    size: int
    kept: int
    rows: bool
    keys: dict[Hashable, int] = field(default_factory=dict)
    sources: dict[int, Any] = field(default_factory=dict)

    def key(self, *what: Hashable) -> int:
        """Return a number that stands for a description, always the same one."""
        return self.keys.setdefault(what, len(self.keys))

    def kept_shape(
        self, shape: Shape, carried: tuple[Carried, ...], spread: frozenset[int] = frozenset()
    ) -> Shape:
        """Return the shape of what is kept of a tensor."""
        sizes = [1 if axis in spread else size for axis, size in enumerate(shape)]
        for c in carried:
            sizes[c.axis] = c.outer * self.kept * c.inner
        return tuple(sizes)

    def constant(self, array: np.ndarray) -> Value:
        """Return what is known of a constant."""
        known = ANY if self.rows else range_of(array)
        shape = array.shape
        return Value(shape, self._digest(array), shape, range=known, array=array)

    def thin(self, value: Value, last: int = 0) -> Value:
        """Return a constant with the axes along which it is the same as axes of spreading.

        The last ones, of the number ``last``, stay.
        """
        array = value.array
        if array is None or value.carried or not array.size:
            return value
        axes = range(array.ndim - last)
        spread = frozenset(a for a in axes if array.shape[a] > 1 and _is_spread(array, a))
        if not spread:
            return value
        first = array[tuple(slice(1) if a in spread else slice(None) for a in range(array.ndim))]
        return replace(value, key=self._digest(first), kept=first.shape, spread=spread)

    def whole(self, value: Value) -> Value:
        """Return a value without axes of spreading."""
        if not value.spread:
            return value
        kept = self.kept_shape(value.shape, value.carried)
        key = self.key("broadcast_to", value.key, value.kept, kept)
        return replace(value, key=key, kept=kept, spread=frozenset())

    def carrying(self, value: Value, axis: int, form: tuple[int, int]) -> Value:
        """Return a value as one that carries rows or positions along an axis.

        Raises
        ------
        RefusalError
            If it is neither constant nor the same along the axis, or not the same for all rows.
        """
        array = value.array
        if axis in value.spread:
            own = Carried(axis, *form, padding=value.range, masked=value.range)
            spread = value.spread - {axis}
            kept = self.kept_shape(value.shape, (*value.carried, own), spread)
            key = self.key("broadcast_to", value.key, value.kept, kept)
            return replace(
                value, key=key, kept=kept, carried=(*value.carried, own), spread=spread, array=None
            )
        if array is None:
            raise RefusalError("combines rows with what has as many, but is no row of each")
        outer, inner = form
        parts = _divided(array, axis, outer, self.size, inner)
        if self.rows and any(not _same(parts, axis + 1, row) for row in range(1, self.size)):
            raise RefusalError("reads a constant that differs between rows")
        new = Carried(axis, outer, inner, value.range, value.range)
        carried = self._triangles(array, (*value.carried, new))
        part = array
        for c in carried:
            whole = _divided(part, c.axis, c.outer, self.size, c.inner)
            part = whole.take(range(self.kept), c.axis + 1)
            part = part.reshape(*whole.shape[: c.axis], -1, *whole.shape[c.axis + 3 :])
        return replace(value, carried=carried, key=self._digest(part), kept=part.shape)

    def _triangles(self, array: np.ndarray, carried: tuple[Carried, ...]) -> tuple[Carried, ...]:
        """Return two axes of a constant with the range of what follows the other's position.

        A position of padding is behind all others. A mask that hides what follows a position
        therefore hides padding from it.
        """
        if self.rows or [c.form for c in carried] != [(1, 1)] * 2:
            return carried
        first, second = (
            np.expand_dims(np.arange(self.size), [a for a in range(array.ndim) if a != c.axis])
            for c in carried
        )
        order = np.broadcast_to(first - second, array.shape)
        behind = (array[order > 0], array[order < 0])
        return tuple(
            replace(c, masked=range_of(part)) for c, part in zip(carried, behind, strict=True)
        )

    def _digest(self, array: np.ndarray) -> int:
        digest = hashlib.sha1(np.ascontiguousarray(array).view(np.uint8).data).hexdigest()
        # What reads it says in which shape.
        return self.key("constant", str(array.dtype), array.size, digest)


def _divided(array: np.ndarray, axis: int, outer: int, size: int, inner: int) -> np.ndarray:
    shape = array.shape
    return array.reshape(*shape[:axis], outer, size, inner, *shape[axis + 1 :])


def _is_spread(array: np.ndarray, axis: int) -> bool:
    """Return whether an array is the same along an axis."""
    if not _same(array, axis, 1):
        return False
    return all(_same(array, axis, index) for index in range(2, array.shape[axis]))


def _same(parts: np.ndarray, axis: int, row: int) -> bool:
    """Return whether a row has the bits of the first one."""
    first, other = (np.ascontiguousarray(parts.take(i, axis)) for i in (0, row))
    return bool(first.tobytes() == other.tobytes())


Known = Any
"""A Value, a tuple of such, or a RefusalError for a tensor that must not be read."""
