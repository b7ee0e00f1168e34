# SPDX-License-Identifier: Apache-2.0
"""Shapes that a model computes from the shapes of its inputs, and names of its nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.reference
import pytest
from onnx import TensorProto, helper

import tvm_ios
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.frontend.models import load_model
from tvm_ios.frontend.onnx.names import path_of_node
from tvm_ios.support.modules import module_path, variable_name
from tvm_ios.target import resolve

NODE = helper.make_node


def _save(path: Path, nodes: list, constants: dict, shape: list) -> onnx.ModelProto:
    weights = [onnx.numpy_helper.from_array(np.array(a), n) for n, a in constants.items()]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return model


def _agrees(path: Path, model: onnx.ModelProto, x: np.ndarray) -> None:
    (wanted,) = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})
    result = tvm_ios.compile(path, search=False, threads=1, input_shapes={"x": x.shape})(x)
    np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)


def test_channel_shuffle(tmp_path: Path) -> None:
    """Groups by Shape, Gather, Div and Concat, as PyTorch's exporter writes them."""
    nodes = [
        NODE("Shape", ["x"], ["s"]),
        *[NODE("Gather", ["s", f"i{i}"], [f"d{i}"], axis=0) for i in range(4)],
        NODE("Div", ["d1", "two"], ["half"]),
        *[
            NODE("Unsqueeze", [name, "zero"], [f"{name}_"])
            for name in ("d0", "d1", "d2", "d3", "half", "two")
        ],
        NODE("Concat", ["d0_", "two_", "half_", "d2_", "d3_"], ["split"], axis=0),
        NODE("Concat", ["d0_", "d1_", "d2_", "d3_"], ["whole"], axis=0),
        NODE("Relu", ["x"], ["r"]),
        NODE("Reshape", ["r", "split"], ["a"]),
        NODE("Transpose", ["a"], ["b"], perm=[0, 2, 1, 3, 4]),
        NODE("Reshape", ["b", "whole"], ["y"]),
    ]
    constants = {f"i{i}": np.int64(i) for i in range(4)}
    constants |= {"two": np.int64(2), "zero": np.array([0])}
    model = _save(tmp_path / "m.onnx", nodes, constants, ["n", 6, None, 5])
    x = np.random.default_rng(0).standard_normal((2, 6, 3, 5)).astype("float32")
    _agrees(tmp_path / "m.onnx", model, x)


def test_same_padding(tmp_path: Path) -> None:
    """Pads by ConstantOfShape, Concat, Reshape and a reversed Slice."""
    nodes = [
        NODE("ConstantOfShape", ["four"], ["zeros"], value=helper.make_tensor("v", 7, [1], [0])),
        NODE("Concat", ["some", "zeros"], ["all"], axis=0),
        NODE("Reshape", ["all", "pairs"], ["p"]),
        NODE("Slice", ["p", "last", "first", "zero", "back"], ["reversed"]),
        NODE("Transpose", ["reversed"], ["t"], perm=[1, 0]),
        NODE("Reshape", ["t", "flat"], ["pads"]),
        NODE("Pad", ["x", "pads"], ["padded"]),
        NODE("MaxPool", ["padded"], ["y"], kernel_shape=[3, 3], strides=[2, 2]),
    ]
    constants = {
        "four": np.array([4]), "some": np.array([0, 1, 1, 2]), "pairs": np.array([-1, 2]),
        "last": np.array([-1]), "first": np.array([-(2**62)]), "zero": np.array([0]),
        "back": np.array([-1]), "flat": np.array([-1]),
    }  # fmt: skip
    model = _save(tmp_path / "m.onnx", nodes, constants, [1, 3, 7, 9])
    x = np.random.default_rng(0).standard_normal((1, 3, 7, 9)).astype("float32")
    _agrees(tmp_path / "m.onnx", model, x)


def test_copies_and_literals(tmp_path: Path) -> None:
    """Also inside of the branches of an If."""
    one = onnx.numpy_helper.from_array(np.array([1.5, -2, 3], "float32"))
    nodes = [
        NODE("Constant", [], ["c"], value=one),
        NODE("Identity", ["w"], ["copy"]),
        NODE("Identity", ["copy"], ["again"]),
        NODE("Add", ["x", "again"], ["a"]),
        NODE("Mul", ["a", "c"], ["m"]),
        NODE("Sub", ["m", "copy"], ["y"]),
    ]
    weights = {"w": np.random.default_rng(0).standard_normal((4, 3)).astype("float32")}
    model = _save(tmp_path / "m.onnx", nodes, weights, [2, 4, 3])
    x = np.random.default_rng(1).standard_normal((2, 4, 3)).astype("float32")
    _agrees(tmp_path / "m.onnx", model, x)

    branch = helper.make_graph(
        [NODE("Add", ["m", "again"], ["inner"])],
        "branch",
        [],
        [helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)],
    )
    nodes[-1] = NODE("If", ["true"], ["y"], then_branch=branch, else_branch=branch)
    model = _save(tmp_path / "i.onnx", nodes, {**weights, "true": np.array(True)}, [2, 4, 3])
    _agrees(tmp_path / "i.onnx", model, x)


