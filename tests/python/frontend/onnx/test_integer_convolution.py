# SPDX-License-Identifier: Apache-2.0
"""Convolutions of 8-bit integers, compared with sums of 64-bit integers: all digits are equal."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvm_ios
from support.networks import NATIVE
from tvm_ios.backend.cpu.kernels.conv.shape import Conv2d
from tvm_ios.backend.cpu.kernels.winograd.model import tile_sizes
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.frontend.models import load_model
from tvm_ios.ops.window import Window


@dataclass(frozen=True)
class Case:
    """A convolution of what has ``shape``; ``zeros`` are the zero points of data and weights."""

    shape: tuple[int, ...]
    weights: tuple[int, ...]
    types: tuple[str, str] = ("uint8", "int8")
    zeros: tuple[Any, Any] = (None, None)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    extreme: bool = False


CASES = {
    "plain": Case((1, 5, 7, 8), (4, 5, 3, 3)),
    "zero points": Case(
        (2, 5, 9, 8), (6, 5, 3, 2), zeros=(131, -3), attributes={"pads": [1, 0, 2, 1]}
    ),
    "a zero point for each channel": Case(
        (1, 19, 6, 5), (33, 19, 1, 1), ("int8", "uint8"), (-7, np.arange(100, 133))
    ),
    "groups": Case(
        (1, 6, 9, 8),
        (4, 3, 2, 3),
        zeros=(3, None),
        attributes={"group": 2, "strides": [2, 1], "dilations": [1, 2], "pads": [0, 2, 1, 1]},
    ),
    "each channel alone": Case(
        (1, 20, 9, 8), (20, 1, 3, 3), zeros=(128, 2), attributes={"group": 20, "pads": [1] * 4}
    ),
    "one axis": Case((2, 7, 23), (5, 7, 4), zeros=(9, 1), attributes={"pads": [2, 1]}),
    "three axes": Case((1, 3, 5, 6, 7), (4, 3, 2, 3, 2), zeros=(9, 1)),
    "sums beyond float32": Case(
        (1, 150, 6, 6), (9, 150, 3, 3), zeros=(0, None), attributes={"pads": [1] * 4}, extreme=True
    ),
    "long sums": Case((1, 1500, 4, 3), (5, 1500, 1, 1), ("uint8", "uint8"), extreme=True),
    "large windows": Case((1, 1, 40, 41), (2, 1, 21, 20), ("uint8", "uint8"), extreme=True),
    "sums of a group beyond float32": Case(
        (1, 300, 5, 5), (4, 150, 2, 2), ("uint8", "uint8"), attributes={"group": 2}, extreme=True
    ),
}


def numbers(shape: tuple[int, ...], dtype: str, extreme: bool, seed: int) -> np.ndarray:
    """Random integers, or the largest of a type with some that differ."""
    rng, limits = np.random.default_rng(seed), np.iinfo(dtype)
    if extreme:
        return (limits.max - (rng.random(shape) < 0.05)).astype(dtype)
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


def expected(case: Case, data: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The convolution, window by window."""
    zeros = [np.zeros(1, "int64") if z is None else np.atleast_1d(z) for z in case.zeros]
    x = data.astype("int64") - zeros[0]
    w = weights.astype("int64") - zeros[1].reshape(-1, *(1,) * (weights.ndim - 1))
    rank, group = data.ndim - 2, case.attributes.get("group", 1)
    pads = case.attributes.get("pads", [0] * 2 * rank)
    steps = case.attributes.get("strides", [1] * rank)
    holes = case.attributes.get("dilations", [1] * rank)
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)])
    extents = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], holes, strict=True)]
    counts = [(n - e) // s + 1 for n, e, s in zip(x.shape[2:], extents, steps, strict=True)]
    result = np.zeros((len(x), len(w), *counts), "int64")
    for output, place in itertools.product(range(len(w)), np.ndindex(*counts)):
        first = output // (len(w) // group) * w.shape[1]
        window = [
            slice(p * s, p * s + e, d)
            for p, s, e, d in zip(place, steps, extents, holes, strict=True)
        ]
        seen = x[(slice(None), slice(first, first + w.shape[1]), *window)]
        axes = range(1, seen.ndim)
        sums = np.tensordot(seen, w[output], (axes, range(w.ndim - 1)))
        result[(slice(None), output, *place)] = sums
    return result.astype("int32")


def write(path: Path, case: Case, given: Mapping[str, np.ndarray], known: set[str]) -> None:
    """Write the model; what is ``known`` is constant."""
    names = [name if name in given else "" for name in ("x", "w", "xz", "wz")]
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in given.items()
        if name not in known
    ]
    graph = helper.make_graph(
        [helper.make_node("ConvInteger", names, ["y"], **case.attributes)],
        "g",
        inputs,
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(given[name], name) for name in known & given.keys()],
    )
    opsets = [helper.make_opsetid("", 10)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)


def tensors(case: Case) -> dict[str, np.ndarray]:
    found = {
        "x": numbers(case.shape, case.types[0], case.extreme, 0),
        "w": numbers(case.weights, case.types[1], case.extreme, 1),
    }
    for name, zero, dtype in zip(("xz", "wz"), case.zeros, case.types, strict=True):
        if zero is not None:
            found[name] = np.array(zero, dtype)
    return found


@pytest.mark.parametrize(
    "known", [("w", "xz", "wz"), ("w", "wz"), ()], ids=["all", "weights", "none"]
)
@pytest.mark.parametrize("name", CASES)
def test_sums_are_exact(name: str, known: tuple[str, ...], tmp_path: Path) -> None:
    """With zero points, and weights, that are constant or are not."""
    case, path = CASES[name], tmp_path / "model.onnx"
    given = tensors(case)
    write(path, case, given, set(known))
    inputs = [value for key, value in given.items() if key not in known]
    result = tvm_ios.compile(path, search=False, threads=1)(*inputs)
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, expected(case, given["x"], given["w"]))


def test_which_kernel_sums(tmp_path: Path) -> None:
    """One for bytes where the core has it, and never Winograd's algorithm, which rounds."""
    case, path = Case((1, 32, 12, 12), (32, 32, 3, 3), zeros=(128, None)), tmp_path / "model.onnx"
    write(path, case, tensors(case), {"w", "xz"})
    lowered = Scheduler.prepare(load_model(str(path)), NATIVE).stage_builder.lowered
    kernels = [made.kernel for made in lowered.implementations if made is not None]
    (found,) = (kernel for kernel in kernels if kernel.name == "conv2d")
    if lowered.config.int8:
        assert found.variant == "int8"
        assert "uint8" in {spec.dtype for spec in found.inputs}
    window = Window(28, 28, 3, 1, 1)
    summed = next(op for op in lowered.graph.operators if op.kind == "conv2d")
    conv = Conv2d(1, 64, window, window, (64,))
    assert tile_sizes(conv)
    assert not tile_sizes(replace(conv, epilogue=summed.epilogue))
