# SPDX-License-Identifier: Apache-2.0
"""What operators require of open dimensions: it holds of each call, or the call is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import NodeProto, TensorProto, helper
from tvm import relax

import tvm_ios
from support.open_networks import Dim, assert_any_shape, numbers, save, weight
from tvm_ios.frontend.models import load_model
from tvm_ios.sizes.size import OpenSizes

node = helper.make_node

_INSTANCES = node("InstanceNormalization", ["x", "one", "one"], ["y"])
_SCATTER = node("ScatterElements", ["x", "at", "new"], ["y"], axis=1)


def _known(path: Path) -> dict[str, int | str]:
    """Return the dimensions that a network gives one size, or that of another one."""
    opened = OpenSizes()
    load_model(str(path), opened=opened)
    return opened.known


@pytest.mark.parametrize(
    ("made", "inputs", "known"),
    [
        (node("Conv", ["x", "w"], ["y"]), {"x": ["n", "c", "h", 9]}, 6),
        (node("Conv", ["x", "w"], ["y"], group=2), {"x": ["n", "c", "h", 9]}, 12),
        (node("ConvTranspose", ["x", "w"], ["y"]), {"x": ["n", "c", "h", 9]}, 8),
        (node("Gemm", ["x", "flat"], ["y"]), {"x": ["n", "c"]}, 5),
        (node("MatMul", ["x", "flat"], ["y"]), {"x": ["n", "t", "c"]}, 5),
        (node("MatMul", ["flat", "x"], ["y"]), {"x": ["n", "c", "t"]}, 7),
        (node("LayerNormalization", ["x", "gamma"], ["y"]), {"x": ["n", "c"]}, 5),
        (node("PRelu", ["x", "slope"], ["y"]), {"x": ["n", "c", "h", "w"]}, 5),
        (_INSTANCES, {"x": ["n", "c", "h", "w"]}, 1),
        (_SCATTER, {"x": [3, 4], "new": [2, "c"]}, 2),
    ],
    ids=["conv", "groups", "transposed", "gemm", "left", "right", "norm", "prelu",
         "instances", "scatter"],
)  # fmt: skip
def test_weights_decide(
    tmp_path: Path, made: NodeProto, inputs: dict[str, list[Dim]], known: int
) -> None:
    weights = [
        weight("w", 8, 6, 3, 3), weight("flat", 5, 7), weight("gamma", 5),
        weight("slope", 5, 1, 1), weight("one", 1), numbers("at", [[0, 1], [2, 3]]),
    ]  # fmt: skip
    used = [tensor for tensor in weights if tensor.name in made.input]
    path = save(tmp_path / "m.onnx", [made], inputs, ["y"], used)
    assert _known(path)["c"] == known


def test_operands_have_one_depth(tmp_path: Path) -> None:
    path = save(
        tmp_path / "m.onnx",
        [node("MatMul", ["a", "b"], ["y"])],
        {"a": ["n", 3, "i"], "b": ["n", "k", 4]},
        ["y"],
    )
    assert _known(path) == {"k": "i"}
    model = assert_any_shape(path, [[(2, 3, 5), (2, 5, 4)], [(1, 3, 33), (1, 33, 4)]])
    with pytest.raises(ValueError, match="dimension i is 5 in a"):
        model(np.ones((2, 3, 5), "float32"), np.ones((2, 6, 4), "float32"))


@pytest.mark.parametrize("lengths", [(2, 7), (2, 3)])
def test_places_lie_inside_of_the_data(tmp_path: Path, lengths: tuple[int, int]) -> None:
    """Indices have at most as many rows as what they pick from."""
    path = save(
        tmp_path / "m.onnx",
        [node("GatherElements", ["x", "at"], ["y"], axis=1)],
        {"x": ["n", 4], "at": ["m", 2]},
        ["y"],
        dtypes={"at": TensorProto.INT64},
    )
    model = assert_any_shape(path, [[(5, 4), (5, 2)], [(8, 4), (3, 2)]])
    rows, picked = sorted(lengths)
    with pytest.raises(ValueError, match="must fulfil"):
        model(np.ones((rows, 4), "float32"), np.zeros((picked, 2), "int64"))


def test_every_dimension_is_decided(tmp_path: Path) -> None:
    """What the network requires leaves nothing open."""
    path = save(
        tmp_path / "m.onnx",
        [node("Add", ["x", "w"], ["y"])],
        {"x": ["n", "t"]},
        ["y"],
        [weight("w", 5, 7)],
    )
    for search in (False, True):
        model = tvm_ios.compile(path, search=search, threads=1)
        x = np.random.default_rng(0).standard_normal((5, 7)).astype("float32")
        (wanted,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
        np.testing.assert_allclose(model(x), wanted, rtol=1e-6)
        with pytest.raises(ValueError, match="x"):
            model(np.ones((5, 6), "float32"))


def test_images_smaller_than_a_window_are_refused(tmp_path: Path) -> None:
    """The result would have a negative size."""
    path = save(
        tmp_path / "m.onnx",
        [
            node("MaxPool", ["x"], ["p"], kernel_shape=[1, 4, 1]),
            node("Relu", ["p"], ["r"]),
            node("Einsum", ["r", "r"], ["y"], equation="ncdhw,ncdhw->nd"),
        ],
        {"x": ["n", 2, "t", "h", 3]},
        ["y", "r"],
    )
    for threads in (1, 2):
        model = assert_any_shape(
            path, [[(2, 2, 3, 5, 3)], [(1, 2, 1, 4, 3)]], tolerance=1e-4, threads=threads
        )
        with pytest.raises(ValueError, match=r"4 <= h|h - 3"):
            model(np.ones((1, 2, 3, 2, 3), "float32"))


@pytest.mark.parametrize(("opset", "served"), [(17, [6, 3]), (18, [6, 3, 5])])
def test_parts_of_the_same_size(tmp_path: Path, opset: int, served: list[int]) -> None:
    """Before opset 18, the last one is not smaller either."""
    names = ["a", "b", "c"]
    attributes = {"num_outputs": 3} if opset > 17 else {}
    path = save(
        tmp_path / "m.onnx",
        [node("Split", ["x"], names, axis=1, **attributes)],
        {"x": [2, "t"]},
        names,
        opset=opset,
    )
    model = assert_any_shape(path, [[(2, length)] for length in served])
    if opset < 18:
        with pytest.raises(ValueError, match="must fulfil"):
            model(np.ones((2, 5), "float32"))


def test_what_tvm_lowers_is_checked_too(tmp_path: Path) -> None:
    """Also by a library without a kernel of ours, in TVM's own virtual machine."""
    path = save(
        tmp_path / "m.onnx",
        [node("TopK", ["x", "k"], ["y", "places"])],
        {"x": ["n", "t"]},
        ["y", "places"],
        [numbers("k", [5])],
        dtypes={"x": TensorProto.INT64},
    )
    model = assert_any_shape(path, [[(2, 5)], [(3, 40)]], threads=1)
    with pytest.raises(ValueError, match="5 <= t"):
        model(np.ones((2, 4), "int64"))
    library = tmp_path / "m.so"
    model.save(library)
    machine = relax.VirtualMachine(tvm.runtime.load_module(library), tvm.cpu())
    with pytest.raises(ValueError, match="5 <= t"):
        machine["main"](tvm.runtime.tensor(np.ones((2, 4), "int64")))


