# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX where its own tests of operators end, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import tvm_ios
from support.contributed import Node, compiled, numbers
from tvm_ios.errors import ModelError


def _run(
    path: Path, x: np.ndarray, kind: str, *constants: Any, outputs: int = 1, **attributes: Any
) -> Any:
    """Compile a model of one node and run it; it is left in the file ``path``."""
    weights = [onnx.numpy_helper.from_array(np.asarray(c), f"c{i}") for i, c in
               enumerate(constants)]  # fmt: skip
    code = helper.np_dtype_to_tensor_dtype(x.dtype)
    names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(kind, ["x", *(w.name for w in weights)], names, **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", code, x.shape)],
        [helper.make_empty_tensor_value_info(name) for name in names],
        weights,
    )
    opsets = [helper.make_opsetid("", 19)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return tvm_ios.compile(path, search=False, threads=1)(x)


PADS = [
    ((2, 3, 5), [0, 0, -1, 0, 0, 2]),
    ((4, 4, 5), [-1, 2, -2, 1, -1, 2]),
    ((2, 3, 4, 5), [0, 0, 2, -1, 0, 0, -1, 2]),
    ((1, 3, 7, 4), [0, -1, -3, 2, 0, 1, 3, -1]),
]


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize(("shape", "pads"), PADS)
def test_pads_of_both_signs(
    mode: str, shape: tuple[int, ...], pads: list[int], tmp_path: Path
) -> None:
    """Elements are removed first, and the ones that are left are repeated."""
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    pairs = list(zip(pads[: x.ndim], pads[x.ndim :], strict=True))
    kept = x[tuple(slice(max(-b, 0), s + min(a, 0)) for s, (b, a) in zip(x.shape, pairs,
                                                                        strict=True))]  # fmt: skip
    wanted = np.pad(kept, np.maximum(pairs, 0), mode)  # type: ignore[call-overload]
    result = _run(tmp_path / "m.onnx", x, "Pad", np.array(pads), mode=mode)
    np.testing.assert_array_equal(result, wanted)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    np.testing.assert_array_equal(result, session.run(None, {"x": x})[0])


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_nothing_is_repeated_of_an_axis_without_elements(mode: str, tmp_path: Path) -> None:
    """The elements were read from outside of the tensor."""
    x = np.ones((2, 3, 3), "float32")
    with pytest.raises(ModelError, match=r"^Pad repeats elements of an axis of which none is left"):
        _run(tmp_path / "m.onnx", x, "Pad", np.array([0, 0, -3, 0, 0, 4]), mode=mode)


@pytest.mark.parametrize("kind", ["ReduceLogSum", "ReduceLogSumExp"])
@pytest.mark.parametrize("shape", [(3, 5), (3, 0)])
def test_logarithms_of_sums_of_integers_are_refused(
    kind: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=f"^{kind} .*of integers is not supported"):
        _run(tmp_path / "m.onnx", np.ones(shape, "int64"), kind, np.array([1]))


@pytest.mark.parametrize("number", [-2.0, 3.0])
def test_a_slope_of_a_number(number: float, tmp_path: Path) -> None:
    result = _run(tmp_path / "m.onnx", np.array(number, "float32"), "PRelu", np.float32(0.25))
    np.testing.assert_array_equal(result, np.float32(number * (0.25 if number < 0 else 1)))


@pytest.mark.parametrize("scales", [0.3, [0.3, 1.7, 2.9]])
def test_integers_are_scaled_to_bfloat16(scales: Any, tmp_path: Path) -> None:
    """The zero points are exact, and the products rounded."""
    x = np.random.default_rng(0).integers(-128, 128, (5, 3)).astype("int8")
    scale = np.array(scales, ml_dtypes.bfloat16)
    zero = np.full_like(scale, 7, "int8")
    result = _run(tmp_path / "m.onnx", x, "DequantizeLinear", scale, zero, axis=1)
    wanted = (x.astype("float32") - 7) * scale.astype("float32")
    assert result.dtype == scale.dtype
    np.testing.assert_array_equal(result, wanted.astype(scale.dtype))


@pytest.mark.parametrize("largest", [0, 1])
def test_the_largest_of_uint64(largest: int, tmp_path: Path) -> None:
    """Half of them are above what a signed integer holds."""
    x = np.random.default_rng(0).integers(0, 2**64, (3, 9), "uint64")
    values, places = _run(tmp_path / "m.onnx", x, "TopK", [4], outputs=2, largest=largest)
    wanted = np.argsort(~x if largest else x, 1)[:, :4]
    np.testing.assert_array_equal(places, wanted)
    np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, 1))


