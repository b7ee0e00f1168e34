# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions by constant weights are ordinary ones, in any geometry."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import tvm_ios
from support.open_networks import assert_any_shape, save, weight
from tvm_ios.frontend.models import load_model
from tvm_ios.relax_ir.functions import bindings_of
from tvm_ios.rewrite.prepare import prepare


def _network(path: Path, seed: int) -> tuple[Path, tuple[int, ...]]:
    """Write a transposed convolution of random geometry, a scale of its channels and a Relu."""
    random = np.random.default_rng(seed)
    axes = int(random.integers(1, 3))
    while True:  # some have no result
        kernel, strides = random.integers(1, 7, axes), random.integers(1, 5, axes)
        sizes, pads = random.integers(1, 9, axes), random.integers(0, 3, 2 * axes)
        more = np.array([random.integers(0, s) for s in strides])
        result = (sizes - 1) * strides + kernel - pads[:axes] - pads[axes:] + more
        if (result > 0).all():
            break
    channels, results = random.integers(1, 20, 2).tolist()
    shape = (int(random.integers(1, 3)), channels, *sizes.tolist())
    attributes = {
        "strides": strides.tolist(),
        "pads": pads.tolist(),
        "output_padding": more.tolist(),
    }
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w", "b"], ["t"], **attributes),
        helper.make_node("Mul", ["t", "scale"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    weights = [
        weight("w", channels, results, *kernel.tolist()), weight("b", results),
        weight("scale", results, *[1] * axes),
    ]  # fmt: skip
    return save(path, nodes, {"x": shape}, ["y"], weights), shape


@pytest.mark.parametrize("seed", range(40))
def test_any_geometry(tmp_path: Path, seed: int) -> None:
    path, shape = _network(tmp_path / "m.onnx", seed)
    x = np.random.default_rng(seed).standard_normal(shape).astype("float32")
    (wanted,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    model = tvm_ios.compile(path, search=False, threads=1 + seed % 2)
    np.testing.assert_allclose(model(x), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("axes", [1, 2])
def test_where_it_stays_one(tmp_path: Path, axes: int, transposed: bool) -> None:
    """On back ends that have it as one operator."""
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2] * axes)
    path = save(
        tmp_path / "m.onnx",
        [node],
        {"x": [1, 4, *[5] * axes]},
        ["y"],
        [weight("w", 4, 3, *[2] * axes)],
    )
    prepared = prepare(load_model(str(path)), transposed=transposed)
    calls = [str(getattr(v, "op", "")) for v in bindings_of(prepared["main"]).values()]
    assert any("transpose" in name and "conv" in name for name in calls) == transposed


def test_pads_that_leave_no_result_of_small_sizes(tmp_path: Path) -> None:
    """The part that remains ends at ``3n - 7``, which is not negative where there is a result."""
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[3, 2], pads=[8, 1, 8, 1])
    shape = [1, 3, "h", "w"]
    path = save(tmp_path / "m.onnx", [node], {"x": shape}, ["y"], [weight("w", 3, 2, 4, 2)])
    assert_any_shape(path, [[(1, 3, 6, 5)], [(1, 3, 11, 4)]])
