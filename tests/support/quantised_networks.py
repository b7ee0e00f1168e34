# SPDX-License-Identifier: Apache-2.0
"""Small networks of real kinds for ONNX Runtime's quantisers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int, ...]


class Network:
    """A writer of a network in ONNX, whose input is ``x``."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []

    def constant(self, value: Any) -> str:
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weights(self, *shape: int, deviation: float) -> str:
        return self.constant((deviation * self._random.standard_normal(shape)).astype("float32"))

    def __call__(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self._nodes)}"
        node = helper.make_node(kind, list(inputs), [name], name=name, **attributes)
        self._nodes.append(node)
        return name

    def conv(
        self, x: str, channels: int, results: int, kernel: int = 3, groups: int = 1, stride: int = 1
    ) -> str:
        shape = (results, channels // groups, kernel, kernel)
        parts = [self.weights(*shape, deviation=float(np.prod(shape[1:])) ** -0.5)]
        parts.append(self.weights(results, deviation=0.1))
        about = {"pads": [kernel // 2] * 4, "strides": [stride] * 2, "kernel_shape": [kernel] * 2}
        return self("Conv", x, *parts, group=groups, **about)

    def dense(self, x: str, depth: int, columns: int) -> str:
        product = self("MatMul", x, self.weights(depth, columns, deviation=depth**-0.5))
        return self("Add", product, self.weights(columns, deviation=0.1))

    def save(self, path: Path, shape: Shape, result: str) -> Shape:
        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        found = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
        graph = helper.make_graph(self._nodes, "network", [given], [found], self._weights)
        opsets = [helper.make_opsetid("", 21)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        onnx.save(onnx.shape_inference.infer_shapes(model), path)
        return shape


def convolutional(path: Path, size: int = 18, width: int = 16) -> Shape:
    """Convolutions, also by channel, a residual sum, a concatenation, poolings, and a gate."""
    emit, shape = Network(), (1, 3, size, size)
    x = emit("Relu", emit.conv("x", 3, width, stride=2))
    inner = emit("Relu", emit.conv(x, width, width))
    x = emit("HardSwish", emit("Add", x, emit.conv(inner, width, width)))
    limits = emit.constant(np.float32(0)), emit.constant(np.float32(6))
    deep = emit("Clip", emit.conv(x, width, width, groups=width), *limits)
    x = emit("Concat", emit.conv(deep, width, width, 1), x, axis=1)
    x = emit("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    mean = emit("GlobalAveragePool", x)
    x = emit("Mul", x, emit("Sigmoid", emit.conv(mean, 2 * width, 2 * width, 1)))
    x = emit("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = emit("LeakyRelu", emit.conv(x, 2 * width, 2 * width), alpha=0.1)
    x = emit("Flatten", emit("GlobalAveragePool", x))
    parts = emit.weights(2 * width, 10, deviation=0.2), emit.weights(10, deviation=0.1)
    return emit.save(path, shape, emit("Softmax", emit("Gemm", x, *parts), axis=-1))


def layers(path: Path, depth: int = 48) -> Shape:
    """Three layers of all neurons."""
    emit, x = Network(), "x"
    for last in (False, False, True):
        x = emit.dense(x, depth, depth)
        x = x if last else emit("Relu", x)
    return emit.save(path, (4, depth), x)


def encoder(path: Path, length: int = 10, width: int = 32, heads: int = 4) -> Shape:
    """A layer of attention and one of two products, each with a sum and a normalisation."""
    emit = Network()
    each, shape = width // heads, (1, length, width)

    def normalised(x: str) -> str:
        ones, zeros = np.ones(width, "float32"), np.zeros(width, "float32")
        parts = emit.constant(ones), emit.constant(zeros)
        return emit("LayerNormalization", x, *parts, axis=-1)

    def by_heads(x: str, *order: int) -> str:
        split = emit.constant(np.array([1, length, heads, each]))
        return emit("Transpose", emit("Reshape", emit.dense(x, width, width), split), perm=order)

    query, value = by_heads("x", 0, 2, 1, 3), by_heads("x", 0, 2, 1, 3)
    scores = emit("MatMul", query, by_heads("x", 0, 2, 3, 1))
    scores = emit("Div", scores, emit.constant(np.float32(each**0.5)))
    found = emit("MatMul", emit("Softmax", scores, axis=-1), value)
    rows = emit("Transpose", found, perm=[0, 2, 1, 3])
    rows = emit("Reshape", rows, emit.constant(np.array(shape)))
    x = normalised(emit("Add", "x", emit.dense(rows, width, width)))
    inner = emit("Gelu", emit.dense(x, width, 2 * width))
    return emit.save(path, shape, normalised(emit("Add", x, emit.dense(inner, 2 * width, width))))


def recurrent(path: Path, steps: int = 7, inputs: int = 12, hidden: int = 16) -> Shape:
    """A recurrent layer, and a product of its states."""
    emit = Network()
    weights = (emit.weights(1, 4 * hidden, n, deviation=n**-0.5) for n in (inputs, hidden))
    biases = emit.weights(1, 8 * hidden, deviation=0.1)
    states = emit("LSTM", "x", *weights, biases, hidden_size=hidden)
    states = emit("Squeeze", states, emit.constant(np.array([1])))
    return emit.save(path, (steps, 2, inputs), emit.dense(states, hidden, 8))


NETWORKS: dict[str, Callable[[Path], Shape]] = {
    "convolutional": convolutional,
    "layers": layers,
    "encoder": encoder,
    "recurrent": recurrent,
}
