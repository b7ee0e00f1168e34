# SPDX-License-Identifier: Apache-2.0
"""Convolutions over one axis are convolutions of images, also in chains."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import tvm_ios
from support.cli import relative_error

_RANDOM = np.random.default_rng(3)


def _save(path: Path, length: int) -> None:
    """Write three convolutions with biases, a GELU, a ReLU, a scale and a sum of two branches."""
    shapes = {"a": (20, 3, 5), "b": (20, 5, 3), "c": (7, 20, 2)}
    weights = [
        numpy_helper.from_array(_RANDOM.standard_normal(shape).astype("float32"), name)
        for name, shape in {**shapes, "a.bias": (20,), "b.bias": (20,)}.items()
    ]
    numbers = {"root": np.sqrt(2), "one": 1.0, "half": 0.5}
    weights += [numpy_helper.from_array(np.float32(v), n) for n, v in numbers.items()]
    make = helper.make_node
    nodes = [
        make("Conv", ["x", "a", "a.bias"], ["conv_a"], strides=[2], pads=[2, 1]),
        make("Div", ["conv_a", "root"], ["scaled"]),
        make("Erf", ["scaled"], ["erf"]),
        make("Add", ["erf", "one"], ["shifted"]),
        make("Mul", ["conv_a", "shifted"], ["product"]),
        make("Mul", ["product", "half"], ["gelu"]),
        make("Conv", ["gelu", "b", "b.bias"], ["conv_b"], group=4, pads=[2, 2], dilations=[2]),
        make("Relu", ["conv_b"], ["relu"]),
        make("Add", ["relu", "gelu"], ["sum"]),
        make("Conv", ["sum", "c"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (
        ("x", [2, 3, length]), ("y", [2, 7, None]),
    ))  # fmt: skip
    graph = helper.make_graph(nodes, "network", [x], [y], weights)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)


def test_a_chain_stays_an_image(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    _save(path, 101)
    model = tvm_ios.compile(path, search=False, threads=2)
    x = _RANDOM.standard_normal((2, 3, 101)).astype("float32")
    (expected,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    assert relative_error(model(x), expected) < 1e-5
    kinds = [operator.kind for operator in model.schedule.operators]
    assert kinds.count("conv2d") == 3
    assert "conv1d" not in kinds
    assert kinds.count("expand_dims") == 1  # of the input
    assert kinds.count("squeeze") == 1
