# SPDX-License-Identifier: Apache-2.0
"""Tensors whose lengths the data decide, compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import tvm_ios
import tvm_ios_runtime
from support.networks import assert_close
from tvm_ios.errors import ModelError

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
LARGER = """g (float[4,5] x) => (int64[2,n] places, float[n] values, float[n,3] r, int64[2] sizes)
<float half = {0.5}, float[1,3] row = {1, 2, 3}, int64[1] last = {1}, int64[3] shape = {-1, 1, 1},
 float[3,3] matrix = {1, 2, 3, 4, 5, 6, 7, 8, 10}, int64[1] one = {1}> {
  larger = Greater (x, half)
  places = NonZero (larger)
  pairs = Transpose (places)
  values = GatherND (x, pairs)
  sizes = Shape (places)
  apart = Reshape (values, shape)
  column = Squeeze (apart, last)
  grid = Mul (column, row)
  normal = Softmax <axis = -1> (grid)
  product = MatMul (normal, matrix)
  sums = ReduceSum <keepdims = 1> (product, one)
  joined = Concat <axis = 1> (sums, column, column)
  r = Where (grid_is_large, joined, product)
  grid_is_large = Greater (grid, half)
}"""
COMPRESSED = """g (float[4,5] x, bool[3] c) => (float[m,5] y, float[k] flat, int64[k] best)
<int64[1] zero = {0}, int64[1] two = {2}> {
  y = Compress <axis = 0> (x, c)
  few = Slice (y, zero, two, zero)
  flat = ReduceMax <axes = [1], keepdims = 0> (few)
  best = ArgMax <axis = 1, keepdims = 0> (few)
}"""
BEST = "g (float[4,50] x, int64[1] k) => (float[4,n] y, int64[4,n] i) { y, i = TopK (x, k) }"
SUPPRESSED = """g (float[2,60,4] b, float[2,3,60] s, int64[1] k, float[1] iou, float[1] least)
  => (int64[n,3] y, float[n,4] kept, float[n] scores)
