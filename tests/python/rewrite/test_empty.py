# SPDX-License-Identifier: Apache-2.0
"""Sums over axes without elements, of which TVM's kernels leave the result as it was in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tvm import relax

import tvm_ios
from support.networks import relax_module

op = relax.op
Body = Callable[[relax.Expr], relax.Expr]


def constant(*shape: int) -> relax.Expr:
    return relax.const(np.zeros(shape, "float32"))


EMPTY: dict[str, tuple[tuple[int, ...], Body, float]] = {
    "sum": ((3, 0), lambda x: op.sum(x, [1]), 0.0),
    "all": ((3, 0), lambda x: op.sum(x, keepdims=True), 0.0),
    "prod": ((0, 3), lambda x: op.prod(x, [0]), 1.0),
    "mean": ((3, 0), lambda x: op.mean(x, [1]), np.nan),
    "max": ((3, 0), lambda x: op.max(x, [1]), -np.inf),
    "min": ((3, 0), lambda x: op.min(x, [1]), np.inf),
    "product": ((3, 0), lambda x: op.matmul(x, constant(0, 5)), 0.0),
    "batched": ((2, 3, 0), lambda x: op.matmul(x, constant(2, 0, 5)), 0.0),
    "conv1d": ((1, 0, 7), lambda x: op.nn.conv1d(x, constant(4, 0, 3)), 0.0),
    "conv2d": ((1, 0, 7, 5), lambda x: op.nn.conv2d(x, constant(4, 0, 3, 1)), 0.0),
    "conv3d": ((1, 0, 7, 5, 3), lambda x: op.nn.conv3d(x, constant(4, 0, 3, 1, 1)), 0.0),
}


@pytest.mark.parametrize("case", EMPTY)
def test_sums_over_nothing(case: str) -> None:
    shape, body, value = EMPTY[case]

    def network(emit, x, y):
        return emit(op.add(emit(body(x)), y))

    mod = relax_module(network, shape, (1,))
    inputs = np.zeros(shape, "float32"), np.array([2], "float32")
    actual = tvm_ios.compile(mod, search=False, threads=1)(*inputs)
    assert actual.size
    np.testing.assert_array_equal(actual, np.full(actual.shape, value + 2.0, "float32"))


@pytest.mark.parametrize(("name", "value"), [("sum", 0), ("max", -(2**31)), ("mean", 0)])
def test_integers(name: str, value: int) -> None:
    def network(emit, x, y):
        return emit(op.add(emit(getattr(op, name)(x, [0])), y))

    mod = relax_module(network, *(relax.TensorType(shape, "int32") for shape in ((0, 3), (3,))))
    zeros = np.zeros(3, "int32")
    actual = tvm_ios.compile(mod, search=False, threads=1)(np.zeros((0, 3), "int32"), zeros)
    np.testing.assert_array_equal(actual, np.full(3, value, "int32"))


def test_constants_without_elements(tmp_path: Path) -> None:
    """TVM writes them into a library, and cannot read that."""

    def network(emit, x):
        nothing = relax.const(np.zeros((2, 0, 3), "float32"))
        return emit(relax.Tuple([emit(op.concat([x, nothing], 1)), nothing, emit(op.exp(x))]))

    model = tvm_ios.compile(relax_module(network, (2, 4, 3)), search=False, threads=1)
    model.save(tmp_path / "model.so")
    x = np.random.default_rng(0).standard_normal((2, 4, 3), "float32")
    for each in (model, tvm_ios.load(tmp_path / "model.so")):
        same, nothing, powers = each(x)
        np.testing.assert_array_equal(same, x)
        assert nothing.shape == (2, 0, 3)
        np.testing.assert_allclose(powers, np.exp(x), rtol=1e-6)
