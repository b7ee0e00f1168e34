# SPDX-License-Identifier: Apache-2.0
"""The weights of an attention, which are 0 where a mask hides everything.

PyTorch writes ``where(max(scores) == -inf, 0, softmax(scores))``. The softmax alone would be NaN.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..combine import combine
from ..meaning import Operation
from ..ranges import TRUTH, ZERO, Range
from ..value import Tracking, Value
from .elementwise import RULES as ELEMENTWISE


def where(tracking: Tracking, operation: Operation) -> Value:
    """Return what is known of a choice, also if it is one between a softmax and 0."""
    (meaning,) = ELEMENTWISE["where"](operation)
    chosen = combine(tracking, operation, meaning, 0)
    if not _is_guarded(tracking, *operation.operands):
        return chosen
    carried = tuple(
        replace(c, padding=_weights(c.padding), masked=_weights(c.masked)) for c in chosen.carried
    )
    return replace(chosen, range=TRUTH, carried=carried)


def _weights(known: Range) -> Range:
    return known if known == ZERO else TRUTH


def _is_guarded(tracking: Tracking, condition: Value, zero: Value, weights: Value) -> bool:
    """Return whether weights are replaced by 0 where all of their scores are minus infinity."""
    test, softmax = (tracking.sources.get(value.key) for value in (condition, weights))
    if test is None or test.name != "equal" or softmax is None or softmax.name != "nn.softmax":
        return False
    largest, infinite = test.operands
    source, scores = tracking.sources.get(largest.key), softmax.data
    if source is None or source.name != "max" or source.data.key != scores.key:
        return False
    axis = int(softmax.attrs.axis) % len(scores.shape)
    reduced = [int(a) % len(scores.shape) for a in source.attrs.axis or ()]
    along = (*scores.shape[:axis], 1, *scores.shape[axis + 1 :])
    numbers = _is(infinite, -np.inf) and _is(zero, 0.0)
    bounded = not scores.range.nan and scores.range.high < np.inf
    return numbers and bounded and reduced == [axis] and condition.shape == along


def _is(value: Value, number: float) -> bool:
    return value.array is not None and bool((value.array == number).all())
