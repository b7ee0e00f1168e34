# SPDX-License-Identifier: Apache-2.0
"""Quantised networks whose sizes are open, of which the padding is no zero byte."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper

from support.open_networks import assert_any_shape, numbers, save

node = helper.make_node


def _network(
    path: Path,
    channels: int,
    zero: int,
    pads: list[int],
    *,
    beside: NodeProto | None = None,
    constants: Sequence[TensorProto] = (),
    **attributes: object,
) -> Path:
    """Write a convolution of bytes whose height and width are open, and what reads them, too."""
    random = np.random.default_rng(channels)
    integers = random.integers(-60, 61, (16, channels, 3, 3))
    integers[:, 0, 0, 0] = 127
    nodes = [
        node("QuantizeLinear", ["x", "step", "zero"], ["bytes"]),
        node("DequantizeLinear", ["bytes", "step", "zero"], ["values"]),
        node("DequantizeLinear", ["integers", "scale"], ["weights"]),
        node("Conv", ["values", "weights"], ["sums"], pads=pads, **attributes),
        node("Relu", ["sums"], ["y"]),
    ]
    weights = [
        numbers("step", 0.05, "float32"), numbers("zero", zero, "int8"),
        numbers("integers", integers, "int8"), numbers("scale", 0.01, "float32"),
    ]  # fmt: skip
    results = ["y"]
    if beside is not None:
        nodes.append(beside)
        results.append("z")
    inputs = {"x": ["n", channels, "h", "w"]}
    return save(path, nodes, inputs, results, [*weights, *constants])


@pytest.mark.parametrize("channels", [3, 16, 20])
@pytest.mark.parametrize("zero", [-128, -83, 0, 127])
def test_padding(tmp_path: Path, channels: int, zero: int) -> None:
    path = _network(tmp_path / "m.onnx", channels, zero, [1, 1, 1, 1])
    shapes = [(1, channels, 3, 3), (2, channels, 5, 18), (1, channels, 9, 1), (3, channels, 1, 40)]
    assert_any_shape(path, [[shape] for shape in shapes])


def test_padding_of_one_side(tmp_path: Path) -> None:
    path = _network(tmp_path / "m.onnx", 16, -83, [0, 2, 1, 3], strides=[2, 1], dilations=[1, 2])
    assert_any_shape(path, [[(1, 16, h, w)] for h, w in ((4, 5), (9, 33), (16, 2))])


_READERS = {
    "one pixel": {"kernel_shape": [1, 1]},
    "rows": {"kernel_shape": [1, 7], "pads": [0, 3, 0, 3]},
    "windows": {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
    "strides": {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]},
}


@pytest.mark.parametrize("reader", _READERS.values(), ids=_READERS)
@pytest.mark.parametrize("channels", [3, 16])
@pytest.mark.parametrize("groups", [1, "channels"])
def test_readers_in_float(
    tmp_path: Path, channels: int, reader: dict[str, list[int]], groups: int | str
) -> None:
    """A value that one convolution reads as bytes is one of float32 to another."""
    count = channels if groups == "channels" else 1
    random = np.random.default_rng(channels)
    shape = (2 * channels, channels // count, *reader["kernel_shape"])
    path = _network(
        tmp_path / "m.onnx",
        channels,
        -83,
        [1, 1, 1, 1],
        beside=node("Conv", ["values", "factors"], ["z"], group=count, **reader),
        constants=[numbers("factors", random.standard_normal(shape), "float32")],
    )
    assert_any_shape(path, [[(1, channels, 7, 8)], [(3, channels, 4, 17)], [(2, channels, 9, 1)]])
