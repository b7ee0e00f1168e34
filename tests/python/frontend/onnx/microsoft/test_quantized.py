# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX Runtime on 8-bit integers, compared with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.contributed import Node, compiled, numbers
from support.quantized_nodes import check_near, constants_of, integers, scale, scales, zero
from tvm_ios.errors import ModelError

TYPES = [("uint8", 120, 99), ("int8", -12, 7)]


@pytest.mark.parametrize(("dtype", "first", "last"), TYPES)
@pytest.mark.parametrize("kind", ["QLinearAdd", "QLinearMul"])
def test_two_tensors(kind: str, dtype: str, first: int, last: int, tmp_path: Path) -> None:
    a, b = integers(2, 3, 5, dtype=dtype), integers(3, 1, dtype=dtype, seed=1)
    grids = [scale(0.021), zero(first, dtype)], [scale(0.05), zero(3, dtype)]
    inputs = [a, *grids[0], b, *grids[1], scale(0.043), zero(last, dtype)]
    check_near(tmp_path, Node(kind, inputs, constants_of(inputs, 0, 3)))


ONE_TENSOR: dict[str, dict[str, Any]] = {
    "QLinearSigmoid": {},
    "QLinearLeakyRelu": {"alpha": 0.3},
    "QLinearGlobalAveragePool": {},
    "QLinearAveragePool": {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1]},
}


@pytest.mark.parametrize(("dtype", "first", "last"), TYPES)
@pytest.mark.parametrize("kind", ONE_TENSOR)
def test_one_tensor(kind: str, dtype: str, first: int, last: int, tmp_path: Path) -> None:
    x = integers(2, 3, 9, 7, dtype=dtype)
    inputs = [x, scale(0.051), zero(first, dtype), scale(0.037), zero(last, dtype)]
    check_near(tmp_path, Node(kind, inputs, constants_of(inputs, 0)), **ONE_TENSOR[kind])


@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
        {"kernel_shape": [3, 3], "strides": [2, 3], "ceil_mode": 1},
        {"kernel_shape": [2, 2], "channels_last": 1},
    ],
)
def test_average_pools(attributes: dict[str, Any], tmp_path: Path) -> None:
    inputs = [integers(1, 9, 11, 3), scale(0.05), zero(120), scale(0.041), zero(100)]
    check_near(tmp_path, Node("QLinearAveragePool", inputs, constants_of(inputs, 0)), **attributes)


def test_global_average_of_channels_last(tmp_path: Path) -> None:
    inputs = [integers(2, 9, 11, 3), scale(0.05), zero(120), scale(0.01), zero(100)]
    node = Node("QLinearGlobalAveragePool", inputs, constants_of(inputs, 0))
    check_near(tmp_path, node, channels_last=1)


@pytest.mark.parametrize(
    "attributes",
    [{"opset": 13}, {"opset": 13, "axis": 1}, {"opset": 12, "axis": 1}, {"opset": 12}],
)
def test_softmax(attributes: dict[str, Any], tmp_path: Path) -> None:
    inputs = [integers(2, 3, 7), scale(0.05), zero(120), scale(1 / 256), zero(0)]
    check_near(tmp_path, Node("QLinearSoftmax", inputs, constants_of(inputs, 0)), **attributes)


@pytest.mark.parametrize(("axes", "keepdims"), [([-1], 1), ([0, 2], 0)])
def test_means(axes: list[int], keepdims: int, tmp_path: Path) -> None:
    """ONNX Runtime has no kernel for a CPU."""
    x = integers(2, 3, 17)
    inputs = [x, scale(0.05), zero(120), scale(0.031), zero(100)]
    node = Node("QLinearReduceMean", inputs, constants_of(inputs, 0))
    (found,) = compiled(tmp_path, node, axes=axes, keepdims=keepdims)
    mean = (0.05 * (x.astype("float64") - 120)).mean(tuple(axes), keepdims=bool(keepdims))
    wanted = np.clip(np.rint(mean / 0.031) + 100, 0, 255)
    assert found.dtype == np.uint8
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= 1


