# SPDX-License-Identifier: Apache-2.0
"""Products and convolutions of 8-bit integers, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_ios
from support.contributed import Node, check, compiled, numbers
from support.quantized_nodes import check_near, constants_of, integers, scale, scales, zero
from tvm_ios.errors import ModelError

PRODUCTS: dict[str, list[Any]] = {
    "by column": [integers(33, 19, dtype="int8"), scales(19), None, numbers(19)],
    "zero points": [integers(33, 19), scale(0.02), zero(130)],
    "zero points by column": [integers(33, 19), scales(19), integers(19, seed=1)],
    "several matrices": [integers(2, 33, 19, dtype="int8"), scale(0.02)],
}


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("case", PRODUCTS)
def test_what_is_quantised_while_it_runs(case: str, weights: bool, tmp_path: Path) -> None:
    inputs = [numbers(2, 7, 33), *PRODUCTS[case]]
    constants = constants_of(inputs, 0) if weights else ()
    check_near(tmp_path, Node("DynamicQuantizeMatMul", inputs, constants))


@pytest.mark.parametrize("x", [np.zeros((3, 8)), np.full((3, 8), 2.0), -np.ones((3, 8))])
def test_data_of_one_number(x: np.ndarray, tmp_path: Path) -> None:
    inputs = [x.astype("float32"), integers(8, 5), scale(0.02), zero(130)]
    check_near(tmp_path, Node("DynamicQuantizeMatMul", inputs, [1, 2, 3]))


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_products_as_numbers(dtype: str, weights: bool, tmp_path: Path) -> None:
    a, b = integers(2, 7, 33, dtype=dtype), integers(33, 19, dtype="int8")
    zeros = [zero(-20 if dtype == "int8" else 100, dtype), integers(19, dtype="int8")]
    inputs = [a, b, scale(0.03), scales(19), *zeros, numbers(19)]
    constants = constants_of(inputs, 0) if weights else ()
    check_near(tmp_path, Node("MatMulIntegerToFloat", inputs, constants))


@pytest.mark.parametrize("quantised", [True, False])
@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm(quantised: bool, transposed: int, tmp_path: Path) -> None:
    shape = (19, 33) if transposed else (33, 19)
    inputs = [integers(7, 33).T.copy() if transposed else integers(7, 33), scale(0.03), zero(100)]
    inputs += [integers(*shape, dtype="int8"), scales(19), np.zeros(19, "int8")]
    inputs.append(np.arange(-900, 1000, 100).astype("int32"))
    inputs += [scale(0.5), zero(100)] if quantised else []
    node = Node("QGemm", inputs, constants_of(inputs, 0))
    check_near(tmp_path, node, transA=transposed, transB=transposed, alpha=0.7)


@pytest.mark.parametrize("last", [0, 1])
def test_convolution(last: int, tmp_path: Path) -> None:
    data = integers(1, 9, 11, 3) if last else integers(1, 3, 9, 11)
    inputs = [data, scale(0.03), zero(100), integers(8, 3, 3, 3, dtype="int8"), scales(8)]
    inputs += [np.zeros(8, "int8"), scale(0.4), zero(100)]
    inputs.append(np.arange(-4, 4).astype("int32") * 1000)
    node = Node("QLinearConv", inputs, constants_of(inputs, 0))
    check_near(tmp_path, node, steps=0, channels_last=last, pads=[1, 1, 1, 1], strides=[2, 1])


@pytest.mark.parametrize("kind", ["MatMulInteger", "MatMulIntegerToFloat"])
@pytest.mark.parametrize("known", [True, False])
def test_bytes_are_multiplied_as_bytes(
    kind: str, known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the zero point is known or not."""
    monkeypatch.setenv("TVM_IOS_EMULATE_INSTRUCTIONS", "1")
    operands = [integers(5, 32), integers(32, 24, dtype="int8") // 2]
    scaled = [scale(0.1), scale(0.2)] if kind == "MatMulIntegerToFloat" else []
    inputs = [*operands, *scaled, zero(128)]
    domain = "com.microsoft" if scaled else ""
    last = [] if known else [len(inputs) - 1]
    node = Node(kind, inputs, constants_of(inputs, 0, *last), domain=domain)
    check_near(tmp_path, node)
    library = tvm_ios.compile(tmp_path / "m.onnx", search=False)
    assert [o.kernel for o in library.schedule.operators].count("int8") == 1


@pytest.mark.parametrize("depth", [33, 300, 1500])
@pytest.mark.parametrize("weights", [(), (1, 3), (1, 2, 3)])
def test_sums_of_any_length_are_exact(depth: int, weights: tuple[int, ...], tmp_path: Path) -> None:
    """Sums beyond the integers of float32 are those of parts."""
    a = integers(3, depth)
    a[0], b = 255, integers(depth, 5)
    b[:, 0] = 255
    inputs = [a, b, zero(0), np.array([0, 3, 255, 128, 7], "uint8")]
    check(tmp_path, Node("MatMulInteger", inputs, weights, domain=""))


@pytest.mark.parametrize("a_zero", [zero(7), integers(4)])
def test_zero_points_of_rows(a_zero: np.ndarray, tmp_path: Path) -> None:
    """ONNX Runtime takes one; its reference evaluator takes one for each row."""
    a, b = integers(4, 9), integers(9, 5, dtype="int8")
    node = Node("MatMulInteger", [a, b, a_zero], [1, 2], domain="")
    (found,) = compiled(tmp_path, node)
    wide = a.astype("int32") - a_zero.astype("int32").reshape(-1, 1)
    np.testing.assert_array_equal(found, wide @ b.astype("int32"))


REFUSED: dict[str, tuple[str, list[Any]]] = {
    r"has scales or zero points of \[3\] for data of \[8, 5\]": (
        "DynamicQuantizeMatMul",
        [numbers(2, 8), integers(8, 5), scale(0.1), integers(3)],
    ),
    r"has \[8\] scales, but takes one": (
        "MatMulIntegerToFloat",
        [integers(2, 8), integers(8, 5), scales(8), scale(0.1)],
    ),
    "has a zero point of int8 for uint8": (
        "DynamicQuantizeMatMul",
        [numbers(2, 8), integers(8, 5), scale(0.1), zero(3, "int8")],
    ),
    "has a scale of its result without a zero point": (
        "QGemm",
        [integers(2, 8), scale(0.1), zero(0), integers(8, 5), scale(0.1), zero(0), None, scale(1)],
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_inputs(message: str, tmp_path: Path) -> None:
    kind, inputs = REFUSED[message]
    with pytest.raises(ModelError, match=message):
        compiled(tmp_path, Node(kind, inputs, constants_of(inputs, 0)))
