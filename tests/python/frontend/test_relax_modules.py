# SPDX-License-Identifier: Apache-2.0
"""Relax modules whose dimensions are symbolic variables: any sizes, given sizes, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_ios
from support.networks import relax_module
from tvm_ios.errors import ModelError
from tvm_ios.frontend.relax_modules import from_relax

op = relax.op


def var(name: str) -> tvm.tirx.Var:
    return tvm.tirx.Var(name, "int64")


def tensor(*shape: object) -> relax.TensorType:
    return relax.TensorType(shape, "float32")


def network() -> tvm.IRModule:
    """Rows that are added, of which one dimension is that of both inputs."""
    rows, columns = var("n"), var("m")

    def body(emit, x, y):
        total = emit(op.sum(emit(op.multiply(x, x)), [1], True))
        flat = emit(op.reshape(emit(op.add(total, y)), (rows * columns,)))
        return emit(op.reshape(emit(op.nn.relu(flat)), (rows, columns)))

    return relax_module(body, tensor(rows, 4), tensor(rows, columns))


def inputs(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(rows)
    shapes = (rows, 4), (rows, columns)
    x, y = (random.standard_normal(shape).astype("float32") for shape in shapes)
    return x, y


def check(model: tvm_ios.CompiledModel, rows: int, columns: int) -> None:
    x, y = inputs(rows, columns)
    expected = np.maximum((x * x).sum(1, keepdims=True) + y, 0)
    np.testing.assert_allclose(model(x, y), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
def test_any_sizes(threads: int) -> None:
    model = tvm_ios.compile(network(), search=False, threads=threads)
    assert [info.shape for info in model.inputs] == [(None, 4), (None, None)]
    for rows, columns in ((1, 1), (3, 5), (17, 33), (64, 2)):
        check(model, rows, columns)
    with pytest.raises(ValueError, match="n"):
        model(inputs(2, 3)[0], inputs(3, 3)[1])


def test_a_module_is_compiled_twice() -> None:
    mod = network()
    for _ in range(2):
        check(tvm_ios.compile(mod, search=False, threads=1), 3, 5)


def test_a_searched_example_has_a_function_of_its_own() -> None:
    model = tvm_ios.compile(network(), threads=1, max_group_size=1)
    assert len(model.schedules) == 2
    for rows, columns in ((1, 128), (3, 5)):
        check(model, rows, columns)


@pytest.mark.parametrize(
    ("given", "shapes"),
    [
        ({"dims": {"n": 3, "m": 5}}, [(3, 4), (3, 5)]),
        ({"dims": {"n": 3}}, [(3, 4), (3, None)]),
        ({"dims": {"m": (2, 9)}}, [(None, 4), (None, None)]),
        ({"input_shapes": {"x0": (3, 4), "x1": (3, 5)}}, [(3, 4), (3, 5)]),
    ],
)
def test_sizes_that_are_given(given: dict[str, object], shapes: list[tuple[int, ...]]) -> None:
    model = tvm_ios.compile(network(), search=False, **given)
    assert [info.shape for info in model.inputs] == shapes
    check(model, 3, 5)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"dims": {"k": 3}}, "no open dimension 'k'; it leaves open: n, m"),
        ({"input_shapes": {"x0": (3, 4), "x1": (2, 5)}}, "'n' is given the sizes 3 and 2"),
        ({"input_shapes": {"x0": (3, 5)}}, "fixes dimension 1 of input 'x0' to 4"),
    ],
)
def test_sizes_that_do_not_fit(given: dict[str, object], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        tvm_ios.compile(network(), search=False, **given)


def test_variables_of_one_name_are_not_one() -> None:
    mod = relax_module(
        lambda emit, x, y: emit(op.matmul(x, y)), tensor(var("n"), 4), tensor(4, var("n"))
    )
    model = tvm_ios.compile(mod, search=False, threads=1)
    x, y = np.ones((3, 4), "float32"), np.ones((4, 5), "float32")
    np.testing.assert_allclose(model(x, y), x @ y)


def test_a_dimension_that_is_computed() -> None:
    mod = relax_module(lambda emit, x: emit(op.nn.relu(x)), tensor(var("n") * 2, 4))
    with pytest.raises(ModelError):
        tvm_ios.compile(mod, search=False)


def test_a_module_without_open_dimensions_stays_as_it_is() -> None:
    mod = relax_module(lambda emit, x: emit(op.nn.relu(x)), (3, 4))
    assert from_relax(mod) is mod


def test_weights_decide_a_size() -> None:
    """Relax does not compare an open size with a known one."""
    weights = relax.const(np.ones((4, 3, 1, 1), "float32"))
    channels, height = var("c"), var("h")
    mod = relax_module(
        lambda emit, x: emit(op.nn.conv2d(x, weights)), tensor(1, channels, height, 5)
    )
    model = tvm_ios.compile(mod, search=False, threads=1)
    assert [info.shape for info in model.inputs] == [(1, 3, None, 5)]
    x = np.random.default_rng(0).standard_normal((1, 3, 7, 5)).astype("float32")
    np.testing.assert_allclose(model(x), np.repeat(x.sum(1, keepdims=True), 4, 1), atol=1e-5)


def test_elements_are_as_many_as_before() -> None:
    rows, others = var("n"), var("m")

    def body(emit, x, y):
        return emit(op.add(emit(op.reshape(x, (others, 2))), y))

    mod = relax_module(body, tensor(rows, 4), tensor(others, 2))
    model = tvm_ios.compile(mod, search=False, threads=1)
    x, y = np.arange(12, dtype="float32").reshape(3, 4), np.ones((6, 2), "float32")
    np.testing.assert_array_equal(model(x, y), x.reshape(6, 2) + 1)
    with pytest.raises(ValueError, match="must fulfil"):
        model(x, np.ones((5, 2), "float32"))
