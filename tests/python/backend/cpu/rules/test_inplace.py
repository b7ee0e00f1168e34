# SPDX-License-Identifier: Apache-2.0
"""Concatenation in place: nothing is copied that need not be, and results stay the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tvm import relax

from support.networks import (
    NATIVE,
    check_scheduled,
    conv,
    few_stages,
    isa_of,
    many_stages,
    relax_module,
)
from tvm_ios.compiler.scheduler import Scheduler

LANES = isa_of(NATIVE)[0].lanes
op = relax.op


def two_parts(first: int, second: int) -> Callable[..., relax.Expr]:
    def body(emit, x):
        parts = [emit(conv(x, k, 1, seed=k)) for k in (first, second)]
        both = emit(op.concat(parts, axis=1))
        return emit(conv(both, 20, 1, seed=1))

    return body


def part_read_elsewhere(emit, x):
    left, right = (emit(conv(x, LANES, 1, seed=s)) for s in (1, 2))
    both = emit(op.concat([left, right], axis=1))
    return emit(op.add(emit(conv(both, 20, 1, seed=3)), emit(conv(left, 20, 1, seed=4))))


def nested(emit, x):
    """DenseNet as it is often written: each concatenation is part of the next."""
    for seed in range(3):
        x = emit(op.concat([x, emit(conv(x, LANES, 3, seed=seed))], axis=1))
    return emit(conv(x, 20, 1, seed=9))


def dense(emit, x):
    """DenseNet as it is exported: every layer concatenates all that came before."""
    features = [emit(conv(x, LANES, 1, seed=0))]
    for seed in range(1, 4):
        both = emit(op.concat(features, axis=1)) if len(features) > 1 else features[0]
        features.append(emit(conv(both, LANES, 3, seed=seed)))
    return emit(conv(emit(op.concat(features, axis=1)), 20, 1, seed=9))


def twice_the_same(emit, x):
    part = emit(conv(x, LANES, 1, seed=1))
    return emit(conv(emit(op.concat([part, part], axis=1)), 20, 1, seed=2))


def in_two(emit, x):
    """A part that is not first in either: it can be in place in one of them only."""
    a, b, c = (emit(conv(x, LANES, 1, seed=s)) for s in range(3))
    left = emit(op.concat([a, b, c], axis=1))
    right = emit(op.concat([c, b], axis=1))
    return emit(op.add(emit(conv(left, 20, 1, seed=4)), emit(conv(right, 20, 1, seed=5))))


def result_is_concatenated(emit, x):
    return emit(op.concat([emit(conv(x, LANES, 1, seed=s)) for s in (1, 2)], axis=1))


# What is built, the channels of the input, and how many parts have to be copied.
CASES = {
    "whole blocks": (two_parts(LANES, 2 * LANES), 20, 0),
    "the last block partly filled": (two_parts(LANES, 5), 20, 0),
    "the first block partly filled": (two_parts(5, LANES), 20, 2),
    "a part that others read": (part_read_elsewhere, 20, 0),
    "nested": (nested, 2 * LANES, 1),  # the function's parameter
    "dense": (dense, 20, 0),
    "the same part twice": (twice_the_same, 20, 2),
    "a part of two": (in_two, 20, 2),
}


@pytest.mark.parametrize(("body", "channels", "copied"), CASES.values(), ids=CASES)
def test_what_is_copied(body, channels: int, copied: int) -> None:
    mod = relax_module(body, (1, channels, 5, 6))
    scheduler = Scheduler.prepare(mod, NATIVE, cost_model=few_stages)
    concats = [
        i
        for i in scheduler.stage_builder.lowered.implementations
        if scheduler.graph.operators[i.operators[0]].kind == "concat"
    ]
    assert sum(len(i.inputs) for i in concats) == copied


@pytest.mark.parametrize(
    ("batch", "cost_model"),
    [
        (1, few_stages),
        (2, many_stages),
        pytest.param(1, many_stages, marks=pytest.mark.slow),
        pytest.param(2, few_stages, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(("body", "channels", "copied"), CASES.values(), ids=CASES)
def test_results_stay_the_same(body, channels: int, copied: int, batch: int, cost_model) -> None:
    check_scheduled(relax_module(body, (batch, channels, 5, 6)), cost_model=cost_model)


def test_a_concatenation_that_leaves_the_function() -> None:
    check_scheduled(relax_module(result_is_concatenated, (1, 20, 5, 6)), cost_model=few_stages)
