# SPDX-License-Identifier: Apache-2.0
"""Kernels made of TVM's own lowering: split into tiles, they still compute the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.special
import tvm
from tvm import relax, tirx

import tvm_ios
from support.networks import TARGETS, assert_close, relax_module, run_kernel
from tvm_ios.backend.cpu.kernels.generic import generic_kernel
from tvm_ios.backend.cpu.kernels.kernel import Kernel

op = relax.op


def kernel_of(
    body: Callable[..., relax.Expr], *inputs: tuple[int, ...] | relax.TensorType
) -> Kernel:
    """The kernel of a single operation."""
    mod = relax_module(lambda emit, *values: emit(body(*values)), *inputs)
    legal = relax.transform.FuseTIR()(relax.transform.LegalizeOps()(mod))
    (function,) = [f for f in legal.functions.values() if isinstance(f, tirx.PrimFunc)]
    return generic_kernel("generic", function, len(inputs))


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


LONG = {
    "minimum": (op.minimum, np.minimum, [((4, 9), "int64"), ((4, 9), "int64")]),
    "argmax": (
        lambda x: op.argmax(x, axis=1),
        lambda x: x.argmax(1),
        [((4, 33), "float32")],
    ),
    "sum": (lambda x: op.sum(x, axis=1), lambda x: x.sum(1), [((5, 70), "int64")]),
    "product": (op.matmul, np.matmul, [((4, 9), "int64"), ((9, 5), "int64")]),
    "cast": (
        lambda x: op.astype(x, "float32"),
        lambda x: x.astype("float32"),
        [((130,), "int64")],
    ),
    "unsigned": (op.add, np.add, [((3, 7), "uint64"), ((7,), "uint64")]),
    "comparison": (op.greater, np.greater, [((4, 9), "int64"), ((9,), "int64")]),
    "gather": (
        lambda x, i: op.take(x, i, axis=1, mode="clip"),
        lambda x, i: x.take(i, axis=1, mode="clip"),
        [((4, 9, 3), "float32"), ((2, 5), "int64")],
    ),
    "coordinates": (
        op.gather_nd,
        lambda x, i: x[i[:, 0], i[:, 1]],
        [((90, 90), "float32"), ((5, 2), "int64")],
    ),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("operation", LONG.values(), ids=LONG)
def test_numbers_of_64_bits(operation, target: tvm.target.Target) -> None:
    """Their indices have 64 bits, too, as TVM does not narrow them."""
    make, reference, inputs = operation
    random = np.random.default_rng(0)
    are_indices = inputs[0][1] == "float32"
    arrays = [
        random.standard_normal(shape).astype(dtype)
        if dtype == "float32"
        else random.integers(0, 90, shape).astype(dtype) << (0 if are_indices else 30)
        for shape, dtype in inputs
    ]
    kernel = kernel_of(make, *(relax.TensorType(shape, dtype) for shape, dtype in inputs))
    (output,) = run_kernel(kernel, arrays, target)
    expected = reference(*arrays)
    assert output.dtype == expected.dtype
    np.testing.assert_allclose(output, expected, rtol=1e-6)


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


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["tanh", "atanh"])
def test_small_results_are_as_exact_as_large_ones(
    name: str, dtype: str, target: tvm.target.Target
) -> None:
    """TVM's own lowering gives 0 where a number added to 1 is 1."""
    sizes = np.logspace(-30, 0 if name == "atanh" else 2, 999, endpoint=name != "atanh")
    x = np.stack([sizes, -sizes]).astype(dtype)
    body, reference = (op.tanh, np.tanh) if name == "tanh" else (op.atanh, np.arctanh)
    (output,) = run_kernel(kernel_of(body, relax.TensorType(x.shape, dtype)), [x], target)
    relative = 2.5e-7 if dtype == "float32" else 5e-16
    expected = reference(x.astype("longdouble"))
    np.testing.assert_allclose(output.astype("longdouble"), expected, rtol=relative)


@pytest.mark.parametrize("target", TARGETS)
def test_tanh_of_special_numbers(target: tvm.target.Target) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1e-45, -1e38, 0.625, -0.6249999], "float32")
    (output,) = run_kernel(kernel_of(op.tanh, x.shape), [x], target)
    np.testing.assert_allclose(output, np.tanh(x), rtol=2.5e-7)
    np.testing.assert_array_equal(np.signbit(output[1:]), np.signbit(x[1:]))


def test_functions_of_functions() -> None:
    """Each reads its operand several times: as one expression they would grow beyond bounds."""

    def gelu(x: np.ndarray) -> np.ndarray:
        return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    def body(emit, x):
        x = emit(op.nn.pad(x, [2, 1, 1, 2]))
        for function in (op.nn.gelu_tanh, op.tanh, op.nn.gelu_tanh, op.tanh):
            x = emit(function(x))
        return x

    x = np.random.default_rng(0).standard_normal((13, 15)).astype("float32")
    model = tvm_ios.compile(relax_module(body, x.shape), search=False, threads=1)
    wanted = np.tanh(gelu(np.tanh(gelu(np.pad(x, [(2, 1), (1, 2)])))))
    np.testing.assert_allclose(model(x), wanted, rtol=1e-5, atol=1e-6)
