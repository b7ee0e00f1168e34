# SPDX-License-Identifier: Apache-2.0
"""Products of one matrix with several are computed as one; what differs is left apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

from support.networks import (
    NATIVE,
    TARGETS,
    assert_close,
    check_scheduled,
    constant,
    isa_of,
    merging,
    relax_module,
    run_kernel,
)
from tvm_ios.backend.cpu.kernels.matmul.matmul import Matmul, matmul_kernel
from tvm_ios.backend.cpu.kernels.matmul.packing import pack_side_by_side
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.ops.epilogue import Epilogue, Operand, Step

op = relax.op
Emit = Callable[[relax.Expr], relax.Var]
BIAS = Epilogue(
    (
        Step("add", (Operand("value", 0), Operand("argument", 0))),
        Step("relu", (Operand("value", 1),)),
    ),
    ("last",),
)


def check_products(
    rows: int, depth: int, columns: Sequence[int], target: tvm.target.Target, seed: int = 0
) -> None:
    core, _ = isa_of(target)
    random = np.random.default_rng(seed)
    left, *rights = (
        random.standard_normal(shape).astype("float32")
        for shape in [(rows, depth), *((depth, n) for n in columns)]
    )
    biases = [random.standard_normal((1, n)).astype("float32") for n in columns]
    product = Matmul(rows, depth, sum(columns), BIAS, results=tuple(columns))
    packed = [pack_side_by_side(arrays, core.lanes) for arrays in (rights, biases)]
    inputs = [left[None], packed[0], packed[1].ravel()]
    outputs = run_kernel(matmul_kernel(product, core), inputs, target, seed)
    for output, right, bias in zip(outputs, rights, biases, strict=True):
        expected = np.maximum(left.astype("float64") @ right + bias, 0)
        assert_close(output[0], expected.astype("float32"))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    [(7, 33, (64, 64, 64)), (1, 20, (5, 40, 3))],
)
def test_products(rows: int, depth: int, columns: Sequence[int], target: tvm.target.Target) -> None:
    check_products(rows, depth, columns, target)


@settings(max_examples=8, deadline=None, derandomize=True, database=None)
@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.lists(st.integers(1, 90), min_size=2, max_size=4),
    st.integers(0, 99),
)
def test_products_of_any_size(rows: int, depth: int, columns: list[int], seed: int) -> None:
    check_products(rows, depth, columns, NATIVE, seed)


def dense(
    emit: Emit, x: relax.Expr, columns: int, seed: int, act=op.tanh, *, bias: bool = True
) -> relax.Var:
    depth = int(x.ty.shape.values[-1])
    value = emit(op.matmul(x, constant(depth, columns, seed=seed, scale=0.2)))
    value = emit(op.add(value, constant(columns, seed=seed + 9))) if bias else value
    return emit(act(value))


def attention(emit: Emit, x: relax.Expr) -> relax.Expr:
    """Queries, keys and values of one head, and their mixture."""
    q, k, v = (dense(emit, x, 24, seed, lambda value: value) for seed in range(3))
    scores = emit(op.nn.softmax(emit(op.matmul(q, emit(op.permute_dims(k, [0, 2, 1]))))))
    return emit(op.matmul(scores, v))


def of_a_feature_map(emit: Emit, x: relax.Expr) -> relax.Expr:
    """What lies blocked is brought into rows first."""
    pooled = emit(op.nn.max_pool2d(x, (1, 1)))
    return relax.Tuple([dense(emit, pooled, n, n) for n in (17, 5)])


def of_different_widths(emit: Emit, x: relax.Expr) -> relax.Expr:
    return relax.Tuple([dense(emit, x, n, n, op.nn.relu) for n in (40, 3, 16)])


MERGED = {
    "attention": (attention, (2, 7, 24), 3),
    "of a feature map": (of_a_feature_map, (1, 20, 3, 12), 2),
    "of different widths": (of_different_widths, (1, 30), 3),
}


def merges(mod: tvm.IRModule) -> tuple[list[int], object]:
    schedule = Scheduler.prepare(mod, NATIVE, cost_model=merging).search()
    return [len(s.operators) for s in schedule.stages if s.strategy == "merge"], schedule


@pytest.mark.parametrize(("body", "shape", "operators"), MERGED.values(), ids=MERGED)
def test_products_in_a_network(body, shape: Sequence[int], operators: int) -> None:
    mod = relax_module(body, shape)
    found, schedule = merges(mod)
    assert found == [operators]
    check_scheduled(mod, schedule=schedule)


def activations(emit: Emit, x: relax.Expr, y: relax.Expr) -> relax.Expr:
    return relax.Tuple([dense(emit, x, 9, 1, op.tanh), dense(emit, x, 9, 2, op.nn.relu)])


def left_sides(emit: Emit, x: relax.Expr, y: relax.Expr) -> relax.Expr:
    return relax.Tuple([dense(emit, x, 9, 1), dense(emit, y, 9, 2)])


def a_bias_too_few(emit: Emit, x: relax.Expr, y: relax.Expr) -> relax.Expr:
    return relax.Tuple([dense(emit, x, 9, 1), dense(emit, x, 9, 2, bias=False)])


def known_at_run_time(emit: Emit, x: relax.Expr, y: relax.Expr) -> relax.Expr:
    turned = emit(op.permute_dims(y))
    return relax.Tuple([emit(op.matmul(x, turned)), emit(op.matmul(x, emit(op.exp(turned))))])


def residuals(emit: Emit, x: relax.Expr, y: relax.Expr) -> relax.Expr:
    products = [emit(op.matmul(x, constant(12, 12, seed=i))) for i in range(2)]
    return relax.Tuple([emit(op.add(value, y)) for value in products])


def vectors(emit: Emit, x: relax.Expr, y: relax.Expr) -> relax.Expr:
    return relax.Tuple([emit(op.matmul(x, constant(12, seed=i))) for i in range(2)])


APART = (activations, left_sides, a_bias_too_few, known_at_run_time, residuals, vectors)


@pytest.mark.parametrize("body", APART, ids=lambda body: body.__name__)
def test_products_that_differ(body) -> None:
    assert merges(relax_module(body, (5, 12), (5, 12)))[0] == []


def test_many_products_are_merged_a_few_at_a_time() -> None:
    """Eight of them in any choice would be 255 sets of weights."""

    def body(emit, x):
        return relax.Tuple([dense(emit, x, 8, i) for i in range(8)])

    mod = relax_module(body, (3, 10))
    found, schedule = merges(mod)
    assert found == [4, 4]
    check_scheduled(mod, schedule=schedule)
