# SPDX-License-Identifier: Apache-2.0
"""Calls of what a module brings along: TIR, private and extern functions, branches, effects."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from support.calls import IMAGE, Mixed
from support.networks import (
    NATIVE,
    add_function,
    assert_close,
    check_scheduled,
    compile_plain,
    conv,
    few_stages,
    many_stages,
    run_vm,
)
from tvm_ios.transform import InterOperatorSchedule

op = relax.op


NOTES: list[np.ndarray] = []


@pytest.fixture(autouse=True, scope="module")
def _extern_functions() -> None:
    def negate(x, y) -> None:
        y.copyfrom(-x.numpy())

    def half(x):
        return tvm.runtime.tensor(x.numpy() / 2)

    def note(x) -> None:
        NOTES.append(x.numpy().copy())

    for function in (negate, half, note):
        name = f"tests_of_tvm_ios.{function.__name__}"
        tvm.register_global_func(name, function, override=True)


@pytest.mark.parametrize("cost_model", [few_stages, many_stages])
@pytest.mark.parametrize("function", ["tir", "function", "extern"])
def test_calls_of_functions_that_are_given(function: str, cost_model) -> None:
    check_scheduled(Mixed, function=function, cost_model=cost_model)


@pytest.mark.parametrize("condition", [True, False])
def test_branches(condition: bool) -> None:
    image = np.random.default_rng(0).standard_normal(IMAGE).astype("float32")
    check_scheduled(Mixed, function="branch", arguments=[image, np.array(condition)])


def test_effects_keep_their_order() -> None:
    image = np.random.default_rng(0).standard_normal(IMAGE).astype("float32")
    NOTES.clear()
    run_vm(compile_plain(Mixed), [image], "effects")
    expected = list(NOTES)
    NOTES.clear()
    scheduled = InterOperatorSchedule(NATIVE, function="effects", cost_model=few_stages)(Mixed)
    run_vm(compile_plain(scheduled), [image], "effects")
    assert len(NOTES) == len(expected) == 3
    for actual, wanted in zip(NOTES, expected, strict=True):
        assert_close(actual, wanted)


def test_a_function_that_others_call_can_be_scheduled() -> None:
    builder = relax.BlockBuilder()
    relu = lambda emit, x: emit(op.nn.relu(emit(conv(x, 20))))  # noqa: E731
    inner = add_function(builder, "inner", relu, IMAGE)
    add_function(builder, "main", lambda emit, x: emit(op.exp(emit(relax.Call(inner, [x])))), IMAGE)
    mod = builder.get()
    image = np.random.default_rng(0).standard_normal(IMAGE).astype("float32")
    (expected,) = run_vm(compile_plain(mod), [image])
    scheduled = check_scheduled(mod, function="inner")
    assert_close(run_vm(compile_plain(scheduled), [image])[0], expected)


def test_functions_that_nobody_calls_are_kept() -> None:
    scheduled = check_scheduled(Mixed, function="function")
    assert {"double", "tir", "extern", "branch"} <= {g.name_hint for g in scheduled.functions}
