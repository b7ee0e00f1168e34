# SPDX-License-Identifier: Apache-2.0
"""Chains of elementwise operators become one kernel, which reads and writes memory once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from tvm import relax
from tvm.relax import op

from support.networks import NATIVE, compile_plain, conv, few_stages, relax_module, run_vm
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.transform import InterOperatorSchedule


@dataclass(frozen=True)
class Case:
    """A network of inputs of some shapes, and what NumPy computes of them."""

    shapes: tuple[tuple[int, ...], ...]
    body: Callable[..., relax.Expr]
    reference: Callable[..., np.ndarray]


def number(value: float) -> relax.Expr:
    return relax.const(value, "float32")


ROWS, ROW, COLUMN, IMAGES = (33, 45), (45,), (33, 1), (2, 5, 7, 9)
CASES = {
    "per channel": Case(
        (IMAGES, (5, 1, 1), (5, 1, 1)),
        lambda emit, x, scale, shift: emit(op.sigmoid(emit(op.add(emit(x * scale), shift)))),
        lambda x, scale, shift: 1 / (1 + np.exp(-(x * scale + shift))),
    ),
    "per pixel": Case(
        (IMAGES, (2, 1, 7, 9)),
        lambda emit, x, mask: emit(op.add(emit(op.tanh(emit(op.multiply(x, mask)))), mask)),
        lambda x, mask: np.tanh(x * mask) + mask,
    ),
    "rows and columns": Case(
        (ROWS, ROW, COLUMN),
        lambda emit, x, row, column: emit(op.exp(emit(op.add(emit(x * row), column)))),
        lambda x, row, column: np.exp(x * row + column),
    ),
    "outer product": Case(
        (COLUMN, ROW),
        lambda emit, column, row: emit(op.tanh(emit(op.multiply(column, row)))),
        lambda column, row: np.tanh(column * row),
    ),
    "outer product of images": Case(
        ((2, 5, 1, 1), (7, 9)),
        lambda emit, channel, pixel: emit(op.exp(emit(op.subtract(channel, pixel)))),
        lambda channel, pixel: np.exp(channel - pixel),
    ),
    "parametric": Case(
        (ROWS, ROW),
        lambda emit, x, slope: emit(
            op.where(emit(op.less(x, number(0))), emit(op.multiply(x, slope)), x)
        ),
        lambda x, slope: np.where(x < 0, x * slope, x),
    ),
    "a condition of functions": Case(
        (ROWS,),
        lambda emit, x: emit(
            op.where(emit(op.greater_equal(emit(op.sin(x)), x)), emit(op.exp(x)), emit(op.sign(x)))
        ),
        lambda x: np.where(np.sin(x) >= x, np.exp(x), np.nan_to_num(np.sign(x))),
    ),
    "powers and parts": Case(
        (ROWS,),
        lambda emit, x: emit(
            op.subtract(emit(op.power(number(2), x)), emit(op.floor(emit(op.exp(x)))))
        ),
        lambda x: 2**x - np.floor(np.exp(x)),
    ),
}


def inputs_of(case: Case) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    arrays = [random.uniform(-2, 2, shape).astype("float32") for shape in case.shapes]
    arrays[0].reshape(-1)[::17] = np.nan
    return arrays


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_chain_is_one_kernel(case: Case) -> None:
    mod, inputs = relax_module(case.body, *case.shapes), inputs_of(case)
    scheduler = Scheduler.prepare(mod, NATIVE, cost_model=few_stages)
    (implementation,) = scheduler.stage_builder.lowered.implementations
    assert implementation.kernel.name == "map"
    scheduled = InterOperatorSchedule(NATIVE, cost_model=few_stages)(mod)
    (actual,) = run_vm(compile_plain(scheduled, NATIVE), inputs)
    expected = case.reference(*(array.astype("float64") for array in inputs))
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_a_chain_of_a_single_number_compiles_as_fast() -> None:
    """LLVM must not emit all ways through branches that depend on each other: it took minutes."""

    def body(emit, x):
        for _ in range(6):
            x = emit(op.power(emit(op.abs(emit(op.sin(x)))), emit(op.cos(x))))
        return x

    mod, x = relax_module(body, (1,)), np.array([0.75], "float32")
    scheduled = InterOperatorSchedule(NATIVE, cost_model=few_stages)(mod)
    (actual,) = run_vm(compile_plain(scheduled, NATIVE), [x])
    for _ in range(6):
        x = np.abs(np.sin(x)) ** np.cos(x)
    np.testing.assert_allclose(actual, x, rtol=1e-5)


def test_a_condition_that_others_read_is_stored() -> None:
    def body(emit, x):
        condition = emit(op.greater(x, number(0)))
        return emit(relax.Tuple([condition, emit(op.where(condition, x, emit(op.exp(x))))]))

    mod, (x,) = relax_module(body, ROWS), inputs_of(CASES["parametric"])[:1]
    scheduled = InterOperatorSchedule(NATIVE, cost_model=few_stages)(mod)
    condition, actual = run_vm(compile_plain(scheduled, NATIVE), [x])
    np.testing.assert_array_equal(condition, x > 0)
    np.testing.assert_allclose(actual, np.where(x > 0, x, np.exp(x)), rtol=1e-6)


def test_a_convolution_selects_by_its_result() -> None:
    def body(emit, x, slope):
        image = emit(conv(x, 5))
        scaled = emit(op.multiply(image, slope))
        return emit(op.where(emit(op.less(image, number(0))), scaled, image))

    mod = relax_module(body, (1, 3, 7, 9), (5, 1, 1))
    lowered = Scheduler.prepare(mod, NATIVE, cost_model=few_stages).stage_builder.lowered
    (found,) = lowered.graph.operators
    assert sorted(step.op for step in found.epilogue.steps) == ["less", "multiply", "where"]
