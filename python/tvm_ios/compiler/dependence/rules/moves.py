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
    data, (shape,) = tracking.whole(operation.data), operation.shapes
    carried = tuple(_reshaped(c, data.shape, shape, tracking.size) for c in data.carried)
    if len({c.axis for c in carried}) < len(carried):
        raise RefusalError("merges two axes that both have them")
    kept = tracking.kept_shape(shape, carried)
    return replace(data, shape=shape, kept=kept, carried=carried)


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
    data, (shape,) = tracking.whole(operation.data), operation.shapes
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
    return replace(data, shape=shape, key=key, kept=kept, carried=carried)


def _broadcast(tracking: Tracking, operation: Operation) -> Value:
    data, (shape,) = operation.data, operation.shapes
    meaning = Meaning([broadcast(data, len(shape))], lambda r: r[0], form="pointwise")
    return replace(combine(tracking, operation, meaning, 0), key=data.key)


def _index(tracking: Tracking, operation: Operation) -> Value:
    """Return a tensor at indices each of which is that of an axis of the result.

    PyTorch writes so what a mask is for each query.
    """
    data, (shape,) = tracking.whole(operation.data), operation.shapes
    indices = [v.array for v in operation.operands[1:]]
    rank = max(0 if i is None else i.ndim for i in indices)
    order = {}
    for own, its in enumerate(indices):
        if its is None or not _counts(its, data.shape[own]):
            raise RefusalError("has no rule for these indices")
        if its.size > 1:
            order[own] = rank - its.ndim + _longer(its)[0]
    if [*order.values()] != sorted(set(order.values())):
        raise RefusalError("has no rule for indices in this order")
    order |= {own: own - len(indices) + rank for own in range(len(indices), operation.rank)}
    carried = tuple(replace(c, axis=order[c.axis]) for c in data.carried)
    kept = tracking.kept_shape(shape, carried)
    return replace(data, shape=shape, kept=kept, carried=carried)


def _counts(indices: np.ndarray, length: int) -> bool:
    """Return whether indices are all of an axis in their order, along an axis of their own."""
    return len(_longer(indices)) < 2 and np.array_equal(indices.reshape(-1), np.arange(length))


def _longer(indices: np.ndarray) -> list[int]:
    return [axis for axis, n in enumerate(indices.shape) if n > 1]


RULES: dict[str, ValueRule] = {
    **dict.fromkeys(("reshape", "expand_dims", "squeeze", "flatten", "nn.batch_flatten"), _reshape),
    "permute_dims": _permute,
    "broadcast_to": _broadcast,
    "index_tensor": _index,
}
