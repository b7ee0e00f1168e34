# SPDX-License-Identifier: Apache-2.0
"""ONNX's operators on dimensions that stay open: beside ONNX Runtime, and what they require."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper

from support.open_networks import assert_any_shape, numbers, save, weight
from tvm_ios.errors import ModelError
from tvm_ios.frontend.models import load_model
from tvm_ios.sizes.size import OpenSizes

node = helper.make_node


def _conditions(path: Path) -> tuple[list[str], dict[str, int | str]]:
    """Return what is assumed of a network's dimensions, and which ones are known."""
    opened = OpenSizes()
    load_model(str(path), opened=opened)
    return [str(c).replace("T.int64", "") for c in opened.conditions], opened.known


def _resized(path: Path, transform: str, mode: str, nearest: str = "floor") -> Path:
    """Write a resizing of images to the computed half of their height, and 3/2 of the width."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Slice", ["shape", "two", "four"], ["sizes"]),
        node("Cast", ["sizes"], ["floats"], to=TensorProto.FLOAT),
        node("Mul", ["floats", "factors"], ["scaled"]),
        node("Floor", ["scaled"], ["floored"]),
        node("Cast", ["floored"], ["resized"], to=TensorProto.INT64),
        node("Slice", ["shape", "zero", "two"], ["kept"]),
        node("Concat", ["kept", "resized"], ["target"], axis=0),
        node(
            "Resize",
            ["x", "", "", "target"],
            ["y"],
            coordinate_transformation_mode=transform,
            mode=mode,
            nearest_mode=nearest,
        ),
    ]
    weights = [
        numbers("zero", [0]), numbers("two", [2]), numbers("four", [4]),
        numbers("factors", [0.5, 1.5], "float32"),
    ]  # fmt: skip
    return save(path, nodes, {"x": ["n", 3, "h", "w"]}, ["y"], weights)


@pytest.mark.parametrize(
    ("transform", "mode"),
    [("half_pixel", "linear"), ("align_corners", "linear"), ("asymmetric", "nearest"),
     ("half_pixel", "cubic")],
)  # fmt: skip
def test_resize_to_computed_sizes(tmp_path: Path, transform: str, mode: str) -> None:
    path = _resized(tmp_path / "m.onnx", transform, mode)
    assert_any_shape(path, [[(2, 3, 10, 8)], [(1, 3, 2, 1)], [(1, 3, 7, 33)]])


@pytest.mark.parametrize("factor", [2.0, 0.7, 1 / 3])
def test_scales_are_rounded_as_in_single_precision(tmp_path: Path, factor: float) -> None:
    path = save(
        tmp_path / "m.onnx",
        [node("Resize", ["x", "", "s"], ["y"], mode="linear")],
        {"x": [1, 2, "h", 4]},
        ["y"],
        [numbers("s", [1.0, 1.0, factor, 1.0], "float32")],
    )
    assert_any_shape(path, [[(1, 2, h, 4)] for h in (3, 10, 20, 29)])


def test_a_convolution_of_no_channels_is_its_bias(tmp_path: Path) -> None:
    nodes = [node("Conv", ["x", "w", "b"], ["y"], pads=[0, 1])]
    weights = [weight("w", 39, 0, 3), weight("b", 39)]
    path = save(tmp_path / "m.onnx", nodes, {"x": ["n", 0, "t"]}, ["y"], weights)
    assert_any_shape(path, [[(5, 0, 2)], [(12, 0, 20)]])


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap", "constant"])
def test_pads(tmp_path: Path, mode: str) -> None:
    nodes = [node("Pad", ["x", "pads"], ["y"], mode=mode)]
    path = save(
        tmp_path / "m.onnx", nodes, {"x": ["n", "t"]}, ["y"], [numbers("pads", [0, 2, 0, 3])]
    )
    assert_any_shape(path, [[(2, 4)], [(1, 9)], [(3, 64)]])


def test_a_reflection_needs_as_many_elements(tmp_path: Path) -> None:
    nodes = [node("Pad", ["x", "pads"], ["y"], mode="reflect")]
    path = save(
        tmp_path / "m.onnx", nodes, {"x": ["n", "t"]}, ["y"], [numbers("pads", [0, 2, 0, 3])]
    )
    assert _conditions(path) == (["(4) <= t"], {})


@pytest.mark.parametrize(
    ("begin", "end", "step"),
    [(1, 1 << 40, 1), (-3, 1 << 40, 1), (0, -1, 2), (-1, -(1 << 40), -1), (2, 5, 1), (-2, 0, -2)],
)
def test_slices(tmp_path: Path, begin: int, end: int, step: int) -> None:
    nodes = [node("Slice", ["x", "b", "e", "a", "s"], ["y"])]
    given = {"b": [begin], "e": [end], "a": [1], "s": [step]}
    weights = [numbers(name, values) for name, values in given.items()]
    path = save(tmp_path / "m.onnx", nodes, {"x": ["n", "t", 3]}, ["y"], weights)
    assert_any_shape(path, [[(2, 4, 3)], [(1, 5, 3)], [(3, 33, 3)]])


def test_a_part_as_long_as_another_tensor(tmp_path: Path) -> None:
    """A table of positions is cut to the length of a sequence, which is at most the table's."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "one"], ["steps"]),
        node("Slice", ["table", "zero", "steps", "zero"], ["places"]),
        node("Add", ["x", "places"], ["y"]),
    ]
    weights = [numbers("one", [1]), numbers("zero", [0]), weight("table", 200, 4)]
    path = save(tmp_path / "m.onnx", nodes, {"x": ["n", "t", 4]}, ["y"], weights)
    assert _conditions(path) == (["t <= (200)"], {})
    assert_any_shape(path, [[(2, 3, 4)], [(1, 200, 4)]])


