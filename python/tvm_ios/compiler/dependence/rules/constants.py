# SPDX-License-Identifier: Apache-2.0
"""Moves of constants, which rewrites leave where they make parts of what was folded before."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..meaning import Operation
from .parts import sliced


def folded(operation: Operation) -> np.ndarray | None:
    """Return the result of an operator that moves a constant; None for any other."""
    rule = _RULES.get(operation.name)
    if rule is None or len(operation.operands) != 1 or operation.data.array is None:
        return None
    return rule(operation, operation.data.array)


def _slice(operation: Operation, array: np.ndarray) -> np.ndarray | None:
    parts = sliced(operation)
    if parts is None:
        return None
    index = [slice(None)] * array.ndim
    for axis, begin, end, step in parts:
        if step < 1:
            return None
        index[axis] = slice(begin, end, step)
    return array[tuple(index)]


def _permute(operation: Operation, array: np.ndarray) -> np.ndarray:
    axes = operation.attrs.axes
    return array.transpose(None if axes is None else [int(a) for a in axes])


def _reshape(operation: Operation, array: np.ndarray) -> np.ndarray:
    return array.reshape(operation.shapes[0])


def _broadcast(operation: Operation, array: np.ndarray) -> np.ndarray:
    return np.broadcast_to(array, operation.shapes[0])


_RULES: dict[str, Callable[[Operation, np.ndarray], np.ndarray | None]] = {
    "strided_slice": _slice,
    "permute_dims": _permute,
    "broadcast_to": _broadcast,
    **dict.fromkeys(("reshape", "expand_dims", "squeeze", "flatten", "nn.batch_flatten"), _reshape),
}
