# SPDX-License-Identifier: Apache-2.0
"""Activations of ONNX Runtime's own domain."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.contributed import Node, check, check_close, compiled, numbers
from tvm_ios.errors import ModelError

_erf = np.vectorize(math.erf)


def _gelu(x: np.ndarray) -> np.ndarray:
    return x * (1 + _erf(x / math.sqrt(2))) / 2


@pytest.mark.parametrize(
    ("kind", "biased", "attributes", "dtype"),
    [
        ("Gelu", False, {}, "float32"),
        ("BiasGelu", True, {}, "float16"),
        ("FastGelu", False, {}, "float16"),
        ("FastGelu", True, {}, "float32"),
        ("QuickGelu", False, {}, "float32"),
        ("QuickGelu", False, {"alpha": 0.7}, "float16"),
    ],
)
def test_gelu(
    kind: str, biased: bool, attributes: dict[str, Any], dtype: str, tmp_path: Path
) -> None:
    data = 3 * numbers(3, 5, 7, dtype=dtype)
    inputs = [data, numbers(7, dtype=dtype)] if biased else [data]
    check(tmp_path, Node(kind, inputs), **attributes)


@pytest.mark.parametrize("kind", ["FastGelu", "QuickGelu"])
def test_gelu_of_what_is_not_finite(kind: str, tmp_path: Path) -> None:
    data = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 1e-30], "float32")
    check(tmp_path, Node(kind, [data]))


def test_a_bias_of_another_length_is_refused(tmp_path: Path) -> None:
    node = Node("BiasGelu", [numbers(3, 7), numbers(3)])
    with pytest.raises(ModelError, match=r"BiasGelu has a bias of \[3\]; it must be of \[7\]\.$"):
        compiled(tmp_path, node)


def test_sum_with_a_bias_and_a_tensor(tmp_path: Path) -> None:
    data, bias, skip = numbers(2, 5, 7), numbers(7), numbers(2, 5, 7, seed=1)
    check_close(compiled(tmp_path, Node("BiasAdd", [data, bias, skip])), [data + bias + skip])


def test_product_of_halves(tmp_path: Path) -> None:
    data, bias = numbers(2, 5, 14), numbers(14)
    left, right = np.split(data + bias, 2, -1)
    wanted = (left * _gelu(right)).astype("float32")
    check_close(compiled(tmp_path, Node("BiasSplitGelu", [data, bias])), [wanted])


def _softmax(x: np.ndarray, axis: int) -> np.ndarray:
    rows = x.reshape(*x.shape[:axis], -1).astype("float64")
    weights = np.exp(rows - rows.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)).reshape(x.shape).astype("float32")


@pytest.mark.parametrize(
    ("bias", "axis", "inner"),
    [
        ((2, 1, 1, 7), 3, 1),
        ((2, 1, 5, 7), 2, 1),
        ((1, 1, 5, 7), -1, 0),
        ((5, 7), 3, 0),
        ((2, 3, 5, 7), 3, 1),
    ],
)
def test_softmax_of_a_sum(bias: tuple[int, ...], axis: int, inner: int, tmp_path: Path) -> None:
    data, added = numbers(2, 3, 5, 7), numbers(*bias)
    node = Node("BiasSoftmax", [data, added])
    result = compiled(tmp_path, node, axis=axis, is_inner_broadcast=inner)
    check_close(result, [_softmax(data + added, axis % 4)])


def test_a_bias_that_repeats_along_other_axes_is_refused(tmp_path: Path) -> None:
    node = Node("BiasSoftmax", [numbers(2, 3, 5, 7), numbers(2, 1, 1, 7)])
    with pytest.raises(ModelError, match="does not repeat as is_inner_broadcast=0 says"):
        compiled(tmp_path, node, axis=3, is_inner_broadcast=0)


@pytest.mark.parametrize(("whole", "with_residual"), [(True, False), (False, True)])
def test_dropout_keeps_everything(whole: bool, with_residual: bool, tmp_path: Path) -> None:
    data = numbers(2, 5, 7)
    bias = numbers(2, 5, 7, seed=2) if whole else numbers(7)
    residual = numbers(2, 5, 7, seed=1) if with_residual else None
    inputs = [data, bias, residual, np.float32(0.5), np.array(False)]
    results = compiled(tmp_path, Node("BiasDropout", inputs, (3, 4), ("y", "mask")))
    wanted = data + bias + (0 if residual is None else residual)
    check_close(results, [wanted, np.ones(data.shape, bool)])
