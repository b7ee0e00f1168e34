# SPDX-License-Identifier: Apache-2.0
"""Products of four axes as PyTorch decomposes them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_ios
from tvm_ios.relax_ir.expressions import op_name
from tvm_ios.rewrite.prepare import prepare

op = relax.op
LEFT, RIGHT = (2, 3, 5, 7), (2, 3, 7, 4)


def merged(left: relax.Expr, right: relax.Expr) -> relax.Expr:
    left = op.reshape(op.broadcast_to(left, LEFT), (6, 5, 7))
    right = op.reshape(op.broadcast_to(right, RIGHT), (6, 7, 4))
    return op.reshape(op.matmul(left, right), (2, 3, 5, 4))


def with_another_result(left: relax.Expr, right: relax.Expr) -> relax.Expr:
    product = op.matmul(op.reshape(left, (6, 5, 7)), op.reshape(right, (6, 7, 4)))
    return op.reshape(product, (3, 2, 5, 4))


def with_other_matrices(left: relax.Expr, right: relax.Expr) -> relax.Expr:
    product = op.matmul(op.reshape(left, (6, 5, 7)), op.reshape(right, (6, 7, 4)))
    return op.reshape(product, (2, 3, 4, 5))


def with_other_rows(left: relax.Expr, right: relax.Expr) -> relax.Expr:
    product = op.matmul(op.reshape(left, (2, 15, 7)), op.reshape(right, (2, 7, 12)))
    return op.reshape(product, (2, 3, 5, 12))


def transposed(_left: relax.Expr, right: relax.Expr) -> relax.Expr:
    matrices = op.permute_dims(op.reshape(right, (6, 7, 4)), (0, 2, 1))
    return op.matmul(op.reshape(matrices, (2, 3, 4, 7)), right)


def transposed_to_another_batch(_left: relax.Expr, right: relax.Expr) -> relax.Expr:
    matrices = op.permute_dims(op.reshape(right, (6, 7, 4)), (0, 2, 1))
    swapped = op.permute_dims(op.reshape(matrices, (3, 2, 4, 7)), (1, 0, 2, 3))
    return op.matmul(swapped, right)


def same_shape(left: relax.Expr, right: relax.Expr) -> relax.Expr:
    """Moves that change nothing, of an input and of a sum."""
    total = op.add(op.reshape(left, LEFT), relax.const(np.float32(1)))
    return op.matmul(op.reshape(op.broadcast_to(total, LEFT), LEFT), op.reshape(right, RIGHT))


def nothing_else(left: relax.Expr, right: relax.Expr) -> relax.Expr:
    return op.reshape(left, LEFT)


NETWORKS = {
    merged: 0,
    transposed: 0,
    transposed_to_another_batch: 2,
    same_shape: 0,
    nothing_else: 1,
    with_another_result: 3,
    with_other_matrices: 3,
    with_other_rows: 3,
}


@pytest.mark.parametrize(("build", "left"), NETWORKS.items(), ids=[f.__name__ for f in NETWORKS])
def test_products_of_batches(
    build: Callable[[relax.Expr, relax.Expr], relax.Expr], left: int
) -> None:
    """Only reshapes that do something are left."""
    builder = relax.BlockBuilder()
    inputs = [
        relax.Var(f"x{i}", relax.TensorType(shape, "float32"))
        for i, shape in enumerate((LEFT, RIGHT))
    ]
    with builder.function("main", inputs):
        builder.emit_func_output(builder.normalize(build(*inputs)))
    mod = builder.get()
    names: list[str] = []
    relax.analysis.post_order_visit(prepare(mod)["main"], lambda e: names.append(op_name(e)))
    assert names.count("reshape") + names.count("broadcast_to") == left

    arrays = [np.random.default_rng(0).standard_normal(s).astype("float32") for s in (LEFT, RIGHT)]
    machine = relax.VirtualMachine(relax.build(mod, "llvm"), tvm.cpu())
    expected = machine["main"](*map(tvm.runtime.tensor, arrays)).numpy()
    output = tvm_ios.compile(mod, search=False)(*arrays)
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-5)