@pytest.mark.parametrize(
    ("op", "indices"), [("Gather", [4, -300]), ("GatherElements", [[0], [-300]])]
)
def test_constant_indices_are_inside(tmp_path: Path, op: str, indices: list) -> None:
    """The usual example of a size is too small for them."""
    path = save(
        tmp_path / "m.onnx",
        [node(op, ["x", "at"], ["y"], axis=1)],
        {"x": [2, "t"]},
        ["y"],
        [numbers("at", indices)],
    )
    model = assert_any_shape(path, [[(2, 300)], [(2, 301)]])
    with pytest.raises(ValueError, match="300 <= t"):
        model(np.ones((2, 299), "float32"))


def test_a_condition_that_has_one_solution(tmp_path: Path) -> None:
    path = save(
        tmp_path / "m.onnx",
        [node("Concat", ["x", "x", "x"], ["long"], axis=1), node("Add", ["long", "w"], ["y"])],
        {"x": ["n", "t"]},
        ["y"],
        [weight("w", 39)],
    )
    assert _known(path) == {"t": 13}


@pytest.mark.parametrize("op", ["MatMulInteger", "ConvInteger"])
def test_products_of_integers_have_one_depth(tmp_path: Path, op: str) -> None:
    """The depth is divided into parts, of which each is exact."""
    shape = (300, 4) if op == "MatMulInteger" else (4, 300, 1, 1)
    weights = np.random.default_rng(0).integers(-128, 128, shape)
    inputs: dict[str, list[Dim]] = {"x": ["n", "c"] if len(shape) == 2 else ["n", "c", 3, 3]}
    path = save(
        tmp_path / "m.onnx",
        [node(op, ["x", "w"], ["y"])],
        inputs,
        ["y"],
        [numbers("w", weights, "int8")],
        dtypes={"x": TensorProto.UINT8},
    )
    assert _known(path) == {"c": 300}


@pytest.mark.parametrize(
    ("equation", "known"),
    [
        ("bij,kj->bik", {"j": 7}),
        ("...ij,kj->...k", {"j": 7}),
        ("iij,kj->ik", {"j": 7, "i": "b"}),
        ("bij,ki->bk", {"i": 7}),
    ],
)
def test_letters_are_of_one_size(
    tmp_path: Path, equation: str, known: dict[str, int | str]
) -> None:
    path = save(
        tmp_path / "m.onnx",
        [node("Einsum", ["x", "w"], ["y"], equation=equation)],
        {"x": ["b", "i", "j"]},
        ["y"],
        [weight("w", 9, 7)],
    )
    assert _known(path) == known
    sizes = {"b": 3, "i": 3, "j": 5, **{name: 7 for name, size in known.items() if size == 7}}
    assert_any_shape(path, [[tuple(sizes.values())]])