@pytest.mark.parametrize("kind", ["Identity", "Constant"])
def test_a_constant_is_a_result(tmp_path: Path, kind: str) -> None:
    weights = np.random.default_rng(0).standard_normal((4, 3)).astype("float32")
    value = {"value": onnx.numpy_helper.from_array(weights)}
    node = NODE(kind, ["w"], ["y"]) if kind == "Identity" else NODE(kind, [], ["y"], **value)
    model = _save(tmp_path / "m.onnx", [node], {"w": weights}, [2])
    _agrees(tmp_path / "m.onnx", model, np.zeros(2, "float32"))


@pytest.mark.parametrize(
    ("name", "kind", "path"),
    [
        ("/features/features.3/conv/Conv", "Conv", "features.3.conv"),
        ("/features/features.0/features.0.2/Conv", "Conv", "features.0.2"),
        ("/features/features.1/block/block.0/block.0.1/Relu", "Relu", "features.1.block.0.1"),
        ("/layer1/layer1.0/conv1/Conv_1", "Conv", "layer1.0.conv1"),
        ("/Concat", "Concat", "Concat"),
        ("Conv_12", "Conv", "Conv_12"),
        ("resnet/block/conv/Conv2D", "Conv", "resnet.block.conv.Conv2D"),
        ("", "Conv", ""),
    ],
)
def test_modules_of_nodes(name: str, kind: str, path: str) -> None:
    assert path_of_node(name, kind) == path
    assert module_path(variable_name(path)) == (path or None)


def test_names_survive(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((8, 3, 3, 3)).astype("float32")
    nodes = [
        NODE("Conv", ["x", "w"], ["a"], name="/features/features.0/conv/Conv", pads=[1] * 4),
        NODE("Relu", ["a"], ["b"], name="/features/features.0/act/Relu"),
        NODE("GlobalAveragePool", ["b"], ["y"], name="/pool/GlobalAveragePool"),
    ]
    _save(tmp_path / "m.onnx", nodes, {"w": weights}, [1, 3, 8, 8])
    module = load_model(str(tmp_path / "m.onnx"))
    schedule = Scheduler.prepare(module, resolve("llvm", threads=1)).unsearched()
    assert [op.module for op in schedule.operators] == ["features.0.conv", "pool"]


@pytest.mark.parametrize("kind", ["int64", "int8", "uint8", "int32"])
@pytest.mark.parametrize("given", ["float32", "bfloat16"])
def test_constants_are_cast_as_when_a_network_runs(tmp_path: Path, kind: str, given: str) -> None:
    """A number beyond an integer is taken modulo its range, and what is not finite is 0."""
    numbers = np.array([0.0, -2.75, 300.0, -200.0, 3e9, np.inf, -np.inf, np.nan], "float32")
    codes = {"float32": TensorProto.FLOAT, "bfloat16": TensorProto.BFLOAT16}
    wanted = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    graph = helper.make_graph(
        [
            NODE("Cast", ["x"], ["narrow"], to=codes[given]),
            NODE("Cast", ["narrow"], ["y"], to=wanted),
            NODE("Cast", ["constants"], ["ready"], to=codes[given]),
            NODE("Cast", ["ready"], ["z"], to=wanted),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8])],
        [helper.make_tensor_value_info(name, wanted, [8]) for name in "yz"],
        [onnx.numpy_helper.from_array(numbers, "constants")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    running, folded = tvm_ios.compile(tmp_path / "m.onnx", search=False, threads=1)(numbers)
    np.testing.assert_array_equal(folded, running)
    assert folded.tolist()[-3:] == [0, 0, 0]


def test_numbers_that_no_one_reads_are_folded_without_a_word(tmp_path: Path, recwarn) -> None:
    """The place of a token in T5 is the logarithm of its distance, also where that is 0."""
    nodes = [
        NODE("Log", ["distance"], ["log"]),
        NODE("Cast", ["log"], ["bucket"], to=TensorProto.INT64),
        NODE("Cast", ["bucket"], ["far"], to=TensorProto.FLOAT),
        NODE("Where", ["near", "distance", "far"], ["place"]),
        NODE("Add", ["x", "place"], ["y"]),
    ]
    constants = {
        "distance": np.array([0, 1, 30], "float32"),
        "near": np.array([True, True, False]),
    }
    _save(tmp_path / "m.onnx", nodes, constants, [3])
    result = tvm_ios.compile(tmp_path / "m.onnx", search=False, threads=1)(np.zeros(3, "float32"))
    np.testing.assert_array_equal(result, [0, 1, 3])
    assert not [warning for warning in recwarn if warning.category is RuntimeWarning]
