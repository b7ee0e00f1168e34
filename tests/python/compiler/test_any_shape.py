# SPDX-License-Identifier: Apache-2.0
"""Networks that leave dimensions open: what their libraries compute at any sizes, and refuse."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import tvm_ios
from support.open_networks import assert_any_shape, numbers, save, weight
from tvm_ios.cli.main import main
from tvm_ios.errors import ModelError

node = helper.make_node


@pytest.fixture(scope="module")
def attention(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Attention whose shapes are computed from those of its input, as exporters write it."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "first"], ["batch"]),
        node("Gather", ["shape", "second"], ["steps"]),
        node("MatMul", ["x", "w"], ["q"]),
        node("Unsqueeze", ["batch", "first_axis"], ["batch1"]),
        node("Unsqueeze", ["steps", "first_axis"], ["steps1"]),
        node("Concat", ["batch1", "steps1", "heads", "depth"], ["split"], axis=0),
        node("Reshape", ["q", "split"], ["parts"]),
        node("Transpose", ["parts"], ["queries"], perm=[0, 2, 1, 3]),
        node("Transpose", ["parts"], ["keys"], perm=[0, 2, 3, 1]),
        node("MatMul", ["queries", "keys"], ["scores"]),
        node("Softmax", ["scores"], ["shares"], axis=-1),
        node("MatMul", ["shares", "queries"], ["mixed"]),
        node("Transpose", ["mixed"], ["ordered"], perm=[0, 2, 1, 3]),
        node("Concat", ["batch1", "steps1", "width"], ["whole"], axis=0),
        node("Reshape", ["ordered", "whole"], ["rows"]),
        node("Range", ["zero", "steps", "one"], ["positions"]),
        node("Cast", ["positions"], ["places"], to=1),
        node("Unsqueeze", ["places", "second_axis"], ["column"]),
        node("Add", ["rows", "column"], ["y"]),
    ]
    weights = [
        numbers("first", 0), numbers("second", 1), numbers("first_axis", [0]),
        numbers("second_axis", [1]), numbers("heads", [2]), numbers("depth", [4]),
        numbers("width", [8]), numbers("zero", 0), numbers("one", 1), weight("w", 8, 8),
    ]  # fmt: skip
    path = tmp_path_factory.mktemp("attention") / "m.onnx"
    return save(path, nodes, {"x": ["batch", "steps", 8]}, ["y"], weights)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    nodes = [
        node("Conv", ["x", "w1"], ["a"], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["b"]),
        node("MaxPool", ["b"], ["c"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Conv", ["c", "w2"], ["d"], pads=[1, 1, 1, 1]),
        node("GlobalAveragePool", ["d"], ["e"]),
        node("Flatten", ["e"], ["f"]),
        node("Gemm", ["f", "w3"], ["y"]),
    ]
    weights = [weight("w1", 8, 3, 3, 3), weight("w2", 8, 8, 3, 3), weight("w3", 8, 10)]
    path = tmp_path_factory.mktemp("images") / "m.onnx"
    return save(path, nodes, {"x": ["N", 3, "H", "W"]}, ["y"], weights)


def test_attention(attention: Path) -> None:
    assert_any_shape(attention, [[(2, 5, 8)], [(1, 1, 8)], [(3, 130, 8)], [(1, 17, 8)]])


def test_images(images: Path) -> None:
    assert_any_shape(images, [[(2, 3, 32, 31)], [(1, 3, 1, 1)], [(3, 3, 5, 64)]])


def test_one_worker(images: Path) -> None:
    assert_any_shape(images, [[(2, 3, 32, 31)], [(1, 3, 17, 5)]], threads=1)


def test_a_searched_shape_has_a_function_of_its_own(images: Path) -> None:
    model = tvm_ios.compile(images, threads=1, max_group_size=1)
    assert len(model.schedules) == 2
    for shape in ((1, 3, 224, 224), (2, 3, 20, 30)):
        x = np.random.default_rng(0).standard_normal(shape).astype("float32")
        general = tvm_ios.compile(images, threads=1, search=False)
        np.testing.assert_allclose(model(x), general(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((2, 3, 32), r"takes x float32\[N, 3, H, W\]"),
        ((2, 4, 32, 32), r"takes x float32\[N, 3, H, W\]"),
        ((0, 3, 32, 32), "N must be at least 1"),
        ((1, 3, 32, 0), "W must be at least 1"),
    ],
)
def test_sizes_that_are_refused(images: Path, shape: tuple[int, ...], said: str) -> None:
    model = tvm_ios.compile(images, search=False, threads=1)
    with pytest.raises(ValueError, match=said):
        model(np.zeros(shape, "float32"))


def test_dimensions_of_one_name(tmp_path: Path) -> None:
    path = save(
        tmp_path / "m.onnx", [node("Add", ["x", "y"], ["z"])], {"x": ["n", 3], "y": ["n", 3]}, ["z"]
    )
    model = assert_any_shape(path, [[(4, 3), (4, 3)], [(1, 3), (1, 3)]])
    with pytest.raises(ValueError, match="dimension n is 2 in x, but 3 in y"):
        model(np.zeros((2, 3), "float32"), np.zeros((3, 3), "float32"))


def test_dimensions_by_name(attention: Path, tmp_path: Path) -> None:
    model = tvm_ios.compile(attention, search=False, threads=1, dims={"batch": 2, "steps": (1, 64)})
    assert model.inputs[0].shape == (2, None, 8)
    assert model(np.zeros((2, 64, 8), "float32")).shape == (2, 64, 8)
    with pytest.raises(ValueError, match="steps must be at most 64"):
        model(np.zeros((2, 65, 8), "float32"))
    fixed = tvm_ios.compile(
        attention, search=False, threads=1, dims={"batch": 2}, input_shapes={"": [2, 3, 8]}
    )
    assert fixed.inputs[0].shape == (2, 3, 8)


@pytest.mark.parametrize(
    ("dims", "said"),
    [
        ({"foo": 1}, "has no open dimension 'foo'; it leaves open: batch, steps"),
        ({"steps": 0}, "'steps' must be from 1 to 2147483647, got 0"),
        ({"steps": (5, 4)}, r"'steps' must be from 1 to 2147483647, got 5\.\.4"),
    ],
)
def test_dimensions_that_are_refused(attention: Path, dims: dict[str, int], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        tvm_ios.compile(attention, search=False, threads=1, dims=dims)


def test_the_command_line(
    attention: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = tmp_path / "m.so"
    fast = ["--no-search", "--threads", "1"]
    assert main(["compile", str(attention), "-o", str(library), *fast, "--dim", "batch=2"]) == 0
    assert tvm_ios.load(library).inputs[0].shape == (2, None, 8)
    assert main(["bench", str(attention), *fast[1:]]) != 0
    said = "batch of x, steps of x; fix them with --dim batch=1 --dim steps=128"
    assert said in capsys.readouterr().err
    for wrong in ("steps", "steps=a", "steps=1..", "=1"):
        assert main(["compile", str(attention), "-o", str(library), "--dim", wrong]) != 0
        assert "is not a size such as seq=128" in capsys.readouterr().err
    twice = ["--dim", "steps=1", "--dim", "steps=2"]
    assert main(["compile", str(attention), "-o", str(library), *twice]) != 0
    assert "'steps' is given twice" in capsys.readouterr().err


def test_the_reason_of_a_refusal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [node("CumSum", ["x", "axis"], ["a"]), node("Unique", ["a"], ["y"])]
    path = save(tmp_path / "m.onnx", nodes, {"x": ["n", "m"]}, ["y"], [numbers("axis", 0)])
    said = "n of x, m of x (not compiled for any sizes: Unique"
    with pytest.raises(ModelError, match=re.escape(said)) as raised:
        tvm_ios.compile(path, search=False, threads=1)
    assert "fix them with dims={'n': 1, 'm': 128}." in str(raised.value)
    assert main(["compile", str(path), "-o", str(tmp_path / "m.so"), "--no-search"]) != 0
    error = capsys.readouterr().err
    assert said in error
    assert not (tmp_path / "m.so").exists()
    assert "fix them with --dim n=1 --dim m=128." in error
