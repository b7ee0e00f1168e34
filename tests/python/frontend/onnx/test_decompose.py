# SPDX-License-Identifier: Apache-2.0
"""Operators in terms of others, where ONNX's own tests have no case."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.reference
import pytest
from onnx import TensorProto, helper

import tvm_ios

NODE = helper.make_node
SPECIAL = np.array([[0.0, np.inf, -np.inf], [np.nan, 1.0, -2.0]], "float32")
ZEROS = np.array([[3.0, -4.0], [0.0, 0.0], [1.0, 2.0]], "float32")
CASES = {
    "no sign of infinity": (
        [NODE("IsInf", ["x"], ["y"], detect_positive=0, detect_negative=0)], {}, SPECIAL
    ),
    "negative infinity": ([NODE("IsInf", ["x"], ["y"], detect_positive=0)], {}, SPECIAL),
    "a row of zeros": ([NODE("LpNormalization", ["x"], ["y"], axis=1, p=2)], {}, ZEROS),
    "a row of zeros in float16": (
        [NODE("LpNormalization", ["x"], ["y"], axis=1, p=2)], {}, ZEROS.astype("float16")
    ),
    "a power of an integer": (
        [NODE("Pow", ["x", "two"], ["y"])], {"two": np.int64(2)}, np.array([-3, 5, 7])
    ),
    "an integer as exponent": (
        [NODE("Pow", ["x", "three"], ["y"])], {"three": np.int64(3)}, np.float32([-1.5, 2.0])
    ),
    "a mask of dropout": (
        [
            NODE("Dropout", ["x"], ["d", "m"]),
            NODE("Where", ["m", "d", "zero"], ["w"]),
            NODE("Relu", ["w"], ["y"]),
        ],
        {"zero": np.float32(0.0)},
        ZEROS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("opset", [12, 17, 21])
@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_the_reference(case: str, opset: int, tmp_path: Path) -> None:
    nodes, constants, x = CASES[case]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)],
        [onnx.numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(model, tmp_path / "model.onnx")
    (expected,) = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})
    result = tvm_ios.compile(tmp_path / "model.onnx", search=False, threads=1)(x)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, np.nan_to_num(expected), rtol=1e-3)
