# SPDX-License-Identifier: Apache-2.0
"""Elementwise operations move to where they cost nothing, and results stay the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import relax

from support.networks import check_scheduled, constant, conv, relax_module
from tvm_ios.graph.extract import extract
from tvm_ios.rewrite.prepare import prepare

op = relax.op


def scalar(value: float) -> relax.Expr:
    return relax.const(np.float32(value), "float32")


def scaled_relu(factor: float, readers: int) -> Callable[..., relax.Expr]:
    def body(emit, x):
        value = emit(op.nn.relu(emit(op.multiply(emit(conv(x, 20, 1)), scalar(factor)))))
        parts = [emit(conv(value, 20, 3, seed=i)) for i in range(readers)]
        return parts[0] if readers == 1 else emit(op.add(*parts))

    return body


def read_by_another(emit, x):
    """A relu that is more than a convolution's input keeps its factor."""
    value = emit(op.nn.relu(emit(op.multiply(emit(op.nn.max_pool2d(x, (2, 2))), scalar(0.3)))))
    return emit(op.add(emit(conv(value, 20, 3)), value))


def after_concat(*operations: Callable[..., relax.Expr]) -> Callable[..., relax.Expr]:
    def body(emit, x):
        value = emit(op.concat([emit(conv(x, k, 1, seed=k)) for k in (7, 16, 5)], axis=1))
        for operation in operations:
            value = emit(operation(value))
        return emit(conv(value, 20, 1, seed=1))

    return body


def relu_of_a_shared_concat(emit, x):
    both = emit(op.concat([emit(conv(x, 16, 1, seed=s)) for s in (1, 2)], axis=1))
    return emit(op.add(emit(op.nn.relu(both)), both))


def sum_of_scaled(emit, x):
    """RandWire's node: one operator, although its second factor stands between."""
    pooled = emit(op.nn.max_pool2d(x, (3, 3), padding=1))
    first, second = emit(op.multiply(x, scalar(0.3))), emit(op.multiply(pooled, scalar(0.6)))
    total = emit(op.nn.relu(emit(op.add(first, second))))
    return emit(op.add(emit(conv(total, 20, 1)), pooled))


# What is built, and the steps of the elementwise operators that are left.
CASES = {
    "a factor goes into the weights": (scaled_relu(0.3, 1), []),
    "into those of every reader": (scaled_relu(0.3, 2), []),
    "a negative factor stays": (scaled_relu(-0.3, 2), []),
    "a factor with another reader stays": (read_by_another, []),
    "relu after concat": (after_concat(op.nn.relu), []),
    "scale, shift and relu after concat": (
        after_concat(
            lambda v: op.multiply(v, constant(1, 28, 1, 1)),
            lambda v: op.add(v, constant(28, 1, 1, seed=2)),
            op.nn.relu,
        ),
        [],
    ),
    "a scalar after concat": (after_concat(lambda v: op.add(v, scalar(2.0))), []),
    "a concat with two readers": (relu_of_a_shared_concat, [["relu", "add"]]),
    "a sum of scaled tensors": (sum_of_scaled, [["multiply", "multiply", "add", "relu"]]),
}


@pytest.mark.parametrize(("body", "left"), CASES.values(), ids=CASES)
def test_what_is_left(body: Callable[..., relax.Expr], left: list[list[str]]) -> None:
    mod = relax_module(body, (1, 20, 7, 6))
    graph = extract(prepare(mod), "main")
    epilogues = [
        [s.op for s in o.epilogue.steps] for o in graph.operators if o.kind == "elementwise"
    ]
    assert epilogues == left
    check_scheduled(mod)


def test_the_factor_is_gone() -> None:
    mod = relax_module(scaled_relu(0.3, 2), (1, 20, 7, 6))
    assert "R.multiply" not in prepare(mod)["main"].script()
    mod = relax_module(scaled_relu(-0.3, 2), (1, 20, 7, 6))
    steps = [s.op for o in extract(prepare(mod), "main").operators for s in o.epilogue.steps]
    assert "relu" in steps  # the negative factor was folded into the convolution before it
    mod = relax_module(read_by_another, (1, 20, 7, 6))
    assert "R.multiply" in prepare(mod)["main"].script()


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
@pytest.mark.parametrize("axes", [0, 3, 4, 5, 6])
def test_one_element_of_any_rank_after_concat(name: str, axes: int) -> None:
    """One of more axes than the concatenation adds axes to the result."""

    def body(emit, x):
        both = emit(op.concat([emit(op.nn.relu(x)), emit(op.exp(x))], axis=1))
        one = relax.const(np.full((1,) * axes, 1.5, "float32"), "float32")
        return emit(getattr(op, name)(both, one))

    check_scheduled(relax_module(body, (1, 4, 3, 3)))


@pytest.mark.parametrize(
    ("dtype", "weight", "factor"),
    [("float16", 300.0, 300.0), ("float32", 1e30, 1e30), ("float32", 1e-30, 1e-30)],
)
def test_a_factor_that_weights_cannot_take_stays(dtype: str, weight: float, factor: float) -> None:
    image = np.full((1, 1, 3, 3), 1 / weight, dtype)

    def body(emit, x):
        scaled = emit(op.multiply(emit(op.exp(x)), relax.const(np.array(factor, dtype), dtype)))
        weights = relax.const(np.full((2, 1, 1, 1), weight, dtype), dtype)
        return emit(op.nn.conv2d(emit(op.nn.relu(scaled)), weights))

    mod = relax_module(body, relax.TensorType(image.shape, dtype))
    left = [b.value.op.name for block in prepare(mod)["main"].body.blocks for b in block.bindings]
    assert "relax.multiply" in left
