# SPDX-License-Identifier: Apache-2.0
"""Concatenation in place: nothing is copied that need not be, and results stay the same."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_ios
from support.concatenating import (
    dense,
    in_two,
    nested,
    part_read_elsewhere,
    result_is_concatenated,
    twice_the_same,
    two_parts,
)
from support.networks import (
    NATIVE,
    check_scheduled,
    few_stages,
    isa_of,
    many_stages,
    relax_module,
)
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.frontend.relax_modules import from_relax
from tvm_ios.sizes.size import OpenSizes

LANES = isa_of(NATIVE)[0].lanes


# What is built, the channels of the input, and how many parts have to be copied.
CASES = {
    "whole blocks": (two_parts(LANES, 2 * LANES), 20, 0),
    "the last block partly filled": (two_parts(LANES, 5), 20, 0),
    "the first block partly filled": (two_parts(5, LANES), 20, 2),
    "a part that others read": (part_read_elsewhere(LANES), 20, 0),
    "nested": (nested(LANES), 2 * LANES, 1),  # the function's parameter
    "dense": (dense(LANES), 20, 0),
    "the same part twice": (twice_the_same(LANES), 20, 2),
    "a part of two": (in_two(LANES), 20, 2),
}


def _of_open_batch(body, channels: int) -> tvm.IRModule:
    batch = tvm.tirx.Var("n", "int64")
    return relax_module(body, relax.TensorType((batch, channels, 5, 6), "float32"))


def _copied(mod: tvm.IRModule) -> int:
    """Return how many parts of concatenations are copied."""
    scheduler = Scheduler.prepare(mod, NATIVE, cost_model=few_stages)
    concats = [
        i
        for i in scheduler.stage_builder.lowered.implementations
        if scheduler.graph.operators[i.operators[0]].kind == "concat"
    ]
    return sum(len(i.inputs) for i in concats)


@pytest.mark.parametrize(("body", "channels", "copied"), CASES.values(), ids=CASES)
def test_what_is_copied(body, channels: int, copied: int) -> None:
    assert _copied(relax_module(body, (1, channels, 5, 6))) == copied
    opened = OpenSizes()
    assert _copied(from_relax(_of_open_batch(body, channels), opened=opened)) == copied


@pytest.mark.parametrize(("body", "channels", "copied"), CASES.values(), ids=CASES)
def test_any_batch(body, channels: int, copied: int) -> None:
    model = tvm_ios.compile(_of_open_batch(body, channels), search=False, threads=2)
    for batch in (1, 2, 5):
        shape = (batch, channels, 5, 6)
        x = np.random.default_rng(batch).standard_normal(shape).astype("float32")
        fixed = tvm_ios.compile(relax_module(body, shape), search=False, threads=1)
        np.testing.assert_allclose(model(x), fixed(x), rtol=1e-4, atol=1e-5)


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
    check_scheduled(
        relax_module(result_is_concatenated(LANES), (1, 20, 5, 6)), cost_model=few_stages
    )
