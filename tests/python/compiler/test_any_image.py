# SPDX-License-Identifier: Apache-2.0
"""Networks of feature maps whose batch, height and width are open, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

import tvm_ios
import tvm_ios.backend.cpu.kernels.winograd.open_model as open_model
from support.open_networks import assert_any_shape, save, weight
from tvm_ios.backend.cpu.kernels.winograd.open_model import Threshold

_SIZES = [(1, 1, 1), (2, 3, 2), (1, 7, 7), (3, 5, 33), (1, 40, 17), (2, 64, 64), (1, 2, 200)]
_CHANNELS = 32


class Maps:
    """A network whose input has open sizes, and 32 channels."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def held(self, tensor: TensorProto) -> str:
        tensor.name = f"w{len(self.weights)}"
        self.weights.append(tensor)
        return tensor.name

    def conv(self, x: str, channels: int, size: int, inputs: int = _CHANNELS, **others: Any) -> str:
        group, dilation = others.get("group", 1), others.get("dilations", [1, 1])[0]
        others.setdefault("pads", [size // 2 * dilation] * 4)
        taps = weight("w", channels, inputs // group, size, size, scale=(inputs * size) ** -0.5)
        return self.add("Conv", x, self.held(taps), self.held(weight("b", channels)), **others)

    def blocked(self) -> str:
        """Return the input's channels, mixed, as convolutions store them."""
        return self.add("Relu", self.conv("x", _CHANNELS, 1))

    def per_channel(self, kind: str, x: str, **attributes: Any) -> str:
        factors = (self.held(weight(n, _CHANNELS)) for n in ("gamma", "beta"))
        return self.add(kind, x, *factors, **attributes)


def _pool(kind: str, size: int = 3, **attributes: Any) -> Callable[[Maps], str]:
    taps = {"kernel_shape": [size, size], **attributes}
    return lambda m: m.add(kind, m.blocked(), **taps)


def _conv(channels: int, size: int, **attributes: Any) -> Callable[[Maps], str]:
    return lambda m: m.add("Relu", m.conv(m.blocked(), channels, size, **attributes))


def _residual(m: Maps) -> str:
    x = m.blocked()
    return m.add("Relu", m.add("Add", m.conv(x, _CHANNELS, 3), x))


def _strided_residual(m: Maps) -> str:
    x = m.blocked()
    twice = {"strides": [2, 2]}
    return m.add("Add", m.conv(x, 48, 3, **twice), m.conv(x, 48, 1, **twice))


def _silu(m: Maps) -> str:
    x = m.conv(m.blocked(), 70, 1)
    return m.add("Mul", x, m.add("Sigmoid", x))


def _hard_swish(m: Maps) -> str:
    return m.add("HardSwish", m.conv("x", 24, 3, strides=[2, 2]))


def _parts(m: Maps) -> str:
    x = m.blocked()
    parts = [x, m.conv(x, 24, 3), m.conv(x, 20, 1)]
    return m.conv(m.add("Concat", *parts, axis=1), 16, 1, inputs=76)


def _gated(m: Maps) -> str:
    x = m.blocked()
    gate = m.add("Sigmoid", m.conv(m.add("GlobalAveragePool", x), _CHANNELS, 1))
    return m.add("Mul", x, gate)


def _of_pixels(m: Maps) -> str:
    rows = m.add("Transpose", m.blocked(), perm=[0, 2, 3, 1])
    normal = m.per_channel("LayerNormalization", rows, axis=-1)
    return m.conv(m.add("Transpose", normal, perm=[0, 3, 1, 2]), 16, 1)


def _transposed(size: int, **attributes: Any) -> Callable[[Maps], str]:
    def build(m: Maps) -> str:
        taps = m.held(weight("w", _CHANNELS, 16, size, size, scale=0.1))
        return m.add("ConvTranspose", m.blocked(), taps, m.held(weight("b", 16)), **attributes)

    return build


_NETWORKS: dict[str, Callable[[Maps], str]] = {
    "row-major 1x1": lambda m: m.conv("x", 20, 1),
    "row-major 3x3": lambda m: m.conv("x", 20, 3),
    "1x1": _silu,
    "3x3": _conv(48, 3),
    "5x5": _conv(40, 5),
    "3x3 of stride 2": _hard_swish,
    "3x3 dilated": _conv(48, 3, dilations=[2, 2]),
    "3x3 of groups": _conv(64, 3, group=2),
    "3x3 of narrow groups": _conv(_CHANNELS, 3, group=8),
    "depthwise": _conv(_CHANNELS, 3, group=_CHANNELS),
    "depthwise of stride 2": _conv(_CHANNELS, 5, group=_CHANNELS, strides=[2, 2]),
    "residual": _residual,
    "strided residual": _strided_residual,
    "maximum": _pool("MaxPool", strides=[2, 2], pads=[1] * 4),
    "mean": _pool("AveragePool", pads=[1] * 4),
    "mean with padding": _pool("AveragePool", pads=[1] * 4, strides=[2, 2], count_include_pad=1),
    "transposed": _transposed(2, strides=[2, 2]),
    "transposed with padding": _transposed(4, strides=[2, 2], pads=[1] * 4),
    "transposed beyond": _transposed(3, strides=[2, 2], pads=[1] * 4, output_padding=[1, 1]),
    "transposed by unequal strides": _transposed(5, strides=[3, 1], pads=[1, 0, 2, 1]),
    "parts": _parts,
    "gated": _gated,
    "instances": lambda m: m.per_channel("InstanceNormalization", m.blocked()),
    "groups": lambda m: m.per_channel("GroupNormalization", m.blocked(), num_groups=4),
    "pixels": _of_pixels,
}


def _saved(path: Path, build: Callable[[Maps], str]) -> Path:
    maps = Maps()
    result = build(maps)
    return save(path, maps.nodes, {"x": ["N", _CHANNELS, "H", "W"]}, [result], maps.weights)


def _calls(sizes: Sequence[tuple[int, int, int]], channels: int = _CHANNELS) -> list[list[Any]]:
    return [[(n, channels, h, w)] for n, h, w in sizes]


@pytest.mark.parametrize("name", _NETWORKS)
def test_maps(tmp_path: Path, name: str) -> None:
    path = _saved(tmp_path / "m.onnx", _NETWORKS[name])
    assert_any_shape(path, _calls(_SIZES), threads=1 + len(name) % 2)


@pytest.mark.parametrize("build", [_conv(40, 3, pads=[0] * 4), _pool("MaxPool")])
def test_windows_inside(tmp_path: Path, build: Callable[[Maps], str]) -> None:
    sizes = [(1, 3, 3), (2, 5, 4), (1, 17, 40), (3, 33, 9)]
    assert_any_shape(_saved(tmp_path / "m.onnx", build), _calls(sizes))


@pytest.mark.parametrize(("size", "stride", "pad"), [(7, 2, 3), (11, 4, 2)])
def test_images_that_fold(tmp_path: Path, size: int, stride: int, pad: int) -> None:
    taps = numpy_helper.from_array(
        np.random.default_rng(0).standard_normal((40, 3, size, size)).astype("float32") / size, "w"
    )
    conv = helper.make_node("Conv", ["x", "w"], ["y"], strides=[stride] * 2, pads=[pad] * 4)
    path = save(tmp_path / "m.onnx", [conv], {"x": ["N", 3, "H", "W"]}, ["y"], [taps])
    sizes = [(1, 64, 64), (2, 33, 47), (3, 97, 65), (1, 11, 13), (1, 10, 500), (2, 17, 9)]
    assert_any_shape(path, _calls(sizes, 3))


def test_one_of_two_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small maps are computed directly, large ones by Winograd's algorithm."""
    threshold = Threshold(per_tile=16.0, fetch=500.0, per_pixel=4.0, least=0.0)
    monkeypatch.setattr(open_model, "_threshold", lambda *_: threshold)
    monkeypatch.setattr(open_model, "_pays", lambda example, *_: example.rows.out > 100)
    open_model._choose.cache_clear()
    path = _saved(tmp_path / "m.onnx", _residual)
    assert_any_shape(path, _calls(_SIZES))
    open_model._choose.cache_clear()


def test_one_open_axis(tmp_path: Path) -> None:
    maps = Maps()
    result = _residual(maps)
    for shape in (["N", 32, 9, 14], [1, 32, "H", 14], [2, 32, 9, "W"]):
        path = save(tmp_path / "m.onnx", maps.nodes, {"x": shape}, [result], maps.weights)
        calls = [[tuple(size if isinstance(d, str) else d for d in shape)] for size in (1, 3, 20)]
        assert_any_shape(path, calls)


def test_lengths(tmp_path: Path) -> None:
    taps = [weight("w1", 24, 8, 5), weight("w2", 24, 1, 3)]
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], strides=[2], pads=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w2"], ["y"], pads=[1, 1], group=24),
    ]
    path = save(tmp_path / "m.onnx", nodes, {"x": ["N", 8, "L"]}, ["y"], taps)
    assert_any_shape(path, [[(1, 8, 1)], [(2, 8, 7)], [(3, 8, 100)], [(1, 8, 1001)]])


def test_a_window_larger_than_its_image(tmp_path: Path) -> None:
    path = _saved(tmp_path / "m.onnx", _pool("MaxPool"))
    model = assert_any_shape(path, _calls([(1, 3, 3)]))
    with pytest.raises(ValueError, match="3 <= H"):
        model(np.zeros((1, _CHANNELS, 2, 5), "float32"))


def test_half_precision_multiplies_float32(tmp_path: Path) -> None:
    path = _saved(tmp_path / "m.onnx", _residual)
    x = np.random.default_rng(0).standard_normal((2, _CHANNELS, 9, 14)).astype("float32")
    found = tvm_ios.compile(path, search=False, threads=1, precision="bf16")(x)
    wanted = tvm_ios.compile(path, search=False, threads=1)(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
