# SPDX-License-Identifier: Apache-2.0
"""Convolutions over one axis are convolutions of images, also in chains."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvm_ios
from support.cli import relative_error

_RANDOM = np.random.default_rng(3)


def _save(path: Path, length: int, *, column: bool = False) -> None:
    """Write three convolutions with biases, a GELU, a ReLU, a scale and a sum of two branches.

    They are of one axis, or of images of one column.
    """
    shapes = {"a": (20, 3, 5), "b": (20, 5, 3), "c": (7, 20, 2)}
    one, none = ([1], [0]) if column else ([], [])
    weights = [
        numpy_helper.from_array(_RANDOM.standard_normal((*shape, *one)).astype("float32"), name)
        for name, shape in shapes.items()
    ] + [
        numpy_helper.from_array(_RANDOM.standard_normal(20).astype("float32"), f"{name}.bias")
        for name in "ab"
    ]
    numbers = {"root": np.sqrt(2), "one": 1.0, "half": 0.5}
    weights += [numpy_helper.from_array(np.float32(v), n) for n, v in numbers.items()]
    make = helper.make_node
    nodes = [
        make(
            "Conv", ["x", "a", "a.bias"], ["conv_a"], strides=[2, *one], pads=[2, *none, 1, *none]
        ),
        make("Div", ["conv_a", "root"], ["scaled"]),
        make("Erf", ["scaled"], ["erf"]),
        make("Add", ["erf", "one"], ["shifted"]),
        make("Mul", ["conv_a", "shifted"], ["product"]),
        make("Mul", ["product", "half"], ["gelu"]),
        make(
            "Conv",
            ["gelu", "b", "b.bias"],
            ["conv_b"],
            group=4,
            pads=[2, *none, 2, *none],
            dilations=[2, *one],
        ),
        make("Relu", ["conv_b"], ["relu"]),
        make("Add", ["relu", "gelu"], ["sum"]),
        make("Conv", ["sum", "c"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (
        ("x", [2, 3, length, *one]), ("y", [2, 7, None, *one]),
    ))  # fmt: skip
    graph = helper.make_graph(nodes, "network", [x], [y], weights)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)


def _kinds(path: Path, shape: tuple[int, ...]) -> list[str]:
    """Compile a file, compare what it computes, and return the kinds of its operators."""
    model = tvm_ios.compile(path, search=False, threads=2)
    x = _RANDOM.standard_normal(shape).astype("float32")
    (expected,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    assert relative_error(model(x), expected) < 1e-5
    return [operator.kind for operator in model.schedule.operators]


def test_a_chain_stays_an_image(tmp_path: Path) -> None:
    _save(tmp_path / "m.onnx", 101)
    kinds = _kinds(tmp_path / "m.onnx", (2, 3, 101))
    assert kinds.count("conv2d") == 3
    assert "conv1d" not in kinds
    assert kinds.count("expand_dims") == 1  # of the input
    assert kinds.count("squeeze") == 1


def test_a_chain_of_columns_becomes_one_of_rows(tmp_path: Path) -> None:
    _save(tmp_path / "m.onnx", 101, column=True)
    kinds = _kinds(tmp_path / "m.onnx", (2, 3, 101, 1))
    assert kinds.count("conv2d") == 3
    assert kinds.count("reshape") == 2  # of the input and of the result


@pytest.mark.parametrize(
    ("kernel", "pads", "turned"),
    [((3, 1), [0, 0, 2, 0], 2), ((3, 3), [1, 1, 1, 1], 0), ((1, 1), [0] * 4, 0)],
    ids=["a column", "a column with pads beside it", "a point"],
)
def test_only_what_slides_along_a_column_is_turned(
    kernel: tuple[int, int], pads: list[int], turned: int, tmp_path: Path
) -> None:
    """The residual, a column too, is added where the convolution is computed."""
    shape = (1, 4, 33, 1)
    w = numpy_helper.from_array(_RANDOM.standard_normal((4, 4, *kernel)).astype("float32"), "w")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in "xy")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["conv"], pads=pads),
        helper.make_node("Add", ["x", "conv"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "network", [x], [y], [w])
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), tmp_path / "m.onnx")
    kinds = _kinds(tmp_path / "m.onnx", shape)
    assert sum(kind == "reshape" for kind in kinds) == turned
    assert kinds.count("add") == 0 or not turned