@pytest.mark.parametrize("count", [-1, 0, 6])
def test_how_many_are_the_largest(count: int, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((2, 5, 3)).astype("float32")
    if count:
        with pytest.raises(ModelError, match=f"^TopK takes {count} of 5 elements"):
            _run(tmp_path / "m.onnx", x, "TopK", [count], outputs=2, axis=1)
        return
    values, places = _run(tmp_path / "m.onnx", x, "TopK", [count], outputs=2, axis=1)
    assert values.shape == places.shape == (2, 0, 3)


def test_truths_that_are_one_hot_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"^OneHot chooses among truths, which is not supported"):
        _run(tmp_path / "m.onnx", np.arange(3), "OneHot", [4], np.array([True, False]), axis=0)


def test_rows_are_not_written_before_the_begin_of_a_cache(tmp_path: Path) -> None:
    """Places would count from its end."""
    node = Node(
        "TensorScatter",
        [numbers(1, 6, 4), numbers(1, 2, 4), np.array([-1])],
        domain="",
        opset=24,
    )
    with pytest.raises(IndexError, match="must be from 0 to 5, got -1"):
        compiled(tmp_path, node)


def test_limits_that_are_no_half_precision_numbers(tmp_path: Path) -> None:
    """The numbers on both sides of a limit are half precision; the limit and the bias are not."""
    x = np.arange(0x3400, 0x3440, dtype="uint16").view("float16")  # from 0.25 on
    x = np.concatenate([x, -x])
    limit = {"lambd": float(x[5]) - 1e-5, "bias": 0.1}
    y = _run(tmp_path / "m.onnx", x, "Shrink", **limit)
    (wanted,) = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(None, {"x": x})
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("size", range(6, 14))
def test_strides_beyond_their_window(tmp_path: Path, auto_pad: str, size: int) -> None:
    """ONNX Runtime takes other elements than ONNX's definition where two or more are left over."""
    x = np.arange(1, size + 1, dtype="float32").reshape(1, 1, size, 1)
    about = {"auto_pad": auto_pad, "strides": [4, 1]}
    weight = np.ones((1, 1, 1, 1), "float32")
    if -size % 4 < 2:
        with pytest.raises(ModelError, match="a stride of 4 beyond its window of 1"):
            _run(tmp_path / "m.onnx", x, "Conv", weight, **about)
        return
    y = _run(tmp_path / "m.onnx", x, "Conv", weight, **about)
    (wanted,) = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(None, {"x": x})
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize(
    ("dtype", "error"), [("float32", 3e-7), ("float64", 1e-15), ("float16", 3e-3)]
)
def test_mish_of_all_numbers(tmp_path: Path, dtype: str, error: float) -> None:
    ends = [0.0, -0.0, 1e-4, 100.0, -100.0, 3e4, -3e4]
    x = np.concatenate([np.linspace(-15, 30, 500), ends]).astype(dtype)
    wide = x.astype("float64")
    wanted = wide * np.tanh(np.logaddexp(0.0, wide))
    y = _run(tmp_path / "m.onnx", x, "Mish")
    np.testing.assert_allclose(y.astype("float64"), wanted, rtol=error, atol=1e-5 * error)
