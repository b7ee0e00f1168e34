# SPDX-License-Identifier: Apache-2.0
"""Calls of TIR functions that stand for operators become these operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax, topi

import tvm_ios
from tvm_ios.frontend.models import load_model
from tvm_ios.graph.extract import extract
from tvm_ios.rewrite.prepare import prepare

SHAPE = (1, 5, 7, 9)

BOUNDS = {
    "attributes": (6, {"min": 0.5, "max": 6.0}, (None, None)),
    "both": (13, {}, (0.0, 6.0)),
    "lower": (13, {}, (-0.5, None)),
    "upper": (13, {}, (None, 0.5)),
    "not a number": (13, {}, (float("nan"), 1.0)),
}


def clipped(opset: int, attributes: dict[str, float], bounds: tuple[Any, Any]) -> onnx.ModelProto:
    """A convolution and a Clip."""
    weights = np.random.default_rng(0).standard_normal((6, 5, 3, 3)).astype("float32")
    names = ["" if bound is None else f"bound{i}" for i, bound in enumerate(bounds)]
    numbers = [
        numpy_helper.from_array(np.float32(bound), name)
        for bound, name in zip(bounds, names, strict=True)
        if name
    ]
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1]),
            helper.make_node("Clip", ["y", *names] if any(names) else ["y"], ["z"], **attributes),
        ],
        "clipped",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, (1, 6, *SHAPE[2:]))],
        [numpy_helper.from_array(weights, "w"), *numbers],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize(("opset", "attributes", "bounds"), BOUNDS.values(), ids=BOUNDS)
def test_clip_is_a_part_of_the_convolution(opset, attributes, bounds, tmp_path) -> None:
    path = tmp_path / "model.onnx"
    model = clipped(opset, attributes, bounds)
    onnx.save(model, path)
    graph = extract(prepare(load_model(str(path))), "main")
    assert [op.kind for op in graph.operators] == ["conv2d"]

    x = np.random.default_rng(1).standard_normal(SHAPE).astype("float32")
    x[0, 0, 0, 0] = np.nan
    if bounds == (0.0, 6.0):  # ONNX Runtime's default for a missing bound is finite
        x[0, 1, 5, 5], x[0, 2, 3, 3] = np.inf, -np.inf
    compiled = tvm_ios.compile(str(path), search=False)
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(compiled(x), expected, rtol=1e-4, atol=1e-4)
    assert np.isnan(expected).any()


def test_a_function_that_computes_something_else_stays() -> None:
    """Its name does not tell what it computes."""

    def maximum(x: Any, y: Any) -> Any:
        return topi.add(topi.maximum(x, y), 1.0)

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit_te(maximum, x, relax.const(0.0)))
    prepared: tvm.IRModule = prepare(builder.get())
    assert "call_tir" in prepared["main"].script()
