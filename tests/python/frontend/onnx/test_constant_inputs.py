# SPDX-License-Identifier: Apache-2.0
"""Operators whose results have shapes that their inputs decide, of inputs that are constant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import tvm_ios
from tvm_ios.errors import ModelError

RANDOM = np.random.default_rng(0)
SMALL = RANDOM.integers(0, 4, (5, 3, 6))
REPEATED = SMALL[:, [0, 1, 0, 2, 1]]


def _model(kind: str, constants: list[Any], outputs: int, **attributes: Any) -> onnx.ModelProto:
    """A node of constants, whose results are outputs beside that of another operator."""
    weights = [
        onnx.numpy_helper.from_array(np.asarray(c), f"c{i}") for i, c in enumerate(constants)
    ]
    names = [f"y{i}" for i in range(outputs)]
    nodes = [
        helper.make_node(kind, [w.name for w in weights], names, **attributes),
        helper.make_node("Relu", ["x"], ["r"]),
    ]
    results = [helper.make_empty_tensor_value_info(name) for name in [*names, "r"]]
    inputs = [helper.make_tensor_value_info("x", 1, [3])]
    graph = helper.make_graph(nodes, "g", inputs, results, weights)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


CASES: dict[str, tuple[str, list[Any], int, dict[str, Any]]] = {
    "places": ("NonZero", [SMALL], 1, {}),
    "places of truths": ("NonZero", [SMALL[0] > 1], 1, {}),
    "no places": ("NonZero", [np.zeros((2, 3), "float32")], 1, {}),
    "unique": ("Unique", [SMALL.astype("float32")], 4, {}),
    "unique in order": ("Unique", [SMALL[::-1]], 4, {"sorted": 0}),
    "unique parts": ("Unique", [REPEATED], 4, {"axis": 1}),
    "unique parts in order": ("Unique", [REPEATED[:, ::-1]], 4, {"axis": -2, "sorted": 0}),
    "unique alone": ("Unique", [SMALL], 1, {}),
    "blackman": ("BlackmanWindow", [np.int64(10)], 1, {}),
    "hamming": ("HammingWindow", [np.int32(11)], 1, {"periodic": 0}),
    "hann": ("HannWindow", [np.int64(9)], 1, {}),
    "mel": (
        "MelWeightMatrix",
        [np.int64(8), np.int64(16), np.int64(8192), np.float32(20), np.float32(4000)],
        1,
        {},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_constant_inputs_are_enough(
    case: tuple[str, list[Any], int, dict[str, Any]], tmp_path: Path
) -> None:
    kind, constants, outputs, attributes = case
    onnx.save(_model(kind, constants, outputs, **attributes), tmp_path / "m.onnx")
    x = np.array([-1, 0, 2], "float32")
    expected = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(None, {"x": x})
    results = tvm_ios.compile(tmp_path / "m.onnx", search=False, threads=1)(x)
    for result, wanted in zip(results, expected, strict=True):
        assert result.shape == wanted.shape
        assert result.dtype == wanted.dtype
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)


def test_nan_is_not_compared(tmp_path: Path) -> None:
    onnx.save(_model("Unique", [np.array([np.nan, 1, np.nan], "float32")], 1), tmp_path / "m.onnx")
    with pytest.raises(ModelError, match=r"^Unique compares elements of which some are NaN"):
        tvm_ios.compile(tmp_path / "m.onnx", search=False)
