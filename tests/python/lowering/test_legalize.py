# SPDX-License-Identifier: Apache-2.0
"""What TVM alone lowers to a TIR function that it can fuse."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import relax

import tvm_ios
from support.networks import NATIVE, relax_module
from tvm_ios.compiler.scheduler import Scheduler

op = relax.op


def _number(value: float, dtype: str = "float32") -> relax.Expr:
    return relax.const(np.array(value, dtype))


CHOICES: dict[str, tuple[Callable[..., relax.Expr], Callable[[np.ndarray], np.ndarray]]] = {
    "a number first": (
        lambda c, x: op.where(c, _number(0.5), x),
        lambda x: np.where(x > 0, 0.5, x),
    ),
    "a number second": (
        lambda c, x: op.where(c, x, _number(-np.inf)),
        lambda x: np.where(x > 0, x, -np.inf),
    ),
    "two numbers": (
        lambda c, _: op.where(c, _number(np.nan), _number(3.0)),
        lambda x: np.where(x > 0, np.nan, 3),
    ),
    "integers": (
        lambda c, _: op.where(c, _number(2**40, "int64"), _number(-1, "int64")),
        lambda x: np.where(x > 0, 2**40, -1),
    ),
    "truths": (
        lambda c, _: op.where(c, _number(0, "bool"), _number(1, "bool")),
        lambda x: ~(x > 0),
    ),
    "a known condition": (
        lambda _, x: op.where(_number(1, "bool"), x, _number(3.0)),
        lambda x: x,
    ),
}  # fmt: skip


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 130)])
@pytest.mark.parametrize("case", CHOICES.values(), ids=CHOICES)
def test_a_choice_of_a_number_has_a_kernel(case, shape: tuple[int, ...]) -> None:
    """TVM's own is a loop of the default lowering, which only one worker computes."""
    build, reference = case

    def body(emit, x):
        return emit(build(emit(op.greater(x, _number(0.0))), x))

    mod = relax_module(body, shape)
    scheduler = Scheduler.prepare(mod, NATIVE)
    assert None not in scheduler.stage_builder.lowered.implementations
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    result = tvm_ios.compile(mod, search=False, threads=1)(x)
    np.testing.assert_array_equal(result, reference(x).astype(result.dtype))


def test_a_choice_and_tanh_in_one_kernel_are_exact_near_zero() -> None:
    sizes = np.logspace(-30, 1, 1001)
    x = np.stack([sizes, -sizes]).astype("float32")

    def body(emit, x):
        chosen = emit(op.where(emit(op.greater(x, _number(100.0))), x, _number(0.0)))
        once = emit(op.tanh(emit(op.multiply(x, _number(0.5)))))
        return emit(op.add(emit(op.add(chosen, once)), emit(op.tanh(once))))

    result = tvm_ios.compile(relax_module(body, x.shape), search=False, threads=1)(x)
    once = np.tanh(x.astype("float64") / 2)
    np.testing.assert_allclose(result, once + np.tanh(once), rtol=3e-7)
