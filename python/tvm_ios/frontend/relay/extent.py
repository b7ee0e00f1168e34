# SPDX-License-Identifier: Apache-2.0
"""How much a nested value has when it is written out, found without writing it out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .ast import FuncType, TupleType, Type

_MOST = 1 << 60  # sizes of shared parts multiply, and would have thousands of digits


class Extent(NamedTuple):
    """How much a value has.

    Attributes
    ----------
    size : int
        How many parts, a shared one once for each use; 2**60 stands for all above.
    depth : int
        How many levels are within it.
    """

    size: int
    depth: int


class Extents:
    """The extents of values, each of which is looked at once, however often it is used."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, Extent]] = {}  # with what keeps the identity taken

    def of_type(self, type_: Type | None) -> Extent:
        """The extent of a type."""
        return self._of(type_, _inner)

    def of_attribute(self, value: object) -> Extent:
        """The extent of an attribute, or of another value whose parts are in tuples."""
        return self._of(value, _fields)

    def _of(self, root: object, inner: Callable[[Any], Sequence[object]]) -> Extent:
        """Without recursion, as what is damaged is deep."""
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
