# SPDX-License-Identifier: Apache-2.0
"""Kernels made of TVM's own lowering: split into tiles, they still compute the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.special
import tvm
from tvm import relax, tirx

from support.networks import TARGETS, assert_close, relax_module, run_kernel
from tvm_ios.backend.cpu.kernels.generic import generic_kernel
from tvm_ios.backend.cpu.kernels.kernel import Kernel

op = relax.op


def kernel_of(body: Callable[..., relax.Expr], *shapes: tuple[int, ...]) -> Kernel:
    """The kernel of a single operation."""
    mod = relax_module(lambda emit, *values: emit(body(*values)), *shapes)
    legal = relax.transform.FuseTIR()(relax.transform.LegalizeOps()(mod))
    (function,) = [f for f in legal.functions.values() if isinstance(f, tirx.PrimFunc)]
    return generic_kernel("generic", function, len(shapes))


def layer_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * gamma + beta


OPERATIONS = {
    "softmax": (
        lambda x: op.nn.softmax(x, axis=-1),
        lambda x: scipy.special.softmax(x, axis=-1),
        [(6, 100)],
    ),
    "softmax of channels": (
        lambda x: op.nn.softmax(x, axis=1),
        lambda x: scipy.special.softmax(x, axis=1),
        [(2, 7, 3, 5)],
    ),
    "layer_norm": (
        lambda x, g, b: op.nn.layer_norm(x, g, b, axes=[-1]),
        layer_norm,
        [(3, 4, 33), (33,), (33,)],
    ),
    "transpose": (
        lambda x: op.permute_dims(x, [2, 0, 1]),
        lambda x: x.transpose(2, 0, 1),
        [(4, 5, 6)],
    ),
    "sum": (lambda x: op.sum(x, axis=[1]), lambda x: x.sum(1), [(9, 31, 2)]),
    "max of rows": (lambda x: op.max(x, axis=[0]), lambda x: x.max(0), [(9, 31)]),
    "mean": (lambda x: op.mean(x, axis=[2, 3]), lambda x: x.mean((2, 3)), [(2, 7, 3, 5)]),
    "one long axis": (op.tanh, np.tanh, [(1000,)]),
    "short axis": (op.exp, np.exp, [(3,)]),
    "batched product": (op.matmul, np.matmul, [(3, 4, 5), (3, 5, 6)]),
    "broadcast": (op.add, np.add, [(4, 1, 6), (5, 1)]),
    "concat": (
        lambda x, y: op.concat([x, y], axis=1),
        lambda x, y: np.concatenate([x, y], axis=1),
        [(3, 4), (3, 9)],
    ),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_operations(operation, target: tvm.target.Target) -> None:
    make, reference, shapes = operation
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(shape).astype("float32") for shape in shapes]
    (output,) = run_kernel(kernel_of(make, *shapes), arrays, target)
    assert_close(output, reference(*arrays).astype("float32"))


def test_several_results() -> None:
    def body(emit, x):
        parts = emit(op.split(x, [3], axis=0))
        return relax.Tuple([emit(relax.TupleGetItem(parts, i)) for i in range(2)])

    legal = relax.transform.LegalizeOps()(relax_module(body, (8, 5)))
    (function,) = [f for f in legal.functions.values() if isinstance(f, tirx.PrimFunc)]
    kernel = generic_kernel("split", function, 1)
    data = np.random.default_rng(0).standard_normal((8, 5)).astype("float32")
    first, second = run_kernel(kernel, [data], TARGETS[0].values[0])
    np.testing.assert_array_equal(first, data[:3])
    np.testing.assert_array_equal(second, data[3:])


def test_work_can_be_shared_out() -> None:
    """Rows are tiles; a reduction to few values still has as many tiles as values."""
    softmax = kernel_of(lambda x: op.nn.softmax(x, axis=-1), (6, 100))
    assert [phase.num_tiles for phase in softmax.phases] == [6] * len(softmax.phases)
    assert len(softmax.phases) > 1
    assert kernel_of(op.tanh, (1000,)).phases[0].num_tiles == -(-1000 // 64)
    assert kernel_of(lambda x: op.sum(x), (6,)).phases[0].num_tiles == 1


def test_equal_operations_have_equal_keys() -> None:
    first, second = (kernel_of(op.add, (4, 6), (6,)) for _ in range(2))
    assert first.key == second.key
    assert hash(first.key) == hash(second.key)
    assert first.key != kernel_of(op.add, (4, 6), (4, 6)).key
    assert first.key != kernel_of(op.subtract, (4, 6), (6,)).key
