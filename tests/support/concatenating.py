# SPDX-License-Identifier: Apache-2.0
"""Networks of concatenations, whose parts have ``width`` channels or multiples of it."""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax

from support.networks import conv

Body = Callable[..., relax.Expr]
op = relax.op


def two_parts(first: int, second: int) -> Body:
    def body(emit, x):
        parts = [emit(conv(x, k, 1, seed=k)) for k in (first, second)]
        both = emit(op.concat(parts, axis=1))
        return emit(conv(both, 20, 1, seed=1))

    return body


def part_read_elsewhere(width: int) -> Body:
    def body(emit, x):
        left, right = (emit(conv(x, width, 1, seed=s)) for s in (1, 2))
        both = emit(op.concat([left, right], axis=1))
        return emit(op.add(emit(conv(both, 20, 1, seed=3)), emit(conv(left, 20, 1, seed=4))))

    return body


def nested(width: int) -> Body:
    """DenseNet as it is often written: each concatenation is part of the next."""

    def body(emit, x):
        for seed in range(3):
            x = emit(op.concat([x, emit(conv(x, width, 3, seed=seed))], axis=1))
        return emit(conv(x, 20, 1, seed=9))

    return body


def dense(width: int) -> Body:
    """DenseNet as it is exported: every layer concatenates all that came before."""

    def body(emit, x):
        features = [emit(conv(x, width, 1, seed=0))]
        for seed in range(1, 4):
            both = emit(op.concat(features, axis=1)) if len(features) > 1 else features[0]
            features.append(emit(conv(both, width, 3, seed=seed)))
        return emit(conv(emit(op.concat(features, axis=1)), 20, 1, seed=9))

    return body


def twice_the_same(width: int) -> Body:
    def body(emit, x):
        part = emit(conv(x, width, 1, seed=1))
        return emit(conv(emit(op.concat([part, part], axis=1)), 20, 1, seed=2))

    return body


def in_two(width: int) -> Body:
    """A part that is not first in either: it can be in place in one of them only."""

    def body(emit, x):
        a, b, c = (emit(conv(x, width, 1, seed=s)) for s in range(3))
        left = emit(op.concat([a, b, c], axis=1))
        right = emit(op.concat([c, b], axis=1))
        return emit(op.add(emit(conv(left, 20, 1, seed=4)), emit(conv(right, 20, 1, seed=5))))

    return body


def result_is_concatenated(width: int) -> Body:
    def body(emit, x):
        return emit(op.concat([emit(conv(x, width, 1, seed=s)) for s in (1, 2)], axis=1))

    return body