def test_reshapes_cancel_equal_factors(tmp_path: Path) -> None:
    nodes = [
        node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Reshape", ["p", "rows"], ["r"]),
        node("Shape", ["p"], ["shape"]),
        node("Transpose", ["r"], ["t"], perm=[0, 2, 1]),
        node("Transpose", ["t"], ["u"], perm=[0, 2, 1]),
        node("Reshape", ["u", "shape"], ["y"]),
    ]
    weights = [numbers("rows", [0, 4, -1])]
    path = save(tmp_path / "m.onnx", nodes, {"x": ["n", 4, "h", "w"]}, ["y"], weights)
    assert _conditions(path) == ([], {})
    assert_any_shape(path, [[(2, 4, 5, 6)], [(1, 4, 1, 1)]])


def test_the_example_is_one_that_the_network_takes(tmp_path: Path) -> None:
    """As of a recogniser of lines of text, whose height becomes 1."""
    nodes = [
        node("MaxPool", ["x"], ["p"], kernel_shape=[48, 1], strides=[48, 1]),
        node("Reshape", ["p", "rows"], ["y"]),
    ]
    path = save(
        tmp_path / "m.onnx",
        nodes,
        {"x": ["n", 3, "h", "w"]},
        ["y"],
        [numbers("rows", [0, 1, 3, -1])],
    )
    assert_any_shape(path, [[(2, 3, 48, 7)], [(1, 3, 50, 1)]])


@pytest.mark.parametrize("second", [["k", 4], [3, 4]])
def test_dimensions_that_must_be_equal(tmp_path: Path, second: list[int | str]) -> None:
    path = save(
        tmp_path / "m.onnx", [node("Add", ["x", "y"], ["z"])], {"x": ["n", 4], "y": second}, ["z"]
    )
    wanted = {"k": "n"} if "k" in second else {"n": 3}
    assert _conditions(path) == ([], wanted)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers(tmp_path: Path, kind: str) -> None:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    nodes = [node(kind, ["x", "w", "r", "b"], ["y", "h"], hidden_size=5, direction="bidirectional")]
    weights = [
        weight("w", 2, gates * 5, 3), weight("r", 2, gates * 5, 5), weight("b", 2, 2 * gates * 5),
    ]  # fmt: skip
    path = save(tmp_path / "m.onnx", nodes, {"x": ["t", "n", 3]}, ["y", "h"], weights)
    assert_any_shape(path, [[(4, 2, 3)], [(1, 1, 3)], [(9, 5, 3)]])


def _pool(kind: str, **attributes: object) -> NodeProto:
    return node(kind, ["x"], ["y"], kernel_shape=[3, 3], **attributes)


@pytest.mark.parametrize(
    "pool",
    [
        _pool("MaxPool", strides=[2, 2], ceil_mode=1),
        _pool("MaxPool", strides=[2, 2], auto_pad="SAME_UPPER"),
        _pool("AveragePool", strides=[2, 2], ceil_mode=1),
        _pool("AveragePool", strides=[2, 2], ceil_mode=1, pads=[1, 1, 1, 1], count_include_pad=1),
        _pool("AveragePool", strides=[2, 2], auto_pad="SAME_LOWER"),
    ],
    ids=str,
)
def test_windows_that_reach_beyond_the_data(tmp_path: Path, pool: NodeProto) -> None:
    path = save(tmp_path / "m.onnx", [pool], {"x": ["n", 2, "h", "w"]}, ["y"], opset=19)
    assert_any_shape(path, [[(2, 2, 8, 9)], [(1, 2, 3, 4)], [(1, 2, 33, 16)]])


