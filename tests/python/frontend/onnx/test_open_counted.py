# SPDX-License-Identifier: Apache-2.0
"""Lengths that the data decide, along axes of open size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from support.open_networks import assert_any_shape, numbers, save

node = helper.make_node

_IMAGES = [[(2, 3)], [(1, 1)], [(5, 33)]]


def test_places_of_what_is_true(tmp_path: Path) -> None:
    """And what a network computes of them: elements, their squares, and how many there are."""
    nodes = [
        node("Greater", ["x", "zero"], ["positive"]),
        node("NonZero", ["positive"], ["places"]),
        node("Transpose", ["places"], ["points"]),
        node("GatherND", ["x", "points"], ["elements"]),
        node("Mul", ["elements", "elements"], ["squares"]),
        node("Shape", ["points"], ["count"]),
    ]
    path = save(
        tmp_path / "m.onnx",
        nodes,
        {"x": ["n", "t"]},
        ["places", "elements", "squares", "count"],
        [numbers("zero", 0.0, "float32")],
    )
    for threads in (1, 2):
        assert_any_shape(path, _IMAGES, threads=threads)


@pytest.mark.parametrize("axis", [0, 1])
def test_rows_that_are_kept(tmp_path: Path, axis: int) -> None:
    path = save(
        tmp_path / "m.onnx",
        [node("Compress", ["x", "kept"], ["some"], axis=axis), node("Exp", ["some"], ["y"])],
        {"x": ["n", "t"], "kept": ["k"]},
        ["y"],
        dtypes={"kept": TensorProto.BOOL},
    )
    assert_any_shape(path, [[(4, 4), (4,)], [(9, 9), (9,)], [(1, 1), (1,)]])


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("largest", [0, 1])
def test_as_many_as_an_input_says(tmp_path: Path, dtype: str, largest: int) -> None:
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    path = save(
        tmp_path / "m.onnx",
        [node("TopK", ["x", "k"], ["y", "places"], largest=largest)],
        {"x": ["n", "t"], "k": [1]},
        ["y", "places"],
        dtypes={"k": TensorProto.INT64, "x": code},
    )
    assert_any_shape(path, [[(2, 3), (1,)], [(4, 40), (1,)]])


@pytest.mark.parametrize("step", [1, 2, -1])
def test_parts_between_computed_places(tmp_path: Path, step: int) -> None:
    path = save(
        tmp_path / "m.onnx",
        [node("Slice", ["x", "begin", "end", "one", "step"], ["y"])],
        {"x": ["n", "t"], "begin": [1], "end": [1]},
        ["y"],
        [numbers("one", [1]), numbers("step", [step])],
        dtypes={"begin": TensorProto.INT64, "end": TensorProto.INT64},
    )
    assert_any_shape(path, [[(2, 3), (1,), (1,)], [(4, 9), (1,), (1,)]])


def test_boxes_that_do_not_overlap(tmp_path: Path) -> None:
    """As many as an image of open size has; a detector picks their scores."""
    nodes = [
        node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["kept"]),
        node("Gather", ["kept", "two"], ["numbers"], axis=1),
        node("Squeeze", ["scores", "zero"], ["flat"]),
        node("Gather", ["flat", "numbers"], ["y"], axis=1),
    ]
    weights = [
        numbers("most", [5]), numbers("overlap", [0.5], "float32"),
        numbers("least", [-9.0], "float32"), numbers("two", 2), numbers("zero", [0]),
    ]  # fmt: skip
    path = save(
        tmp_path / "m.onnx",
        nodes,
        {"boxes": [1, "k", 4], "scores": [1, 1, "m"]},
        ["kept", "y"],
        weights,
    )
    model = assert_any_shape(path, [[(1, k, 4), (1, 1, k)] for k in (7, 1, 40)])
    with pytest.raises(ValueError, match="k"):
        model(np.ones((1, 7, 4), "float32"), np.ones((1, 1, 6), "float32"))


def test_a_batch_of_one_is_not_assumed(tmp_path: Path) -> None:
    """What has code for one element alone is refused, not compiled for that."""
    path = save(
        tmp_path / "m.onnx",
        [node("Unique", ["x"], ["y"])],
        {"x": ["n"]},
        ["y"],
        dtypes={"x": TensorProto.INT64},
    )
    with pytest.raises(ValueError, match="not compiled for any sizes: Unique"):
        assert_any_shape(path, [])
