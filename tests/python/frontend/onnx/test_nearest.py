# SPDX-License-Identifier: Apache-2.0
"""Which element is the nearest: places are rounded as in ONNX Runtime."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import NodeProto, helper

from support.open_networks import assert_any_shape, numbers, save
from tvm_ios.frontend.onnx.interpolation import COORDINATES, NEAREST, Interpolation

_COORDINATES = sorted(set(COORDINATES) - {"tf_crop_and_resize"})
_SCALES = (0.3, 0.6, 0.7, 1.2, 1.5, 2.5, 1 / 3, 2 / 3)
_TRIED = 100


def _resize(coordinates: str, nearest: str, given: str, data: str = "x") -> NodeProto:
    return helper.make_node(
        "Resize",
        [data, "", given, ""] if given == "scales" else [data, "", "", given],
        ["y"],
        mode="nearest",
        coordinate_transformation_mode=coordinates,
        nearest_mode=nearest,
    )


@pytest.mark.parametrize("given", ["sizes", "scales"])
@pytest.mark.parametrize(("coordinates", "nearest"), [*product(_COORDINATES, NEAREST)])
def test_of_sizes_that_are_known(
    coordinates: str, nearest: str, given: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    graph = helper.make_graph(
        [_resize(coordinates, nearest, given)],
        "resize",
        [
            helper.make_tensor_value_info("x", 1, ["a"]),
            helper.make_tensor_value_info(given, 7 if given == "sizes" else 1, [1]),
        ],
        [helper.make_tensor_value_info("y", 1, ["b"])],
    )
    opset = helper.make_opsetid("", 19)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    for _ in range(_TRIED):
        size, new_size = (int(n) for n in rng.integers(1, 300, 2))
        scale = new_size / size
        if given == "scales":
            scale = float(np.float32(rng.choice(_SCALES)))
            new_size = int(np.float32(size) * np.float32(scale))
        if new_size in (0, size):
            continue
        value = np.array([new_size]) if given == "sizes" else np.array([scale], "float32")
        places = session.run(None, {"x": np.arange(size, dtype="float32"), given: value})[0]
        each = Interpolation(size, new_size, scale, "nearest", coordinates, nearest)
        np.testing.assert_array_equal(each.matrix().argmax(1), places, str(each))


@pytest.mark.parametrize(
    ("coordinates", "nearest"),
    [
        ("align_corners", "round_prefer_floor"),
        ("asymmetric", "floor"),
        ("half_pixel", "round_prefer_ceil"),
        ("half_pixel_symmetric", "ceil"),
        ("pytorch_half_pixel", "round_prefer_floor"),
        ("tf_half_pixel_for_nn", "floor"),
    ],
)
def test_of_open_sizes(coordinates: str, nearest: str, tmp_path: Path) -> None:
    nodes = [_resize(coordinates, nearest, "sizes")]
    sizes = numbers("sizes", [2, 9, 18])
    path = save(tmp_path / "m.onnx", nodes, {"x": [2, "h", "w"]}, ["y"], [sizes])
    assert_any_shape(path, [[(2, n, 41 - n)] for n in range(1, 41)])
