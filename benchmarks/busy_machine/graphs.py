# SPDX-License-Identifier: Apache-2.0
"""Networks of small operators, as ONNX models with random weights.

They are of kinds that serve requests one by one: each operator takes a few microseconds, so that
launches, waits and wake-ups are a large share of a call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_OPSET, _IR = 17, 8


class _Graph:
    """A graph under construction; values are named by the order in which they were added."""

    def __init__(self, name: str) -> None:
        self._name, self._random = name, np.random.default_rng(0)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, shape: Sequence[int], kind: int = TensorProto.FLOAT) -> str:
        self._inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, value: str, shape: Sequence[int]) -> None:
        self._outputs.append(helper.make_tensor_value_info(value, TensorProto.FLOAT, shape))

    def constant(self, array: np.ndarray) -> str:
        name = f"c{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, *shape: int) -> str:
        """Add a weight that keeps the variance of what it is multiplied with."""
        inner = int(np.prod(shape[1:])) if len(shape) > 2 else shape[0]
        array = self._random.standard_normal(shape) / np.sqrt(inner)
        return self.constant(array.astype("float32"))

    def add(self, kind: str, *inputs: str, **attributes: object) -> str:
        """Add an operator and return its output."""
        return self.split(kind, 1, *inputs, **attributes)[0]

    def split(self, kind: str, count: int, *inputs: str, **attributes: object) -> list[str]:
        """Add an operator and return its outputs."""
        outputs = [f"v{len(self._nodes)}_{i}" for i in range(count)]
        self._nodes.append(helper.make_node(kind, inputs, outputs, **attributes))
        return outputs

    def dense(self, x: str, rows: int, columns: int, *activations: str) -> str:
        """Add a matrix product with a bias, and what follows it."""
        bias = self.constant(self._random.standard_normal(columns).astype("float32"))
        x = self.add("Gemm", x, self.weight(rows, columns), bias)
        for activation in activations:
            x = self.add(activation, x)
        return x

    def reshape(self, x: str, *shape: int) -> str:
        return self.add("Reshape", x, self.constant(np.array(shape, "int64")))

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(
            self._nodes, self._name, self._inputs, self._outputs, self._weights
        )
        opset = [helper.make_opsetid("", _OPSET)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=_IR)
        onnx.checker.check_model(model)
        return model


def mlp() -> onnx.ModelProto:
    """Five operators: three matrix products."""
    net = _Graph("mlp")
    x = net.input("x", [1, 256])
    x = net.dense(x, 256, 512, "Relu")
    x = net.dense(x, 512, 512, "Relu")
    net.output(net.dense(x, 512, 64), [1, 64])
    return net.model()


def lstm_cell() -> onnx.ModelProto:
    """One step of an LSTM (Hochreiter and Schmidhuber, 1997) operator by operator."""
    size = 256
    net = _Graph("lstm_cell")
    x, h, c = (net.input(name, [1, size]) for name in ("x", "h", "c"))
    gates = net.add(
        "Add",
        net.dense(x, size, 4 * size),
        net.add("MatMul", h, net.weight(size, 4 * size)),
    )
    keep, enter, show, new = net.split("Split", 4, gates, axis=1)
    keep, enter, show = (net.add("Sigmoid", gate) for gate in (keep, enter, show))
    fresh = net.add("Mul", enter, net.add("Tanh", new))
    cell = net.add("Add", net.add("Mul", keep, c), fresh)
    net.output(net.add("Mul", show, net.add("Tanh", cell)), [1, size])
    net.output(cell, [1, size])
    return net.model()


def two_tower() -> onnx.ModelProto:
    """Cosines between a user and 32 items, each embedded by a tower of its own."""
    net, size = _Graph("two_tower"), 64
    towers = []
    for name, rows in (("user", 1), ("items", 32)):
        x = net.dense(net.input(name, [rows, 128]), 128, 256, "Relu")
        x = net.dense(net.dense(x, 256, 128, "Relu"), 128, size)
        length = net.add("ReduceL2", x, axes=[1], keepdims=1)
        towers.append(net.add("Div", x, length))
    user, items = towers
    scores = net.add("MatMul", user, net.add("Transpose", items, perm=[1, 0]))
    net.output(scores, [1, 32])
    return net.model()


def recommender() -> onnx.ModelProto:
    """A wide part beside a deep one with pairwise products, as in DLRM (Naumov et al., 2019)."""
    net, batch, fields, size = _Graph("recommender"), 16, 8, 16
    dense = net.input("dense", [batch, 13])
    indices = net.input("indices", [batch, fields], TensorProto.INT64)
    bottom = net.dense(net.dense(dense, 13, 64, "Relu"), 64, size, "Relu")
    vectors = [net.reshape(bottom, batch, 1, size)]
    for column in net.split("Split", fields, indices, axis=1):
        vectors.append(net.add("Gather", net.weight(1000, size), column, axis=0))
    joined = net.add("Concat", *vectors, axis=1)
    products = net.add("MatMul", joined, net.add("Transpose", joined, perm=[0, 2, 1]))
    pairs = (fields + 1) ** 2
    deep = net.add("Concat", bottom, net.reshape(products, batch, pairs), axis=1)
    deep = net.dense(net.dense(deep, size + pairs, 128, "Relu"), 128, 64, "Relu")
    score = net.add("Add", net.dense(deep, 64, 1), net.dense(dense, 13, 1))
    net.output(net.add("Sigmoid", score), [batch, 1])
    return net.model()


def mixture() -> onnx.ModelProto:
    """Eight experts that three tasks weigh by gates (MMoE, Ma et al., 2018): 46 operators."""
    net, size, inner, experts = _Graph("mixture"), 128, 64, 8
    x = net.input("x", [1, size])
    outputs = [net.dense(net.dense(x, size, 128, "Relu"), 128, inner) for _ in range(experts)]
    stacked = net.add("Concat", *outputs, axis=0)
    for _ in range(3):
        gate = net.dense(x, size, experts, "Softmax")
        tower = net.dense(net.add("MatMul", gate, stacked), inner, 32, "Relu")
        net.output(net.dense(tower, 32, 1, "Sigmoid"), [1, 1])
    return net.model()


def decoder_step() -> onnx.ModelProto:
    """The next token of a layer of a decoder: attention to what its cache holds, of four inputs."""
    net, heads, depth, cached = _Graph("decoder_step"), 8, 32, 127
    size, length = heads * depth, cached + 1
    x = net.input("x", [1, size])
    caches = [net.input(name, [1, heads, cached, depth]) for name in ("keys", "values")]
    mask = net.input("mask", [1, 1, 1, length])
    normal = _normalised(net, x, size)
    query, key, value = (
        net.reshape(net.dense(normal, size, size), 1, heads, 1, depth) for _ in range(3)
    )
    keys = net.add("Concat", caches[0], key, axis=2)
    values = net.add("Concat", caches[1], value, axis=2)
    scores = net.add("MatMul", query, net.add("Transpose", keys, perm=[0, 1, 3, 2]))
    scaled = net.add("Mul", scores, net.constant(np.array(depth**-0.5, "float32")))
    shares = net.add("Softmax", net.add("Add", scaled, mask), axis=-1)
    seen = net.reshape(net.add("MatMul", shares, values), 1, size)
    x = net.add("Add", x, net.dense(seen, size, size))
    inner = net.dense(_normalised(net, x, size), size, 4 * size, "Relu")
    net.output(net.add("Add", x, net.dense(inner, 4 * size, size)), [1, size])
    for cache in (keys, values):
        net.output(cache, [1, heads, length, depth])
    return net.model()


def _normalised(net: _Graph, x: str, size: int) -> str:
    scale, shift = (net.constant(np.full(size, value, "float32")) for value in (1, 0))
    return net.add("LayerNormalization", x, scale, shift, axis=-1)


def text_cnn() -> onnx.ModelProto:
    """Windows of 3, 4 and 5 words side by side (Kim, 2014)."""
    net, words, size, channels = _Graph("text_cnn"), 64, 128, 100
    tokens = net.input("tokens", [1, words], TensorProto.INT64)
    x = net.add("Gather", net.weight(2000, size), tokens, axis=0)
    x = net.add("Transpose", x, perm=[0, 2, 1])
    found = []
    for window in (3, 4, 5):
        branch = net.add("Relu", net.add("Conv", x, net.weight(channels, size, window)))
        found.append(net.add("ReduceMax", branch, axes=[2], keepdims=0))
    joined = net.add("Concat", *found, axis=1)
    net.output(net.dense(joined, 3 * channels, 10, "Softmax"), [1, 10])
    return net.model()


GRAPHS: dict[str, Callable[[], onnx.ModelProto]] = {
    made.__name__: made
    for made in (mlp, lstm_cell, two_tower, recommender, mixture, decoder_step, text_cnn)
}
"""What makes each network."""