<int64[1] zero = {0}, int64[1] two = {2}> {
  y = NonMaxSuppression <center_point_box = CENTERS> (b, s, k, iou, least)
  image = Gather <axis = 1> (y, zero)
  box = Gather <axis = 1> (y, two)
  place = Concat <axis = 1> (image, box)
  kept = GatherND (b, place)
  scores = GatherND (s, y)
}"""
DISTINCT = """g (float[SHAPE] x)
  => (float[ANY] y, int64[n] first, int64[i] inverse, int64[n] counts)
{ y, first, inverse, counts = Unique <OPTIONS> (x) }"""


def _check(text: str, path: Path, *calls: Sequence[np.ndarray], threads: int = 1) -> None:
    model = onnx.parser.parse_model(HEAD + text)
    _sort(model)
    onnx.save(model, path)
    session = onnxruntime.InferenceSession(path)
    compiled = tvm_ios.compile(path, search=False, threads=threads)
    names = [value.name for value in session.get_inputs()]
    for arrays in calls:
        expected = session.run(None, dict(zip(names, arrays, strict=True)))
        results = compiled(*arrays)
        for result, wanted in zip(results, expected, strict=True):
            assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
            if result.size:
                assert_close(result, wanted)


def _sort(model: onnx.ModelProto) -> None:
    """Bring the last node before the one that reads it."""
    nodes = list(model.graph.node)
    if nodes[-1].output[0] == "grid_is_large":
        del model.graph.node[:]
        model.graph.node.extend([*nodes[:-2], nodes[-1], nodes[-2]])


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


@pytest.mark.parametrize("threads", [1, 2])
def test_elements_that_are_not_zero(threads: int, tmp_path: Path) -> None:
    x = _normal(4, 5)
    calls = [(x + shift,) for shift in (0, 1, -1, 9, -9)]
    _check(LARGER, tmp_path / "m.onnx", *calls, threads=threads)


def test_elements_where_a_condition_holds(tmp_path: Path) -> None:
    conditions = ([1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 0, 1])
    calls = [(_normal(4, 5), np.array(condition, "bool")) for condition in conditions]
    _check(COMPRESSED, tmp_path / "m.onnx", *calls)


def test_as_many_of_the_largest_as_is_computed(tmp_path: Path) -> None:
    path, x = tmp_path / "m.onnx", _normal(4, 50)
    _check(BEST, path, *[(x, np.array([k])) for k in (0, 1, 7, 50)])
    model = tvm_ios.compile(path, search=False, threads=1)
    for wrong in (-1, 51):
        with pytest.raises(IndexError, match=f"from 0 to 50, got {wrong}"):
            model(x, np.array([wrong]))


@pytest.mark.parametrize("centers", [0, 1])
def test_boxes_that_do_not_overlap_better_ones(centers: int, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    boxes = random.uniform(0, 10, (2, 60, 4)).astype("float32")
    scores = random.uniform(0, 1, (2, 3, 60)).astype("float32")
    scores[0, 0, :20] = 0.5
    calls = [
        (boxes, scores, np.array([most]), np.array([iou], "float32"), np.array([least], "float32"))
        for most in (-1, 0, 1, 5, 1000)
        for iou in (0.0, 0.3, 0.9)
        for least in (0.0, 0.5, 2.0)
    ]
    text = SUPPRESSED.replace("CENTERS", str(centers))
    _check(text, tmp_path / "m.onnx", *calls[9:], threads=2)
    compiled = tvm_ios.compile(tmp_path / "m.onnx", search=False, threads=1)
    assert all(len(compiled(*arrays)[0]) == 0 for arrays in calls[:9])


@pytest.mark.parametrize("ordered", [0, 1])
@pytest.mark.parametrize(
    ("shape", "axis"), [((4, 6), None), ((1,), 0), ((5, 3, 2), 1), ((9, 2), 0)]
)
def test_elements_that_differ(
    shape: tuple[int, ...], axis: int | None, ordered: int, tmp_path: Path
) -> None:
    options = f"sorted = {ordered}" + ("" if axis is None else f", axis = {axis}")
    sizes = ["n"] if axis is None else [f"d{i}" for i in range(len(shape))]
    text = DISTINCT.replace("SHAPE", ",".join(map(str, shape))).replace("OPTIONS", options)
    random = np.random.default_rng(0)
    calls = [(random.integers(0, k, shape).astype("float32"),) for k in (1, 2, 2, 3, 1000)]
    _check(text.replace("ANY", ",".join(sizes)), tmp_path / "m.onnx", *calls)


@pytest.mark.parametrize("step", [1, 3, -1, -2])
def test_slices_between_computed_places(step: int, tmp_path: Path) -> None:
    text = f"""g (float[3,7,2] x, int64[1] a, int64[1] b) => (float[3,n,2] y, float[3,m,2] z)
    <int64[1] one = {{1}}, int64[1] step = {{{step}}}, int64[1] far = {{100}}> {{
      y = Slice (x, a, b, one, step)
      z = Slice (x, a, far, one)
    }}"""
    places = (-100, -8, -7, -3, -1, 0, 2, 6, 7, 100)
    x = _normal(3, 7, 2)
    calls = [(x, np.array([a]), np.array([b])) for a in places for b in places]
    _check(text, tmp_path / "m.onnx", *calls)
    constant = text.replace(", int64[1] a, int64[1] b)", ")").replace(
        "<int64[1] one", "<int64[1] a = {-100}, int64[1] b = {-8}, int64[1] one"
    )
    _check(constant, tmp_path / "m.onnx", (x,))


def test_a_library_says_which_lengths_are_counted(tmp_path: Path) -> None:
    _check(BEST, tmp_path / "m.onnx")
    tvm_ios.compile(tmp_path / "m.onnx", search=False, threads=1).save(tmp_path / "m.so")
    model = tvm_ios_runtime.load(tmp_path / "m.so")
    assert [info.shape for info in model.outputs] == [(4, None), (4, None)]
    inputs = (_normal(4, 50), np.array([3]))
    named = model.run(dict(zip((info.name for info in model.inputs), inputs, strict=True)))
    assert [array.shape for array in named.values()] == [(4, 3), (4, 3)]
    assert all(array.flags.c_contiguous for array in named.values())
    with pytest.raises(ValueError, match="known after a run"):
        model(*inputs, out=list(named.values()))
    with pytest.raises(ValueError, match="known after a run"):
        model.bind(inputs)


@pytest.mark.parametrize(
    "node",
    [
        "y = ReduceSum <keepdims = 0> (v)",
        "y = Softmax <axis = 0> (v)",
        "y = Add (v, x)",
        "w = NonZero (b)\n y = Add (p, w)",
        "zero = Constant <value_int = 0> ()\n y = Gather <axis = 0> (v, zero)",
        "y = Conv (v, v)",
    ],
)
def test_what_depends_on_the_length_is_refused(node: str, tmp_path: Path) -> None:
    text = f"""g (float[20] x, float[20] b) => (float[m] y) {{
      p = NonZero (x)
      pairs = Transpose (p)
      v = GatherND (x, pairs)
      {node}
    }}"""
    onnx.save(onnx.parser.parse_model(HEAD + text), tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="whose length is not known before the network runs"):
        tvm_ios.compile(tmp_path / "m.onnx", search=False)