def test_what_has_not_been_written_for_open_sizes_is_refused_by_a_sentence(tmp_path: Path) -> None:
    made = node("DFT", ["x"], ["y"], axis=1)
    path = save(tmp_path / "m.onnx", [made], {"x": ["n", "t", 1]}, ["y"], opset=19)
    with pytest.raises(ModelError, match="DFT is not supported with dimensions that stay open"):
        load_model(str(path), opened=OpenSizes())


def test_types_of_computed_sizes(tmp_path: Path) -> None:
    """A number of elements divides a sum in the type that it is cast to."""
    nodes = [
        node("Size", ["x"], ["count"]),
        node("Cast", ["count"], ["divisor"], to=TensorProto.FLOAT),
        node("Sqrt", ["divisor"], ["root"]),
        node("ReduceSum", ["x"], ["total"], keepdims=0),
        node("Div", ["total", "root"], ["y"]),
    ]
    path = save(tmp_path / "m.onnx", nodes, {"x": ["n", "t"]}, ["y"])
    model = assert_any_shape(path, [[(2, 3)], [(1, 1)]])
    assert model(np.ones((2, 8), "float32")) == 4.0


def test_networks_whose_dimensions_differ_share_no_code(tmp_path: Path) -> None:
    """A kernel of the same sizes is given the open dimensions, of which there are others."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "place"], ["size"]),
        node("Sub", ["size", "one"], ["y"]),
        node("Relu", ["x"], ["z"]),
    ]
    for place, shape in enumerate((["h", "n"], ["n", "h"])):
        weights = [numbers("one", 1), numbers("place", place)]
        path = save(tmp_path / f"{place}.onnx", nodes, {"x": shape}, ["y", "z"], weights)
        assert_any_shape(path, [[(3, 7)], [(3, 2)]])


def test_dimensions_without_a_name_may_differ(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [node("Relu", ["x"], ["y"])], {"x": [1, "_", "_"]}, ["y"])
    assert_any_shape(path, [[(1, 3, 5)]])


@pytest.mark.parametrize(("begin", "step"), [(0.0, 1.0), (0.5, 1.0), (-1.0, 0.25)])
def test_fractions_up_to_a_size(tmp_path: Path, begin: float, step: float) -> None:
    """As detectors count the places of an image."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "one"], ["width"]),
        node("Cast", ["width"], ["limit"], to=TensorProto.FLOAT),
        node("Range", ["begin", "limit", "step"], ["places"]),
        node("ReduceSum", ["x"], ["sum"]),
        node("Add", ["places", "sum"], ["y"]),
    ]
    weights = [
        numbers("one", 1), numbers("begin", begin, "float32"), numbers("step", step, "float32"),
    ]  # fmt: skip
    path = save(tmp_path / "m.onnx", nodes, {"x": ["n", "t"]}, ["y"], weights)
    assert_any_shape(path, [[(2, 3)], [(1, 17)], [(4, 1)]])


def test_whether_sizes_are_equal_chooses_a_branch(tmp_path: Path) -> None:
    """The example decides, and other sizes are refused."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "one"], ["width"]),
        node("Equal", ["width", "usual"], ["equal"]),
        node("Where", ["equal", "one", "zero"], ["factor"]),
        node("Cast", ["factor"], ["number"], to=TensorProto.FLOAT),
        node("Mul", ["x", "number"], ["y"]),
    ]
    for usual, calls, refused in ((128, [(3, 128)], (3, 5)), (7, [(3, 5), (2, 128)], (3, 7))):
        weights = [numbers("one", 1), numbers("zero", 0), numbers("usual", usual)]
        path = save(tmp_path / "m.onnx", nodes, {"x": ["n", "t"]}, ["y"], weights)
        model = assert_any_shape(path, [[shape] for shape in calls])
        with pytest.raises(ValueError, match=r"must fulfil|takes x"):
            model(np.ones(refused, "float32"))


def test_the_end_of_what_a_network_requires_to_be_long(tmp_path: Path) -> None:
    """Relax does not know that the axis has as many elements."""
    nodes = [
        node("Slice", ["x", "six", "seven", "one"], ["first"]),
        node("Slice", ["x", "last", "behind", "one"], ["end"]),
        node("Add", ["first", "end"], ["y"]),
    ]
    given = {"six": 6, "seven": 7, "last": -4, "behind": 1 << 40, "one": 1}
    weights = [numbers(name, [value]) for name, value in given.items()]
    path = save(tmp_path / "m.onnx", nodes, {"x": ["n", "t"]}, ["y"], weights)
    model = assert_any_shape(path, [[(2, 7)], [(1, 33)]])
    with pytest.raises(ValueError, match="must fulfil"):
        model(np.ones((2, 3), "float32"))
