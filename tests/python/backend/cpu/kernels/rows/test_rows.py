# SPDX-License-Identifier: Apache-2.0
"""Softmax, layer normalisation and reductions: any axis, any length, any vector width."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
import tvm

from support.networks import NATIVE, TARGETS, assert_close, isa_of, run_kernel
from tvm_ios.backend.cpu.kernels.rows.layer_norm import LayerNorm, layer_norm_kernel
from tvm_ios.backend.cpu.kernels.rows.pieces import divides, reduce_in_pieces_kernel
from tvm_ios.backend.cpu.kernels.rows.reduce import Reduce, reduce_kernel
from tvm_ios.backend.cpu.kernels.rows.softmax import Softmax, softmax_kernel
from tvm_ios.ops.epilogue import Epilogue, Operand, Step

SHAPES = [(7, 100, 1), (3, 5, 1), (1, 1, 1), (2, 64, 1), (33, 130, 1), (2, 9, 21), (3, 4, 16)]
STEPS = (
    Step("multiply", (Operand("value", 0), Operand("argument", 0))),
    Step("add", (Operand("value", 1), Operand("argument", 1))),
)


def random_array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", SHAPES)
def test_softmax(shape: tuple[int, int, int], target: tvm.target.Target) -> None:
    core, _ = isa_of(target)
    data, residual = 5 * random_array(*shape), random_array(*shape, seed=1)
    kinds = ("full", "last" if shape[2] == 1 else "full")
    other = random_array(*(shape[1:2] if kinds[1] == "last" else shape), seed=2)
    kernel = softmax_kernel(Softmax(*shape, Epilogue(STEPS, kinds)), core)
    inputs = [a.reshape(-1) for a in (data, residual, other)]
    (output,) = run_kernel(kernel, inputs, target)
    shift = other[:, None] if kinds[1] == "last" else other
    expected = scipy.special.softmax(data.astype("float64"), axis=1) * residual + shift
    assert_close(output.reshape(shape), expected.astype("float32"), relative=2e-6)


@pytest.mark.parametrize("inner", [1, 3])
def test_softmax_of_large_and_of_masked_values(inner: int) -> None:
    data = np.tile(np.array([1e4, 1e4 - 1, -np.inf, -1e4, 3e38, -3e38], "float32"), (2, 3))
    data[0] = np.where(data[0] > 1e5, 0, data[0])
    shaped = np.repeat(data[:, :, None], inner, 2)
    kernel = softmax_kernel(Softmax(*shaped.shape), isa_of(NATIVE)[0])
    (output,) = run_kernel(kernel, [shaped.reshape(-1)], NATIVE)
    expected = scipy.special.softmax(shaped.astype("float64"), axis=1)
    assert_close(output.reshape(shaped.shape), expected.astype("float32"), relative=1e-6)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(5, 100), (3, 6), (2, 48), (1, 77)])
def test_layer_norm(shape: tuple[int, int], target: tvm.target.Target) -> None:
    """Of rows whose mean is large beside their variance."""
    core, _ = isa_of(target)
    data, residual = random_array(*shape) + 100, random_array(*shape, seed=1)
    gamma, beta, other = (random_array(shape[1], seed=s) for s in (2, 3, 4))
    kernel = layer_norm_kernel(LayerNorm(*shape, 1e-5, Epilogue(STEPS, ("full", "last"))), core)
    inputs = [a.reshape(-1) for a in (data, gamma, beta, residual, other)]
    (output,) = run_kernel(kernel, inputs, target)
    exact = data.astype("float64")
    variance = exact.var(-1, keepdims=True)
    normal = (exact - exact.mean(-1, keepdims=True)) / np.sqrt(variance + 1e-5) * gamma + beta
    expected = normal * residual + other
    assert_close(output.reshape(shape), expected.astype("float32"), relative=2e-5)


REDUCTIONS = {
    "sum": np.sum,
    "mean": np.mean,
    "variance": np.var,
    "max": np.max,
    "min": np.min,
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, target: tvm.target.Target) -> None:
    core, _ = isa_of(target)
    for shape in SHAPES:
        data = random_array(*shape)
        scale, shift = (random_array(shape[0], shape[2], seed=s) for s in (1, 2))
        kernel = reduce_kernel(Reduce(name, *shape, Epilogue(STEPS, ("full", "full"))), core)
        inputs = [a.reshape(-1) for a in (data, scale, shift)]
        (output,) = run_kernel(kernel, inputs, target)
        expected = REDUCTIONS[name](data.astype("float64"), axis=1) * scale + shift
        assert_close(output.reshape(scale.shape), expected.astype("float32"), relative=1e-5)


LONG = [(1, 1 << 17, 1), (2, 70001, 1), (1, 16385 * 5, 3), (3, 3277, 33), (1, 40000, 5)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [n for n in REDUCTIONS if n != "variance"])
def test_reductions_in_pieces(name: str, target: tvm.target.Target) -> None:
    core, _ = isa_of(target)
    for shape in LONG:
        data = random_array(*shape) + 0.5
        scale, shift = (random_array(shape[0], shape[2], seed=s) for s in (1, 2))
        reduce = Reduce(name, *shape, Epilogue(STEPS, ("full", "full")))
        inputs = [a.reshape(-1) for a in (data, scale, shift)]
        (output,) = run_kernel(reduce_in_pieces_kernel(reduce, core), inputs, target)
        expected = REDUCTIONS[name](data.astype("float64"), axis=1) * scale + shift
        assert_close(output.reshape(scale.shape), expected.astype("float32"), relative=1e-5)


def test_which_reductions_are_divided() -> None:
    """Large ones with few results, so that each worker has a part, however many there are."""
    core, _ = isa_of(NATIVE)
    assert all(divides(Reduce("sum", *shape), core) for shape in LONG[:3])
    assert not divides(Reduce("sum", 1, 1000), core)
    assert not divides(Reduce("sum", 100, 1 << 16), core)
    assert not divides(Reduce("sum", 1, 1 << 10, 1 << 10), core)
    assert not divides(Reduce("argmax", 1, 1 << 20), core)


@pytest.mark.parametrize("extreme", [np.nan, np.inf, -np.inf])
def test_an_extreme_that_is_no_ordinary_number(extreme: float) -> None:
    """In the shorter piece at the end."""
    core, _ = isa_of(NATIVE)
    data = random_array(140000)
    data[-1] = extreme
    for name in ("max", "min"):
        kernel = reduce_in_pieces_kernel(Reduce(name, 1, data.size), core)
        (output,) = run_kernel(kernel, [data], NATIVE)
        np.testing.assert_array_equal(output, getattr(np, name)(data, keepdims=True))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", SHAPES)
def test_places(shape: tuple[int, int, int], target: tvm.target.Target) -> None:
    """Of the first of equal elements, and of the first that is no number."""
    core, _ = isa_of(target)
    rng = np.random.default_rng(0)
    few = [rng.integers(-2, 3, shape), rng.choice([1, np.inf, -np.inf, np.nan, -0.0, 0], shape)]
    for data in (random_array(*shape), *few, np.full(shape, -np.inf)):
        for name in ("argmax", "argmin"):
            kernel = reduce_kernel(Reduce(name, *shape), core)
            (output,) = run_kernel(kernel, [data.astype("float32").reshape(-1)], target)
            expected = getattr(np, name)(data, axis=1).reshape(-1)
            np.testing.assert_array_equal(output, expected)


@pytest.mark.parametrize("shape", [(3, 200, 1), (3, 200, 5)])
def test_the_variance_of_numbers_far_from_zero(shape: tuple[int, int, int]) -> None:
    core, _ = isa_of(NATIVE)
    data = 1000 + random_array(*shape)
    kernel = reduce_kernel(Reduce("variance", *shape), core)
    (output,) = run_kernel(kernel, [data.reshape(-1)], NATIVE)
    expected = np.var(data.astype("float64"), axis=1).reshape(-1)
    assert_close(output, expected.astype("float32"), relative=1e-3)
