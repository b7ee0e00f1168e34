# SPDX-License-Identifier: Apache-2.0
"""Reshapes of what is computed in a network copy nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_ios
from support.networks import assert_close
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.target import resolve

op = relax.op


def product(x: relax.Expr, seed: int) -> relax.Expr:
    """A matrix product, whose result is row-major."""
    depth = int(x.ty.shape[-1])
    weights = np.random.default_rng(seed).standard_normal((depth, 24)).astype("float32")
    return op.matmul(x, relax.const(weights))


def between_products(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
    first = b.emit(product(x, 0))
    return product(b.emit(op.reshape(first, (2, 20, 6))), 1)


def read_twice(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
    """The tensor and two views of it, the last after others were computed."""
    first = b.emit(product(x, 0))
    rows = b.emit(op.reshape(first, (20, 12)))
    again = b.emit(op.reshape(rows, (2, 5, 24)))
    other = b.emit(op.nn.softmax(b.emit(product(rows, 1))))
    total = b.emit(op.sum(other, axis=[0]))
    scaled = b.emit(op.multiply(again, total))
    return op.add(scaled, op.reshape(first, (2, 5, 24)))


def of_an_input(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
    return product(b.emit(op.reshape(x, (2, 20, 3))), 0)


def to_a_result(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
    return op.reshape(b.emit(product(x, 0)), (20, 12))


def then_permuted(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
    rows = b.emit(op.reshape(b.emit(product(x, 0)), (20, 12)))
    return product(b.emit(op.permute_dims(rows)), 1)


NETWORKS = {
    between_products: 1,
    read_twice: 2,  # the last is a part of the sum
    of_an_input: 0,
    to_a_result: 0,
    then_permuted: 0,
}


@pytest.mark.parametrize(("build", "views"), NETWORKS.items(), ids=[f.__name__ for f in NETWORKS])
def test_a_reshape_is_a_view(
    build: Callable[[relax.BlockBuilder, relax.Expr], relax.Expr], views: int
) -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((10, 12), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(build(builder, x)))
        builder.emit_func_output(result)
    mod = builder.get()
    lowered = Scheduler.prepare(mod, resolve("llvm")).stage_builder.lowered
    assert sum(i.kernel.is_noop for i in lowered.implementations if i is not None) == views

    data = np.random.default_rng(2).standard_normal((10, 12)).astype("float32")
    machine = relax.VirtualMachine(relax.build(mod, "llvm"), tvm.cpu())
    expected = machine["main"](tvm.runtime.tensor(data)).numpy()
    assert_close(tvm_ios.compile(mod, search=False)(data), expected)
