# SPDX-License-Identifier: Apache-2.0
"""The precision ``model``: networks of bfloat16 multiply it where the processor can."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_ios
from support.networks import NATIVE, relax_module
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.options import Options
from tvm_ios.transform import InterOperatorSchedule

op = relax.op
OLDER = tvm.target.Target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 1})
TYPES = {name: np.dtype(getattr(ml_dtypes, name, name)) for name in ("bfloat16", "float16")}


@pytest.fixture(autouse=True)
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute on processors without the instructions, too."""
    monkeypatch.setenv("TVM_IOS_EMULATE_INSTRUCTIONS", "1")


def random(name: str, *shape: int, seed: int = 0) -> np.ndarray:
    numbers = np.random.default_rng(seed).standard_normal(shape)
    return numbers.astype(TYPES.get(name, np.dtype("float32")))


def perceptron(name: str) -> tvm.IRModule:
    """Two products of a type, with an elementwise operator between them."""

    def body(emit, x):
        x = emit(op.matmul(x, relax.const(random(name, 34, 20, seed=1), name)))
        x = emit(op.tanh(x))
        return emit(op.matmul(x, relax.const(random(name, 20, 7, seed=2), name)))

    return relax_module(body, relax.TensorType((5, 34), name))


def rounded(mod: tvm.IRModule, target: Any = NATIVE, **options: Any) -> list[bool]:
    """Return which products of a network multiply bfloat16."""
    scheduler = Scheduler.prepare(mod, target, options=Options(**options))
    operators = scheduler.unsearched().operators
    return [o.kernel == "bf16" for o in operators if o.kind in ("conv2d", "matmul")]


def test_networks_of_bfloat16_multiply_it(monkeypatch: pytest.MonkeyPatch) -> None:
    mod = perceptron("bfloat16")
    assert rounded(mod) == rounded(mod, precision="bf16") == [True, True]
    assert rounded(mod, precision="fp32") == [False, False]
    for name in ("float16", "float32"):
        assert rounded(perceptron(name)) == [False, False]
    monkeypatch.delenv("TVM_IOS_EMULATE_INSTRUCTIONS")
    assert rounded(mod, OLDER) == [False, False]


def test_what_is_computed_before_the_network_runs_does_not_count() -> None:
    """Exporters multiply frequencies by positions, in float32."""

    def body(emit, x):
        places = emit(op.matmul(relax.const(random("", 5, 1)), relax.const(random("", 1, 34))))
        x = emit(op.add(x, emit(op.astype(places, "bfloat16"))))
        return emit(op.matmul(x, relax.const(random("bfloat16", 34, 6), "bfloat16")))

    assert rounded(relax_module(body, relax.TensorType((5, 34), "bfloat16"))) == [True]


@pytest.mark.parametrize("other", ["float16", "float32"])
def test_networks_that_multiply_other_types_too_are_computed_in_float32(other: str) -> None:
    def body(emit, x):
        x = emit(op.matmul(x, relax.const(random("bfloat16", 34, 20), "bfloat16")))
        return emit(op.matmul(emit(op.astype(x, other)), relax.const(random(other, 20, 6), other)))

    assert rounded(relax_module(body, relax.TensorType((5, 34), "bfloat16"))) == [False, False]


def test_values_that_the_network_has_in_float32_are_not_rounded() -> None:
    """A convolution reads maxima that are rounded; what they are taken of is not."""
    large = relax.const(np.full((1, 20, 1, 1), 1000.5, "float32"))
    weights = random("bfloat16", 20, 20, 1, 1)
    one = np.eye(20, dtype="float32").reshape(20, 20, 1, 1).astype(TYPES["bfloat16"])

    def body(emit, x):
        x = emit(op.nn.conv2d(x, relax.const(weights, "bfloat16")))
        wide = emit(op.add(emit(op.astype(x, "float32")), large))
        highest = emit(op.nn.max_pool2d(wide, (3, 1), padding=(1, 0)))
        most = emit(op.nn.max_pool2d(highest, (1, 3), padding=(0, 1)))
        near = emit(op.astype(emit(op.subtract(most, large)), "bfloat16"))
        return emit(op.nn.conv2d(near, relax.const(one, "bfloat16")))

    mod = relax_module(body, relax.TensorType((1, 20, 5, 7), "bfloat16"))
    assert rounded(mod) == [True, True]
    x = random("bfloat16", 1, 20, 5, 7, seed=3)
    made = np.einsum("oi,niyx->noyx", weights[..., 0, 0].astype("float64"), x.astype("float64"))
    padded = np.pad(made, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    wanted = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3)).max((-1, -2))
    found = tvm_ios.compile(mod, search=False, threads=1)(x).astype("float64")
    assert np.abs(found - wanted).max() <= 2**-7 * np.abs(wanted).max()


def test_schedules_bring_their_precision() -> None:
    mod, x = perceptron("bfloat16"), random("bfloat16", 5, 34, seed=3)
    made, exact = (
        tvm_ios.compile(mod, search=False, threads=1, **options)
        for options in ({}, {"precision": "fp32"})
    )
    kernels = [
        {o.kernel for o in m.schedule.operators if o.kind == "matmul"} for m in (made, exact)
    ]
    assert kernels == [{"bf16"}, {None}]
    assert not np.array_equal(made(x), exact(x))
    for given in (made, exact):
        again = tvm_ios.compile(mod, threads=1, schedule=given.schedule)
        assert again.schedule == given.schedule
        np.testing.assert_array_equal(again(x), given(x))


def test_the_pass_multiplies_bfloat16() -> None:
    made = InterOperatorSchedule(NATIVE, search=False)
    made(perceptron("bfloat16"))
    assert made.schedule is not None
    assert [o.kernel for o in made.schedule.operators if o.kind == "matmul"] == ["bf16", "bf16"]
