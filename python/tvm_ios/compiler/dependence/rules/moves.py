# SPDX-License-Identifier: Apache-2.0
"""Operators that give a tensor another shape, or its axes another order.

Where that changes nothing in what is kept, the result has the key of the operand: networks of
different sizes may differ in such moves.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..combine import combine
from ..meaning import Meaning, Operation, ValueRule, broadcast
from ..refusal import RefusalError
from ..value import Carried, Shape, Tracking, Value


def _reshape(tracking: Tracking, operation: Operation) -> Value:
    data, (shape,) = operation.data, operation.shapes
    carried = tuple(_reshaped(c, data.shape, shape, tracking.size) for c in data.carried)
    if len({c.axis for c in carried}) < len(carried):
        raise RefusalError("merges two axes that both have them")
    array = None if data.array is None else data.array.reshape(shape)
    kept = tracking.kept_shape(shape, carried)
    return replace(data, shape=shape, kept=kept, carried=carried, array=array)


def _reshaped(carried: Carried, before: Shape, after: Shape, size: int) -> Carried:
    """Return where rows or positions are after a reshape.

    Their index has a stride among all elements in row-major order. The axis that has them now is
    the one whose index comprises it.
    """
    stride = carried.inner * math.prod(before[carried.axis + 1 :])
    if not stride:
        raise RefusalError("has no elements")
    for axis, length in enumerate(after):
        own = math.prod(after[axis + 1 :])
        if own and stride % own == 0 and (length * own) % (size * stride) == 0:
            return replace(
                carried, axis=axis, outer=length * own // (size * stride), inner=stride // own
            )
    raise RefusalError("divides rows into parts of others")


def _permute(tracking: Tracking, operation: Operation) -> Value:
    data, (shape,) = operation.data, operation.shapes
    axes = operation.attrs.axes
    order = [*reversed(range(operation.rank))] if axes is None else [int(a) for a in axes]
    order = [a % operation.rank for a in order]
    carried = tuple(replace(c, axis=order.index(c.axis)) for c in data.carried)
    longer = [a for a in order if data.kept[a] != 1]
    key = data.key
    if longer != sorted(longer):
        ranks = {a: i for i, a in enumerate(sorted(longer))}
        sizes = tuple(n for n in data.kept if n != 1)
        key = tracking.key("permute_dims", key, sizes, tuple(ranks[a] for a in longer))
    kept = tracking.kept_shape(shape, carried)
    return replace(data, shape=shape, key=key, kept=kept, carried=carried, array=None)


def _broadcast(tracking: Tracking, operation: Operation) -> Value:
    data, (shape,) = operation.data, operation.shapes
    if data.array is not None and not data.carried:
        return tracking.constant(np.broadcast_to(data.array, shape))
    meaning = Meaning([broadcast(data, len(shape))], lambda r: r[0], label="")
    result = combine(tracking, operation, meaning, 0)
    aligned = (1,) * (len(shape) - operation.rank) + data.kept
    key = data.key
    if aligned != result.kept:
        key = tracking.key("broadcast_to", key, data.kept, result.kept)
    return replace(result, key=key)


RULES: dict[str, ValueRule] = {
    **dict.fromkeys(("reshape", "expand_dims", "squeeze", "flatten", "nn.batch_flatten"), _reshape),
    "permute_dims": _permute,
    "broadcast_to": _broadcast,
}
