# SPDX-License-Identifier: Apache-2.0
"""Sizes that depend on open dimensions, as the metadata of a library has them.

A size is a number, the name of a dimension, or ``[operator, a, b]`` of two sizes. A condition is
the same; it holds unless it is 0.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "min": min,
    "max": max,
}


def size_at(size: Any, dimensions: Mapping[str, int]) -> int:
    """Return a size for some dimensions.

    Parameters
    ----------
    size : number, str or list
        See the module.
    dimensions : mapping of str to int
    """
    if isinstance(size, int):
        return size
    if isinstance(size, str):
        return dimensions[size]
    name, a, b = size
    return _OPERATORS[name](size_at(a, dimensions), size_at(b, dimensions))
