# SPDX-License-Identifier: Apache-2.0
"""Calls of what a module brings along: TIR, private and extern functions, branches, effects."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from support import (
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

IMAGE = (1, 20, 6, 6)
op = relax.op


@I.ir_module
class Mixed:
    """A TIR function of the user's, a private function, an extern one, a branch, and effects."""

    @T.prim_func(s_tir=True)
    def double(
        x: T.Buffer((T.int64(1), T.int64(20), T.int64(6), T.int64(6)), "float32"),
        y: T.Buffer((T.int64(1), T.int64(20), T.int64(6), T.int64(6)), "float32"),
    ):
        for i, j, k in T.grid(T.int64(20), T.int64(6), T.int64(6)):
            with T.sblock("y"):
                a, b, c = T.axis.remap("SSS", [i, j, k])
                y[0, a, b, c] = x[0, a, b, c] * T.float32(2)

    @R.function(private=True)
    def inner(x: R.Tensor((1, 20, 6, 6), "float32")) -> R.Tensor((1, 20, 6, 6), "float32"):
        with R.dataflow():
            y = R.nn.relu(x)
            R.output(y)
        return y

    @R.function
    def tir(x: R.Tensor((1, 20, 6, 6), "float32")) -> R.Tensor((1, 20, 6, 6), "float32"):
        cls = Mixed
        with R.dataflow():
            a = R.nn.max_pool2d(x, pool_size=[3, 3], padding=[1, 1, 1, 1])
            b = R.call_tir(cls.double, (a,), out_ty=R.Tensor((1, 20, 6, 6), "float32"))
            c = R.nn.max_pool2d(b, pool_size=[3, 3], padding=[1, 1, 1, 1])
            R.output(c)
        return c

    @R.function
    def function(x: R.Tensor((1, 20, 6, 6), "float32")) -> R.Tensor((1, 20, 6, 6), "float32"):
        cls = Mixed
        with R.dataflow():
            a = R.nn.max_pool2d(x, pool_size=[3, 3], padding=[1, 1, 1, 1])
            b = cls.inner(a)
            c = R.add(b, a)
            R.output(c)
        return c

    @R.function
    def extern(x: R.Tensor((1, 20, 6, 6), "float32")) -> R.Tensor((1, 20, 6, 6), "float32"):
        with R.dataflow():
            a = R.nn.max_pool2d(x, pool_size=[3, 3], padding=[1, 1, 1, 1])
            b = R.call_pure_packed(
                "tvm_ios.tests.half", a, ty_args=(R.Tensor((1, 20, 6, 6), "float32"),)
            )
            c = R.call_dps_packed(
                "tvm_ios.tests.negate", (b,), out_ty=R.Tensor((1, 20, 6, 6), "float32")
            )
            d = R.nn.max_pool2d(c, pool_size=[3, 3], padding=[1, 1, 1, 1])
            R.output(d)
        return d

    @R.function
    def branch(x: R.Tensor((1, 20, 6, 6), "float32"), condition: R.Tensor((), "bool")) -> R.Tensor(
        (1, 20, 6, 6), "float32"
    ):
        with R.dataflow():
            a = R.nn.max_pool2d(x, pool_size=[3, 3], padding=[1, 1, 1, 1])
            R.output(a)
        if condition:  # noqa: SIM108  (TVMScript has no other form)
            b = R.exp(a)
        else:
            b = R.negative(a)
        with R.dataflow():
            c = R.nn.max_pool2d(b, pool_size=[3, 3], padding=[1, 1, 1, 1])
            R.output(c)
        return c

    @R.function(pure=False)
    def effects(x: R.Tensor((1, 20, 6, 6), "float32")) -> R.Tensor((1, 20, 6, 6), "float32"):
        with R.dataflow():
            a = R.nn.max_pool2d(x, pool_size=[3, 3], padding=[1, 1, 1, 1])
            R.output(a)
        _ = R.call_packed("tvm_ios.tests.note", a, ty_args=(R.Tuple,))
        b = R.nn.relu(a)
        _1 = R.call_packed("tvm_ios.tests.note", x, ty_args=(R.Tuple,))
        with R.dataflow():
            c = R.nn.avg_pool2d(b, pool_size=[3, 3], padding=[1, 1, 1, 1])
            R.output(c)
        _2 = R.call_packed("tvm_ios.tests.note", c, ty_args=(R.Tuple,))
        return c


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
        name = f"tvm_ios.tests.{function.__name__}"
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
