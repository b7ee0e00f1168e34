# SPDX-License-Identifier: Apache-2.0
"""The size and depth of nested values, computed without expanding shared parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .ast import FuncType, TupleType, Type

_MOST = 1 << 60  # sizes of shared parts multiply, and could have thousands of digits


class Extent(NamedTuple):
    """The size and depth of a value.

    Attributes
    ----------
    size : int
        The number of parts, counting a shared one for each use; at most 2**60.
    depth : int
        The number of nested levels.
    """

    size: int
    depth: int


class Extents:
    """The extents of values, each of which is visited once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, Extent]] = {}  # keeps ids unique

    def of_type(self, type_: Type | None) -> Extent:
        """Return the extent of a type."""
        return self._of(type_, _inner)

    def of_attribute(self, value: object) -> Extent:
        """Return the extent of an attribute, or of another value whose parts are in tuples."""
        return self._of(value, _fields)

    def _of(self, root: object, inner: Callable[[Any], Sequence[object]]) -> Extent:
        """Compute an extent without recursion, because damaged files may be deep."""
        known = self._known
        stack = [(root, False)]
        while stack:
            value, entered = stack.pop()
            if id(value) in known:
                continue
            within = inner(value)
            if entered or not within:
                parts = [known[id(part)][1] for part in within]
                size = min(1 + sum(part.size for part in parts), _MOST)
                depth = max((1 + part.depth for part in parts), default=0)
                known[id(value)] = (value, Extent(size, depth))
            else:
                stack.append((value, True))
                stack.extend((part, False) for part in within)
        return known[id(root)][1]


def _inner(type_: Type | None) -> Sequence[object]:
    if isinstance(type_, TupleType):
        return type_.fields
    if isinstance(type_, FuncType):
        return (*type_.params, type_.result)
    return ()


def _fields(value: object) -> Sequence[object]:
    return value if isinstance(value, tuple) else ()
