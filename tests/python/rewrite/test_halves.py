# SPDX-License-Identifier: Apache-2.0
"""Networks of 16-bit numbers, computed in float32 where a back end does not compute in these."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tvm import relax

import tvm_ios
from support.networks import relax_module
from tvm_ios.ops.recurrence import Recurrence
from tvm_ios.ops.recurrence_function import recurrence
from tvm_ios.rewrite.prepare import prepare

op = relax.op
TYPES = {"float16": np.dtype("float16"), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


def _run(body, *arrays: np.ndarray) -> np.ndarray:
    types = [relax.TensorType(a.shape, str(a.dtype)) for a in arrays]
    return tvm_ios.compile(relax_module(body, *types), search=False, threads=1)(*arrays)


def _random(name: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(TYPES[name])


@pytest.mark.parametrize("name", TYPES)
def test_sums_neither_overflow_nor_lose_digits(name: str) -> None:
    x = np.full((3, 5000), 31.0, TYPES[name])
    result = _run(lambda emit, a: emit(op.mean(a, axis=1)), x)
    assert result.dtype == TYPES[name]
    np.testing.assert_array_equal(result.astype("float32"), [31, 31, 31])


@pytest.mark.parametrize("name", TYPES)
def test_a_network_of_all_kinds_of_operators(name: str) -> None:
    """Constants, tuples, attributes that name a type, and operators of several results."""
    weights = _random(name, 6, 4)

    def body(emit, x):
        product = emit(op.matmul(x, relax.const(weights, name)))
        norm = emit(op.nn.softmax(emit(op.concat([product, product], axis=1))))
        first, second = (
            emit(relax.TupleGetItem(emit(op.split(norm, 2, axis=1)), i)) for i in range(2)
        )
        ones = emit(op.ones((5, 4), name))
        return emit(op.add(emit(op.add(first, second)), emit(op.cumsum(ones, 1, name))))

    x = _random(name, 5, 6)
    result = _run(body, x)
    scores = x.astype("float64") @ weights.astype("float64")
    weight = np.exp(np.concatenate([scores, scores], 1))
    weight /= weight.sum(1, keepdims=True)
    wanted = weight[:, :4] + weight[:, 4:] + np.arange(1, 5)
    assert result.dtype == TYPES[name]
    np.testing.assert_allclose(
        result.astype("float64"), wanted, rtol=2 * float(ml_dtypes.finfo(TYPES[name]).eps)
    )


@pytest.mark.parametrize("name", TYPES)
def test_casts_round(name: str) -> None:
    """To 16 bits, from them after an operator, and of integers."""
    x = np.array([1.0001, 2.50003, 300.7, 1e-3], "float32")

    def body(emit, a):
        narrow = emit(op.astype(a, name))
        tripled = emit(op.multiply(narrow, relax.const(3, name)))
        return emit(op.astype(tripled, "float32"))

    narrow = x.astype(TYPES[name]).astype("float32")
    wanted = (narrow * 3).astype(TYPES[name]).astype("float32")
    np.testing.assert_array_equal(_run(body, x), wanted)

    def to_integers(emit, a):
        less = emit(op.subtract(a, relax.const(2.0**-14, name)))
        return emit(op.astype(less, "int32"))

    np.testing.assert_array_equal(_run(to_integers, np.array([3, 7], TYPES[name])), [3, 7])
    numbers = np.array([2049, 513, -4099], "int32")

    def of_integers(emit, a):
        return emit(op.astype(emit(op.astype(a, name)), "float32"))

    wanted = numbers.astype(TYPES[name]).astype("float32")
    np.testing.assert_array_equal(_run(of_integers, numbers), wanted)


def test_back_ends_that_compute_in_them_keep_them() -> None:
    mod = relax_module(lambda emit, x: emit(op.exp(x)), relax.TensorType((4,), "float16"))

    def types(halves: bool) -> list[str]:
        bindings = prepare(mod, halves=halves)["main"].body.blocks[0].bindings
        return [str(b.var.ty.dtype) for b in bindings]

    assert types(True) == ["float16"]
    assert types(False)[-1] == "float16"
    assert "float32" in types(False)


@pytest.mark.parametrize("name", TYPES)
def test_recurrent_layers_are_not_rounded_between_their_products_and_steps(name: str) -> None:
    """The converters cast what a layer in float32 reads and returns."""
    layer = Recurrence("rnn", ("tanh",), steps=4, batch=3, hidden=5)
    weights, steps = _random(name, 6, 5), _random(name, 5, 5)

    def body(emit, x):
        products = emit(op.matmul(x, relax.const(weights, name)))
        inputs = [products, relax.const(steps, name), op.zeros((3, 5), name)]
        wide = [emit(op.astype(each, "float32")) for each in inputs]
        found = recurrence(relax.BlockBuilder.current(), layer, wide)
        hidden = emit(op.astype(emit(relax.TupleGetItem(found, 0)), name))
        return emit(op.astype(emit(op.exp(hidden)), "float32"))

    x = _random(name, 4, 3, 6)
    state, wanted = np.zeros((3, 5)), []
    for part in x.astype("float64") @ weights.astype("float64"):
        state = np.tanh(part + state @ steps.astype("float64"))
        wanted.append(np.exp(state))
    np.testing.assert_array_equal(_run(body, x), np.array(wanted).astype(TYPES[name]))


@pytest.mark.parametrize("name", TYPES)
def test_numbers_of_operators_have_all_their_bits(name: str) -> None:
    def body(emit, x):
        third = emit(op.astype(relax.const(1 / 3, "float32"), name))
        return emit(op.astype(emit(op.multiply(x, third)), "float32"))

    x = _random(name, 40)
    wanted = (x.astype("float64") / 3).astype(TYPES[name])
    assert (wanted != x * np.array(1 / 3, TYPES[name])).any()
    np.testing.assert_array_equal(_run(body, x), wanted)
