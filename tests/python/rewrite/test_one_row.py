# SPDX-License-Identifier: Apache-2.0
"""Operators on vectors of channels between convolutions stay among images of one row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvm_ios
from support.cli import relative_error

_RANDOM = np.random.default_rng(5)
_CHANNELS = 20

Node = tuple[str, list[str], list[str], dict[str, Any]]
"""An operator's type, its inputs, its outputs and its attributes."""


def _kinds(
    path: Path, nodes: Sequence[Node], length: int, threads: int = 2, **arrays: Any
) -> list[str]:
    """Compile operators on ``x``, compare ``y`` with ONNX Runtime's, and return their kinds."""
    shape = [2, _CHANNELS, length]
    drawn = {
        "w": _RANDOM.standard_normal((_CHANNELS, _CHANNELS, 3)),
        "gamma": _RANDOM.standard_normal(_CHANNELS),
        "beta": _RANDOM.standard_normal(_CHANNELS),
    }
    weights = [numpy_helper.from_array(a.astype("float32"), n) for n, a in drawn.items()]
    weights += [numpy_helper.from_array(np.array(a), name) for name, a in arrays.items()]
    made = [helper.make_node(kind, i, o, **attrs) for kind, i, o, attrs in nodes]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(made, "network", [x], [y], weights)
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    model = tvm_ios.compile(path, search=False, threads=threads)
    data = _RANDOM.standard_normal(shape).astype("float32")
    (expected,) = onnxruntime.InferenceSession(path).run(None, {"x": data})
    assert relative_error(model(data), expected) < 1e-5
    return [operator.kind for operator in model.schedule.operators]


def _convolution(source: str, result: str) -> Node:
    return "Conv", [source, "w"], [result], {"pads": [1, 1]}


@pytest.mark.parametrize("length", [7, 101, 1500])
@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("MaxPool", {"kernel_shape": [3], "strides": [2], "pads": [1, 0]}),
        ("MaxPool", {"kernel_shape": [2], "dilations": [3], "ceil_mode": 1, "strides": [2]}),
        ("AveragePool", {"kernel_shape": [4], "strides": [3], "pads": [2, 1]}),
        ("AveragePool", {"kernel_shape": [5], "pads": [2, 2], "count_include_pad": 1}),
        ("GlobalAveragePool", {}),
    ],
)
def test_pools(kind: str, attributes: dict[str, Any], length: int, tmp_path: Path) -> None:
    kinds = _kinds(tmp_path / "m.onnx", [(kind, ["x"], ["y"], attributes)], length)
    assert not [kind for kind in kinds if kind.endswith("1d")]


@pytest.mark.parametrize("length", [9, 700])
def test_a_chain_of_anything_stays_an_image(length: int, tmp_path: Path) -> None:
    nodes = [
        _convolution("x", "conv"),
        ("InstanceNormalization", ["conv", "gamma", "beta"], ["norm"], {}),
        ("Relu", ["norm"], ["relu"], {}),
        ("MaxPool", ["relu"], ["pool"], {"kernel_shape": [3], "pads": [1, 1]}),
        ("Transpose", ["pool"], ["rows"], {"perm": [0, 2, 1]}),
        ("LayerNormalization", ["rows", "gamma", "beta"], ["layer"], {"axis": -1}),
        ("Transpose", ["layer"], ["back"], {"perm": [0, 2, 1]}),
        ("Slice", ["back", "begin", "end", "axis"], ["left"], {}),
        ("Concat", ["left", "back", "left"], ["longer"], {"axis": 2}),
        ("Conv", ["longer", "w"], ["last"], {}),
        ("Split", ["last"], ["a", "b"], {"axis": 1, "num_outputs": 2}),
        ("Sigmoid", ["b"], ["gate"], {}),
        ("Mul", ["a", "gate"], ["y"], {}),
    ]
    indices = {name: [value] for name, value in (("begin", 1), ("end", 4), ("axis", 2))}
    kinds = _kinds(tmp_path / "m.onnx", nodes, length, **indices)
    assert kinds.count("expand_dims") == 1  # of the input
    assert kinds.count("squeeze") == 1
    assert "permute_dims" not in kinds


@pytest.mark.parametrize("keepdims", [0, 1])
def test_means_of_channels(keepdims: int, tmp_path: Path) -> None:
    nodes = [
        _convolution("x", "conv"),
        ("ReduceMean", ["conv", "axis"], ["y"], {"keepdims": keepdims}),
    ]
    kinds = _kinds(tmp_path / "m.onnx", nodes, 65, axis=[2])
    assert kinds[-2:] == ["mean", "squeeze" if keepdims else "reshape"]


def test_others_stay(tmp_path: Path) -> None:
    """What concerns images of the batch, or two axes, is no operator on rows."""
    nodes = [
        _convolution("x", "conv"),
        ("Concat", ["conv", "x"], ["both"], {"axis": 0}),
        ("Slice", ["both", "begin", "end", "axis"], ["part"], {}),
        ("ReduceMean", ["part", "axes"], ["mean"], {}),
        ("Sub", ["part", "mean"], ["y"], {}),
    ]
    indices = {"begin": [1], "end": [3], "axis": [0], "axes": [1, 2]}
    assert _kinds(tmp_path / "m.onnx", nodes, 33, **indices).count("squeeze") == 1


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "attributes",
    [
        {"pads": [40, 9]},
        {"pads": [500, 500], "dilations": [500]},
        {"pads": [3, 3], "dilations": [3], "strides": [2]},
        {"pads": [1, 1], "group": _CHANNELS},
    ],
    ids=["wide pads", "dilated", "strided", "depthwise"],
)
def test_long_rows(attributes: dict[str, Any], threads: int, tmp_path: Path) -> None:
    """Several workers compute segments of a row, at whose ends there is padding."""
    weights = _RANDOM.standard_normal((_CHANNELS, _CHANNELS, 3)).astype("float32")
    if "group" in attributes:
        weights = weights[:, :1]
    nodes: list[Node] = [("Conv", ["x", "v"], ["h"], attributes), ("Relu", ["h"], ["y"], {})]
    _kinds(tmp_path / "m.onnx", nodes, 3001, threads, v=weights)


@pytest.mark.parametrize(("taps", "stride", "pad"), [(400, 160, 200), (64, 1, 63), (97, 13, 0)])
def test_wide_windows(taps: int, stride: int, pad: int, tmp_path: Path) -> None:
    weights = _RANDOM.standard_normal((33, _CHANNELS, taps)).astype("float32")
    attributes = {"strides": [stride], "pads": [pad, pad]}
    _kinds(tmp_path / "m.onnx", [("Conv", ["x", "v"], ["y"], attributes)], 1733, v=weights)
