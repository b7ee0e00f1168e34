# SPDX-License-Identifier: Apache-2.0
"""The operators of detectors, compared with ONNX Runtime's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import tvm_ios
from tvm_ios.errors import ModelError

REGIONS = np.array(
    [
        [1, 2, 12.3, 9.1],
        [0.5, 1.5, 2.5, -4],
        [4, 4, 20, 18],
        [-30, -9, 60, 55],
        [5, 5, 5, 5],
        [0, 30, 30, 31],
    ],
    "float32",
)
IMAGES = np.array([0, 1, 0, 1, 1, 0], "int64")
NUMBERED = np.column_stack([IMAGES, REGIONS]).astype("float32")


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def _save(
    path: Path, kind: str, inputs: Sequence[np.ndarray | None], opset: int, **attributes: Any
) -> dict[str, np.ndarray]:
    """Write a model of one operator, and return its inputs."""
    given = {f"x{n}": value for n, value in enumerate(inputs) if value is not None}
    names = [f"x{n}" if value is not None else "" for n, value in enumerate(inputs)]
    graph = helper.make_graph(
        [helper.make_node(kind, names, ["y"], **attributes)],
        "g",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for name, a in given.items()
        ],
        [onnx.ValueInfoProto(name="y")],
    )
    opsets = [helper.make_opsetid("", opset)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return given


def _result(path: Path, inputs: dict[str, np.ndarray]) -> np.ndarray:
    return tvm_ios.compile(path, search=False, threads=1)(*inputs.values())


def _check(path: Path, inputs: dict[str, np.ndarray]) -> None:
    (wanted,) = onnxruntime.InferenceSession(path).run(None, inputs)
    result = _result(path, inputs)
    assert result.dtype == wanted.dtype
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [10, 16])
@pytest.mark.parametrize("samples", [0, 3])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_aligned_regions(mode: str, samples: int, opset: int, tmp_path: Path) -> None:
    """Of negative pixels, the largest is 0 where samples are outside of the image."""
    data = _random(2, 3, 20, 22) if mode == "avg" else -abs(_random(2, 3, 20, 22))
    path, inputs = tmp_path / "model.onnx", [data, REGIONS, IMAGES]
    size = {"output_height": 5, "output_width": 7, "sampling_ratio": samples}
    _check(path, _save(path, "RoiAlign", inputs, opset, mode=mode, spatial_scale=0.7, **size))


def test_aligned_regions_in_double_precision(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    inputs = [_random(2, 3, 20, 22).astype("float64"), REGIONS.astype("float64"), IMAGES]
    _check(path, _save(path, "RoiAlign", inputs, 16, output_width=3, sampling_ratio=2))


@pytest.mark.parametrize("kind", ["RoiAlign", "MaxRoiPool"])
def test_regions_that_are_no_numbers_end(kind: str, tmp_path: Path) -> None:
    """So many samples, or pixels, as these regions have, would take forever."""
    path, aligned = tmp_path / "model.onnx", kind == "RoiAlign"
    strange = [[np.nan, 0, 5, np.nan], [-np.inf, 0, np.inf, 9], [0, 0, 3e38, 3e38], [1, 1, 9, 9]]
    regions, images = np.array(strange, "float32"), np.zeros(4, "int64")
    inputs = [_random(1, 2, 9, 9), regions, images]
    if not aligned:
        inputs = [inputs[0], np.column_stack([images, regions]).astype("float32")]
    size = {} if aligned else {"pooled_shape": [2, 3]}
    assert np.isfinite(_result(path, _save(path, kind, inputs, 16, **size))[-1]).all()


@pytest.mark.parametrize("parts", [[5, 7], [2, 3], [21, 24]])
def test_largest_of_regions(parts: list[int], tmp_path: Path) -> None:
    path, inputs = tmp_path / "model.onnx", [abs(_random(2, 3, 20, 22)), NUMBERED]
    _check(path, _save(path, "MaxRoiPool", inputs, 16, pooled_shape=parts, spatial_scale=0.9))


def test_a_region_of_no_image(tmp_path: Path) -> None:
    path, inputs = tmp_path / "model.onnx", [_random(2, 3, 20, 22), REGIONS, IMAGES + 1]
    given = _save(path, "RoiAlign", inputs, 16)
    with pytest.raises(IndexError, match="from 0 to 1, got 2"):
        _result(path, given)


DEFORMED = {
    "plain": ([(1, 4, 9, 10), (6, 4, 3, 3), (1, 18, 7, 8)], {}),
    "groups": (
        [(2, 4, 9, 10), (6, 2, 3, 2), (2, 24, 8, 9), (6,), (2, 12, 8, 9)],
        {"group": 2, "offset_group": 2, "dilations": [1, 2], "pads": [0, 1, 1, 0]},
    ),
    "strides": (
        [(2, 6, 9, 10), (6, 2, 3, 2), (2, 36, 4, 5), None, (2, 18, 4, 5)],
        {"group": 3, "offset_group": 3, "strides": [2, 2], "pads": [1, 1, 0, 0]},
    ),
    "groups of offsets": (
        [(1, 6, 5, 1), (2, 6, 1, 1), (1, 4, 5, 1), (2,)],
        {"offset_group": 2},
    ),
}


@pytest.mark.parametrize(("case", "opset"), [*zip(DEFORMED, [19, 22, 19, 22], strict=True)])
def test_deformed_convolutions(case: str, opset: int, tmp_path: Path) -> None:
    shapes, attributes = DEFORMED[case]
    inputs = [None if shape is None else _random(*shape) for shape in shapes]
    inputs[2] = 3 * inputs[2]
    path = tmp_path / "model.onnx"
    _check(path, _save(path, "DeformConv", inputs, opset, **attributes))


def test_offsets_to_infinity(tmp_path: Path) -> None:
    data, offset = _random(1, 1, 4, 4), np.zeros((1, 2, 4, 4), "float32")
    offset[0, :, 0] = np.inf
    offset[0, :, 1] = -1e30
    path = tmp_path / "model.onnx"
    given = _save(path, "DeformConv", [data, np.ones((1, 1, 1, 1), "float32"), offset], 19)
    wanted = data.copy()
    wanted[0, 0, :2] = 0
    np.testing.assert_array_equal(_result(path, given), wanted)


REFUSED = {
    "offsets": (
        "DeformConv",
        [(1, 4, 9, 10), (6, 4, 3, 3), (1, 18, 7, 9)],
        {},
        r"has offsets of \[1, 18, 7, 9\], which must be \[1, 18, 7, 8\]",
    ),
    "groups": (
        "DeformConv",
        [(1, 4, 9, 10), (6, 2, 3, 3), (1, 18, 7, 8)],
        {"group": 4},
        "has 4 groups and 1 of offsets, which do not divide its 6 and 4 channels",
    ),
    "volumes": ("DeformConv", [(1, 4, 9), (6, 2, 3), (1, 18, 7)], {}, "is not of images"),
    "regions": (
        "MaxRoiPool",
        [(1, 4, 9, 10), (6, 4)],
        {"pooled_shape": [2, 2]},
        r"has regions of \[6, 4\], which must be rows of 5 numbers",
    ),
    "a mode": (
        "RoiAlign",
        [(1, 4, 9, 10), (6, 4), (6,)],
        {"mode": "median"},
        "has the mode 'median', which is neither avg nor max",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str, tmp_path: Path) -> None:
    kind, shapes, attributes, message = REFUSED[case]
    inputs, path = [_random(*shape) for shape in shapes], tmp_path / "model.onnx"
    if kind == "RoiAlign":
        inputs[2] = inputs[2].astype("int64")
    _save(path, kind, inputs, 19 if kind == "DeformConv" else 16, **attributes)
    with pytest.raises(ModelError, match=f"^{kind} {message}"):
        tvm_ios.compile(path, search=False)
