# SPDX-License-Identifier: Apache-2.0
"""Products of ONNX Runtime's own domain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.contributed import Node, check, check_close, compiled, numbers
from tvm_ios.errors import ModelError

PRODUCTS = [
    ((2, 3, 5), (2, 5, 7), {"alpha": 0.5}),
    ((2, 5, 3), (2, 7, 5), {"transA": 1, "transB": 1}),
    ((2, 1, 3, 5), (4, 7, 5), {"transB": 1, "alpha": -2.0}),
    ((3, 2, 4, 5), (2, 4, 5, 7), {"transBatchA": 1}),
    ((5, 2, 4, 3), (2, 4, 5, 7), {"transBatchA": 1, "transA": 1}),
    ((2, 4, 3, 5), (5, 2, 4, 7), {"transBatchB": 1}),
    ((2, 4, 3, 5), (7, 2, 4, 5), {"transBatchB": 1, "transB": 1}),
    ((5,), (5, 7), {"transA": 1}),
    ((3, 5), (5,), {"transB": 1}),
]


@pytest.mark.parametrize(("left", "right", "attributes"), PRODUCTS)
def test_fused_matmul(
    left: tuple[int, ...], right: tuple[int, ...], attributes: dict[str, Any], tmp_path: Path
) -> None:
    check(tmp_path, Node("FusedMatMul", [numbers(*left), numbers(*right)]), **attributes)


def test_older_name(tmp_path: Path) -> None:
    node = Node("TransposeMatMul", [numbers(2, 3, 5), numbers(2, 7, 5)])
    check(tmp_path, node, transB=1, alpha=2.0)


@pytest.mark.parametrize(
    ("activation", "parameters"),
    [
        ("Relu", {}),
        ("LeakyRelu", {"alpha": 0.1}),
        ("Celu", {"alpha": 0.3}),
        ("Selu", {"alpha": 1.5, "gamma": 1.1}),
        ("HardSigmoid", {"alpha": 0.1, "beta": 0.4}),
    ],
)
def test_fused_gemm(activation: str, parameters: dict[str, float], tmp_path: Path) -> None:
    node = Node("FusedGemm", [numbers(5, 3), numbers(7, 5), numbers(3, 1)])
    named = {f"activation_{name}": number for name, number in parameters.items()}
    check(
        tmp_path,
        node,
        transA=1,
        transB=1,
        alpha=0.3,
        beta=0.2,
        activation=activation,
        **named,
    )


def test_an_activation_without_its_parameter_is_refused(tmp_path: Path) -> None:
    node = Node("FusedGemm", [numbers(3, 5), numbers(5, 7)])
    with pytest.raises(ModelError, match=r"\[\] of its activation LeakyRelu, which takes"):
        compiled(tmp_path, node, activation="LeakyRelu")


def test_an_unknown_activation_is_refused(tmp_path: Path) -> None:
    node = Node("FusedGemm", [numbers(3, 5), numbers(5, 7)])
    with pytest.raises(ModelError, match="the activation 'Affine', which is not supported"):
        compiled(tmp_path, node, activation="Affine")


def test_fused_matmul_with_an_activation(tmp_path: Path) -> None:
    left, right = numbers(2, 3, 5), numbers(2, 7, 5)
    node = Node("FusedMatMulActivation", [left, right])
    result = compiled(
        tmp_path, node, transB=1, alpha=0.5, activation="LeakyRelu", activation_alpha=0.1
    )
    product = left @ right.transpose(0, 2, 1) / 2
    check_close(result, [np.where(product < 0, product * np.float32(0.1), product)])


def test_product_with_a_gelu(tmp_path: Path) -> None:
    data, weight, bias = numbers(2, 3, 5), numbers(5, 7), numbers(7)
    x = (data @ weight + bias).astype("float64")
    wanted = x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2
    result = compiled(tmp_path, Node("GemmFastGelu", [data, weight, bias]))
    check_close(result, [wanted.astype("float32")])