def test_concatenation(tmp_path: Path) -> None:
    parts = [integers(2, 3, 4), scale(0.02), zero(30), integers(2, 5, 4), scale(0.05), zero(128)]
    inputs = [scale(0.043), zero(101), *parts]
    check_near(tmp_path, Node("QLinearConcat", inputs, [0, 1, 3, 4, 6, 7]), axis=-2)


def test_choice(tmp_path: Path) -> None:
    inputs = [
        numbers(2, 3, 4) > 0,
        *(integers(2, 3, 4), scale(0.02), zero(30)),
        *(integers(3, 1, seed=1), scale(0.05), zero(128)),
        *(scale(0.043), zero(100)),
    ]
    check_near(tmp_path, Node("QLinearWhere", inputs, constants_of(inputs, 0, 1, 4)))


def test_grids_that_are_computed_while_it_runs(tmp_path: Path) -> None:
    inputs = [integers(2, 3, 5), scale(0.05), zero(120), scale(0.037), zero(7)]
    check_near(tmp_path, Node("QLinearSigmoid", inputs))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_to_integers_and_back(dtype: str, tmp_path: Path) -> None:
    zeros = np.array([3, 0, 100], dtype)
    inputs = [30 * numbers(2, 3, 4), scales(3), zeros]
    check_near(tmp_path, Node("QuantizeLinear", inputs, [1, 2]), axis=1)
    inputs = [integers(2, 3, 4, dtype=dtype), scales(3), zeros]
    check_near(tmp_path, Node("DequantizeLinear", inputs, [1, 2]), axis=1)


def test_extremes(tmp_path: Path) -> None:
    """A product beyond the integers is the last of them."""
    a = np.array([0, 255, 0, 255, 128], "uint8")
    inputs = [a, scale(1.0), zero(128), a[::-1].copy(), scale(1.0), zero(127)]
    inputs += [scale(0.25), zero(128)]
    check_near(tmp_path, Node("QLinearMul", inputs, constants_of(inputs, 0, 3)))


@pytest.mark.parametrize("value", [0.0, -0.1, np.nan, np.inf])
def test_a_scale_that_divides_is_positive(value: float, tmp_path: Path) -> None:
    inputs = [integers(2, 3), scale(0.05), zero(120), scale(value), zero(0)]
    node = Node("QLinearSigmoid", inputs, constants_of(inputs, 0))
    with pytest.raises(ModelError, match=r"QLinearSigmoid has a scale that is no positive number"):
        compiled(tmp_path, node)


REFUSED = {
    "has a scale that is no finite number": [scale(np.nan), zero(1), scale(0.1), zero(0)],
    r"has \[3\] scales, but takes one": [scales(3), zero(1), scale(0.1), zero(0)],
    r"has \[2\] zero points, but takes": [scale(0.1), integers(2), scale(0.1), zero(0)],
    "has a zero point of int8 for": [scale(0.1), zero(1, "int8"), scale(0.1), zero(0)],
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_grids(message: str, tmp_path: Path) -> None:
    inputs = [integers(2, 3), *REFUSED[message]]
    node = Node("QLinearLeakyRelu", inputs, constants_of(inputs, 0))
    with pytest.raises(ModelError, match=message):
        compiled(tmp_path, node)


def test_an_incomplete_concatenation(tmp_path: Path) -> None:
    inputs = [scale(0.1), zero(0), integers(2, 3), scale(0.1)]
    with pytest.raises(ModelError, match="has 2 inputs, but takes three for each part"):
        compiled(tmp_path, Node("QLinearConcat", inputs, [0, 1, 3]), axis=0)


@pytest.mark.parametrize("inputs", [[scale(0.1), zero(0)], [scale(0.1), zero(0), None, zero(0)]])
def test_a_result_without_a_scale(inputs: list[Any], tmp_path: Path) -> None:
    given = [integers(2, 3), *inputs]
    node = Node("QLinearSigmoid", given, constants_of(given, 0))
    with pytest.raises(ModelError, match="needs a scale and a zero point of its data, and of its"):
        compiled(tmp_path, node)
