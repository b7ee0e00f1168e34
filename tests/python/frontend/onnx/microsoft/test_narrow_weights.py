# SPDX-License-Identifier: Apache-2.0
"""Weights of 2, 4 and 8 bits, compared with ONNX Runtime."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from support.contributed import Node, compiled, numbers
from support.quantized_nodes import check_near, constants_of, integers, scale, scales
from tvm_ios.errors import ModelError

COLUMNS = 19


def product(
    depth: int, bits: int = 4, block: int = 32, zeros: str = "", dtype: str = "float32"
) -> tuple[list[Any], dict[str, int]]:
    """Return the inputs and the attributes of a product by weights in blocks."""
    blocks = math.ceil(depth / block)
    inputs: list[Any] = [
        numbers(2, 5, depth, dtype=dtype),
        integers(COLUMNS, blocks, block * bits // 8),
        scales(COLUMNS, blocks).astype(dtype),
    ]
    if zeros == "packed":
        inputs.append(integers(COLUMNS, math.ceil(blocks * bits / 8)))
    elif zeros:
        inputs.append(100 * scales(COLUMNS, blocks, seed=1).astype(dtype))
    return inputs, {"K": depth, "N": COLUMNS, "bits": bits, "block_size": block}


@pytest.mark.parametrize(
    ("depth", "bits", "block", "zeros"),
    [
        *((64, 4, 32, zeros) for zeros in ("", "packed", "numbers")),
        *((70, 4, 16, zeros) for zeros in ("", "packed", "numbers")),
        *((100, 8, 32, zeros) for zeros in ("", "packed")),
    ],
)
def test_products(depth: int, bits: int, block: int, zeros: str, tmp_path: Path) -> None:
    inputs, attributes = product(depth, bits, block, zeros)
    node = Node("MatMulNBits", inputs, constants_of(inputs, 0))
    check_near(tmp_path, node, **attributes)


def test_two_bits(tmp_path: Path) -> None:
    inputs, attributes = product(64, bits=2, zeros="packed")
    check_near(tmp_path, Node("MatMulNBits", inputs, constants_of(inputs, 0)), **attributes)


def test_halves(tmp_path: Path) -> None:
    inputs, attributes = product(96, dtype="float16")
    check_near(tmp_path, Node("MatMulNBits", inputs, [1, 2]), 2e-3, **attributes)


@pytest.mark.parametrize("zeros", ["", "numbers"])
def test_groups_and_bias(zeros: str, tmp_path: Path) -> None:
    inputs, attributes = product(96, zeros=zeros)
    groups, bias = np.arange(96, dtype="int32") % 3, numbers(COLUMNS)
    inputs += [*([] if zeros else [None]), groups, bias]
    node = Node("MatMulNBits", inputs, constants_of(inputs, 0))
    check_near(tmp_path, node, **attributes)


def test_groups_with_packed_zero_points(tmp_path: Path) -> None:
    """ONNX Runtime takes other zero points than those of the groups."""
    inputs, attributes = product(96, zeros="packed")
    inputs.append(np.arange(96, dtype="int32") % 3)
    with pytest.raises(ModelError, match="has groups with packed zero points"):
        compiled(tmp_path, Node("MatMulNBits", inputs, [1, 2, 3, 4]), **attributes)


def test_what_may_be_rounded(tmp_path: Path) -> None:
    """ONNX Runtime rounds data to 8 bits at an accuracy level of 4."""
    inputs, attributes = product(96, zeros="packed")
    node = Node("MatMulNBits", inputs, [1, 2, 3])
    check_near(tmp_path, node, 0.02, accuracy_level=4, **attributes)


@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_parts_of_a_table(bits: int, zeros: bool, tmp_path: Path) -> None:
    indices = np.array([[0, -11, 10], [3, -1, 5]])
    inputs: list[Any] = [integers(11, 96 * bits // 8), indices, scales(11, 3)]
    inputs += [integers(11, math.ceil(3 * bits / 8))] if zeros else []
    node = Node("GatherBlockQuantized", inputs, constants_of(inputs, 1))
    check_near(tmp_path, node, bits=bits, block_size=32)


@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize(("taken", "along"), [(0, 1), (1, 0), (2, 1), (1, 1), (-1, -1)])
@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_parts_of_a_table_of_four_bits(
    dtype: str, taken: int, along: int, zeros: bool, tmp_path: Path
) -> None:
    """Compared with the definition in NumPy."""
    shape = (33, 20, 17)
    low = -8 if dtype == "int4" else 0
    held = integers(*shape).astype("int64") % 16 + low
    blocks = [math.ceil(n / 16) if i == along % 3 else n for i, n in enumerate(shape)]
    factors, shifts = scales(*blocks), integers(*blocks).astype("int64") % 16 + low
    narrow = getattr(ml_dtypes, dtype)
    indices = np.array([[0, -3, 5], [1, 2, 16]])
    inputs: list[Any] = [held.astype(narrow), indices, factors]
    inputs += [shifts.astype(narrow)] if zeros else []
    node = Node("GatherBlockQuantized", inputs, constants_of(inputs, 1), opset=21)
    about = {"gather_axis": taken, "quantize_axis": along, "block_size": 16}
    (found,) = compiled(tmp_path, node, **about)
    place = np.arange(shape[along]) // 16
    spread = np.take(factors, place, along), np.take(shifts if zeros else 0 * shifts, place, along)
    wanted = np.take((held - spread[1]) * spread[0], indices, taken)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


REFUSED: dict[str, dict[str, Any]] = {
    "has weights of 3 bits": {"bits": 3},
    "has blocks of 24 weights": {"block_size": 24},
    "in the order of a GPU": {"weight_prepacked": 1},
    r"multiplies data of \[2, 5, 64\] by 60 rows": {"K": 60},
    r"has its weights of \[19, 2, 16\]; they must be of \[20, 2, 16\]": {"N": 20},
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_attributes(message: str, tmp_path: Path) -> None:
    inputs, attributes = product(64)
    node = Node("MatMulNBits", inputs, [1, 2])
    with pytest.raises(ModelError, match=message):
        compiled(tmp_path, node, **{**attributes, **REFUSED[message]})


def test_weights_that_are_not_known(tmp_path: Path) -> None:
    inputs, attributes = product(64)
    with pytest.raises(ModelError, match="computes its weights from the input 'x1' while it runs"):
        compiled(tmp_path, Node("MatMulNBits", inputs, [2]), **attributes)


@pytest.mark.parametrize("place", [-1, 2])
def test_groups_that_are_not_there(place: int, tmp_path: Path) -> None:
    inputs, attributes = product(64)
    inputs += [None, np.full(64, place, "int32")]
    with pytest.raises(ModelError, match="groups of 64 rows that are not among its 2 blocks"):
        compiled(tmp_path, Node("MatMulNBits", inputs, [1, 2, 4]), **attributes)


def test_a_scale_that_is_no_number(tmp_path: Path) -> None:
    inputs, attributes = product(64)
    inputs[2][3, 1] = np.nan
    with pytest.raises(ModelError, match="has a scale that is no finite number"):
        compiled(tmp_path, Node("MatMulNBits", inputs, [1, 2]), **attributes)


def test_a_table_of_other_blocks(tmp_path: Path) -> None:
    inputs = [integers(11, 48), np.array([1]), scales(11, 2)]
    with pytest.raises(ModelError, match=r"has scales of \[11, 2\]; it must be of \[11, 3\]"):
        compiled(tmp_path, Node("GatherBlockQuantized", inputs, [0, 2]), block_size=32)


def test_a_table_by_other_axes(tmp_path: Path) -> None:
    inputs = [integers(11, 48), np.array([1]), scales(11, 3)]
    node = Node("GatherBlockQuantized", inputs, [0, 2])
    with pytest.raises(ModelError, match="along other axes than the first"):
        compiled(tmp_path, node, block_size=32, gather_axis=1)


@pytest.mark.parametrize("kind", ["MatMulFpQ4", "QMoE", "MatMulBnb4"])
def test_what_is_not_supported(kind: str, tmp_path: Path) -> None:
    node = Node(kind, [numbers(2, 8), integers(8), scale(0.1)], [1, 2])
    with pytest.raises(ModelError, match=f"has operators that are not supported: .*{kind}"):
        compiled(tmp_path, node)
