# SPDX-License-Identifier: Apache-2.0
"""Products of matrices, and attention."""

from __future__ import annotations

from collections import Counter

import numpy as np

from ..meaning import GONE, Form, Meaning, MeaningRule, Operation, Role, gone
from ..ranges import kept_finite


def _matmul(operation: Operation) -> list[Meaning]:
    left, right = (len(v.shape) for v in operation.operands)
    result, total = len(operation.shapes[0]), Role(None, "product")
    batches = result - (left > 1) - (right > 1)  # axes that are aligned at their end
    a = [Role(batches - (left - 2) + axis) for axis in range(left - 2)]
    a += [Role(batches), total] if left > 1 else [total]
    b = [Role(batches - (right - 2) + axis) for axis in range(right - 2)]
    b += [total, Role(result - 1)] if right > 1 else [total]
    form: Form = "rows" if left > 1 and right > 1 else ""
    return [Meaning([a, b], lambda r: kept_finite(*r), form=form)]


def _einsum(operation: Operation) -> list[Meaning]:
    text = str(operation.attrs.subscripts).replace(" ", "")
    terms, arrow, result = text.partition("->")
    if "." in text or not arrow:
        return [Meaning([gone(v) for v in operation.operands])]
    roles = [
        [
            Role(result.index(letter)) if letter in result and Counter(term)[letter] == 1 else GONE
            for letter in term
        ]
        for term in terms.split(",")
    ]
    return [Meaning(roles, lambda r: kept_finite(*r))]


def _attention(operation: Operation) -> list[Meaning]:
    """Return the meaning of attention of ``[batch, rows, heads, columns]``."""
    masked = operation.attrs.causal_mask is not None or operation.attrs.window_size is not None
    keys = GONE if masked else Role(None, "keys")
    query = [Role(0), Role(1), Role(2), GONE]
    if masked:
        query[1] = GONE
    key, value = [Role(0), keys, Role(2), GONE], [Role(0), keys, Role(2), Role(3)]
    bias = [[Role(0), Role(2), Role(1), Role(None, "scores")]] * (len(operation.operands) - 3)
    if any(len(v.shape) != 4 for v in operation.operands):
        return [Meaning([gone(v) for v in operation.operands])]
    # Scores of minus infinity alone make NaN. A constant bias may show each row a key.
    shown = all(v.array is not None and _shows(v.array) for v in operation.operands[3:])
    return [Meaning([query, key, value, *bias], lambda r: kept_finite(*(r[:3] if shown else r)))]


def _shows(bias: np.ndarray) -> bool:
    """Return whether each row of a bias has a finite number, and none is positive infinity."""
    largest = bias.max(-1, initial=-np.inf)
    return bool(np.isfinite(largest).all())


RULES: dict[str, MeaningRule] = {
    "matmul": _matmul,
    "einsum": _einsum,
    "nn.attention": _attention,
    "nn.attention_bias": _attention,
}
