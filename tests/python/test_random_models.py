# SPDX-License-Identifier: Apache-2.0
"""Random ONNX models: whatever the geometry, results are those of ONNX Runtime.

A model has many small branches, so that one compilation covers many shapes: odd channels,
asymmetric padding, strides, dilation, groups, batches, pooling that counts its padding or not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper

from support import NATIVE, assert_close, compile_plain, few_stages, many_stages, run_vm
from tvm_ios.models import load_model
from tvm_ios.transform import InterOperatorSchedule

BRANCHES = 16
SEEDS = range(13)  # 208 convolutions and poolings, each followed by something

AVX2 = tvm.target.Target({"kind": "llvm", "mcpu": "haswell", "num-cores": 2})


@dataclass
class Model:
    """A random ONNX model; ``shapes`` are those of all values."""

    random: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def pick(self, *options):
        return options[self.random.integers(len(options))]

    def constant(self, *shape: int, scale: float = 1.0) -> str:
        name = f"w{len(self.weights)}"
        values = (scale * self.random.standard_normal(shape)).astype("float32")
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def add(self, kind: str, inputs: list[str], shape: tuple[int, ...], **attributes) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        self.shapes[name] = shape
        return name

    def window(self, size: tuple[int, int], dilated: bool) -> dict[str, list[int]]:
        """Kernel, strides, padding and dilation that leave at least one output a row."""
        kernel = [int(self.random.integers(1, min(5, s) + 1)) for s in size]
        largest = [(s - 1) // (k - 1) if k > 1 else 1 for s, k in zip(size, kernel, strict=True)]
        dilations = [self.pick(1, 1, 2) if dilated and m >= 2 else 1 for m in largest]
        pads = [int(self.random.integers(0, k)) for k in kernel * 2]
        strides = [self.pick(1, 1, 2, 3) for _ in size]
        window = {"kernel_shape": kernel, "strides": strides, "pads": pads}
        return {**window, "dilations": dilations} if dilated else window

    def conv(self, x: str) -> str:
        n, c, *size = self.shapes[x]
        window = self.window(tuple(size), dilated=True)
        groups = self.pick(1, 1, *(g for g in range(1, c + 1) if c % g == 0))
        k = groups * int(self.random.integers(1, max(2, 40 // groups)))
        weights = self.constant(k, c // groups, *window["kernel_shape"], scale=0.3)
        bias = [self.constant(k)] if self.pick(True, False) else []
        shape = (n, k, *_sizes(size, window))
        return self.add("Conv", [x, weights, *bias], shape, group=groups, **window)

    def pool(self, x: str) -> str:
        n, c, *size = self.shapes[x]
        window = self.window(tuple(size), dilated=False)
        if self.pick(True, False):
            ceil = int(self.pick(0, 1))
            shape = (n, c, *_sizes(size, window, ceil=bool(ceil)))
            return self.add("MaxPool", [x], shape, ceil_mode=ceil, **window)
        shape = (n, c, *_sizes(size, window))
        counted = int(self.pick(0, 1))
        return self.add("AveragePool", [x], shape, count_include_pad=counted, **window)

    def rest(self, x: str) -> str:
        """Something that follows a convolution, or does not."""
        shape = self.shapes[x]
        choice = self.random.integers(6)
        if choice == 0:
            return self.add("Relu", [x], shape)
        if choice == 1:
            return self.add("Sigmoid", [x], shape)
        if choice == 2:
            other = self.add("Relu", [x], shape)
            return self.add("Add", [x, other], shape)
        if choice == 3:
            other = self.add("Mul", [x, self.constant(1, shape[1], 1, 1)], shape)
            total = (shape[0], 2 * shape[1], *shape[2:])
            return self.add("Concat", [x, other], total, axis=1)
        if choice == 4:
            return self.add("GlobalAveragePool", [x], (*shape[:2], 1, 1))
        return x


def _sizes(size: list[int], window: dict[str, list[int]], ceil: bool = False) -> list[int]:
    result = []
    for axis, length in enumerate(size):
        dilation = window.get("dilations", [1, 1])[axis]
        reach = (window["kernel_shape"][axis] - 1) * dilation + 1
        padded = length + window["pads"][axis] + window["pads"][axis + 2]
        stride = window["strides"][axis]
        steps = (padded - reach) / stride
        out = (math.ceil(steps) if ceil else math.floor(steps)) + 1
        if ceil and (out - 1) * stride >= length + window["pads"][axis]:
            out -= 1  # a window that begins in the padding behind is left out
        result.append(out)
    return result


def random_model(seed: int) -> onnx.ModelProto:
    """Branches of one or two operators, each on any value before it."""
    model = Model(np.random.default_rng(seed))
    shape = (model.pick(1, 1, 2, 3), model.pick(3, 8, 17, 32), *model.random.integers(5, 14, 2))
    model.shapes["x"] = tuple(int(s) for s in shape)
    values, results = ["x"], []
    for _ in range(BRANCHES):
        source = values[model.random.integers(len(values))]
        made = model.rest(model.pick(model.conv, model.conv, model.pool)(source))
        values.append(made)
        results.append(made)
    info = lambda name: helper.make_tensor_value_info(  # noqa: E731
        name, TensorProto.FLOAT, model.shapes[name]
    )
    graph = helper.make_graph(
        model.nodes, "random", [info("x")], list(map(info, results)), model.weights
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("seed", SEEDS)
def test_results_are_those_of_onnx_runtime(seed: int, tmp_path: Path) -> None:
    path, target = tmp_path / "model.onnx", AVX2 if seed % 4 == 3 else NATIVE
    onnx.save(random_model(seed), path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    shape = session.get_inputs()[0].shape
    x = np.random.default_rng(seed).standard_normal(shape).astype("float32")
    expected = session.run(None, {"x": x})
    cost_model = few_stages if seed % 2 else many_stages
    scheduled = InterOperatorSchedule(target, cost_model=cost_model)(load_model(str(path)))
    actual = run_vm(compile_plain(scheduled, target), [x])
    for one, other in zip(actual, expected, strict=True):
        assert_close(one, other)
