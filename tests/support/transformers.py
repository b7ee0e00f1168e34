# SPDX-License-Identifier: Apache-2.0
"""Transformers as PyTorch exports them, for optimisers that find operators in them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BATCH, LENGTH, WIDTH, HEADS, WORDS = 2, 7, 32, 4, 19


class Graph:
    """A writer of nodes with random weights."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._random = np.random.default_rng(0)

    def emit(self, kind: str, *inputs: str, outputs: int = 1, **attributes: object) -> str:
        """Add a node, and return its output, or the prefix of several."""
        name = f"{kind}_{len(self.nodes)}"
        names = [name] if outputs == 1 else [f"{name}.{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, name, **attributes))
        return name

    def constant(self, array: object, dtype: str = "float32") -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def weight(self, *shape: int, scale: float = 0.3) -> str:
        return self.constant(self._random.standard_normal(shape) * scale)

    def dense(self, x: str, inner: int, outer: int) -> str:
        product = self.emit("MatMul", x, self.weight(inner, outer))
        return self.emit("Add", self.weight(outer), product)

    def normalised(self, x: str) -> str:
        """Normalise rows by the operators of opsets that have none for it."""
        axes: dict[str, object] = {"axes": [-1], "keepdims": 1}
        centred = self.emit("Sub", x, self.emit("ReduceMean", x, **axes))
        squares = self.emit("Pow", centred, self.constant(2.0))
        moved = self.emit("Add", self.emit("ReduceMean", squares, **axes), self.constant(1e-5))
        standard = self.emit("Div", centred, self.emit("Sqrt", moved))
        scaled = self.emit("Mul", standard, self.weight(WIDTH, scale=1.0))
        return self.emit("Add", scaled, self.weight(WIDTH))

    def heads(self, x: str, *order: int) -> str:
        shape = self.constant([0, 0, HEADS, WIDTH // HEADS], "int64")
        return self.emit("Transpose", self.emit("Reshape", x, shape), perm=order)

    def rows(self, x: str) -> str:
        moved = self.emit("Transpose", x, perm=[0, 2, 1, 3])
        return self.emit("Reshape", moved, self.constant([0, 0, WIDTH], "int64"))

    def model(self, inputs: Sequence[tuple[str, Sequence[int]]], output: str) -> onnx.ModelProto:
        values = [helper.make_tensor_value_info(n, TensorProto.INT64, s) for n, s in inputs]
        result = helper.make_tensor_value_info(output, TensorProto.FLOAT, [BATCH, LENGTH, WIDTH])
        graph = helper.make_graph(self.nodes, "g", values, [result], self.weights)
        opsets = [helper.make_opsetid("", 12)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="pytorch")


def bert_like() -> onnx.ModelProto:
    """Two encoder layers with a mask, of words, places and segments."""
    graph = Graph()
    words = graph.emit("Gather", graph.weight(WORDS, WIDTH), "input_ids")
    places = graph.constant(np.arange(LENGTH)[np.newaxis], "int64")
    x = graph.emit("Add", words, graph.emit("Gather", graph.weight(2, WIDTH), "token_type_ids"))
    x = graph.emit("Add", x, graph.emit("Gather", graph.weight(LENGTH, WIDTH), places))
    x = graph.normalised(x)
    mask = graph.emit("Unsqueeze", graph.emit("Unsqueeze", "attention_mask", axes=[1]), axes=[2])
    shown = graph.emit("Cast", mask, to=TensorProto.FLOAT)
    hidden = graph.emit("Sub", graph.constant(1.0), shown)
    added = graph.emit("Mul", hidden, graph.constant(-10000.0))
    for _ in range(2):
        query, key, value = (graph.dense(x, WIDTH, WIDTH) for _ in range(3))
        scores = graph.emit("MatMul", graph.heads(query, 0, 2, 1, 3), graph.heads(key, 0, 2, 3, 1))
        scores = graph.emit("Div", scores, graph.constant((WIDTH // HEADS) ** 0.5))
        weights = graph.emit("Softmax", graph.emit("Add", scores, added), axis=3)
        mixed = graph.rows(graph.emit("MatMul", weights, graph.heads(value, 0, 2, 1, 3)))
        x = graph.normalised(graph.emit("Add", graph.dense(mixed, WIDTH, WIDTH), x))
        inner = graph.dense(x, WIDTH, 4 * WIDTH)
        error = graph.emit("Erf", graph.emit("Div", inner, graph.constant(2**0.5)))
        gated = graph.emit("Mul", inner, graph.emit("Add", error, graph.constant(1.0)))
        gated = graph.emit("Mul", gated, graph.constant(0.5))
        x = graph.normalised(graph.emit("Add", graph.dense(gated, 4 * WIDTH, WIDTH), x))
    names = ("input_ids", "token_type_ids", "attention_mask")
    return graph.model([(name, (BATCH, LENGTH)) for name in names], x)


def gpt_like() -> onnx.ModelProto:
    """Two decoder layers without a past."""
    graph = Graph()
    words = graph.emit("Gather", graph.weight(WORDS, WIDTH), "input_ids")
    places = graph.constant(np.arange(LENGTH)[np.newaxis], "int64")
    x = graph.emit("Add", words, graph.emit("Gather", graph.weight(LENGTH, WIDTH), places))
    for _ in range(2):
        packed = _gemm(graph, graph.normalised(x), WIDTH, 3 * WIDTH)
        parts = graph.emit("Split", packed, outputs=3, axis=2)
        query, key, value = (f"{parts}.{i}" for i in range(3))
        scores = graph.emit("MatMul", graph.heads(query, 0, 2, 1, 3), graph.heads(key, 0, 2, 3, 1))
        scores = graph.emit("Div", scores, graph.constant((WIDTH // HEADS) ** 0.5))
        scores = graph.emit("Where", _seen(graph, scores), scores, graph.constant(-10000.0))
        weights = graph.emit("Softmax", scores, axis=3)
        mixed = graph.rows(graph.emit("MatMul", weights, graph.heads(value, 0, 2, 1, 3)))
        x = graph.emit("Add", x, _gemm(graph, mixed, WIDTH, WIDTH))
        inner = _gemm(graph, graph.normalised(x), WIDTH, 4 * WIDTH)
        x = graph.emit("Add", x, _gemm(graph, _tanh_gelu(graph, inner), 4 * WIDTH, WIDTH))
    x = graph.normalised(x)
    return graph.model([("input_ids", (BATCH, LENGTH))], x)


def _gemm(graph: Graph, x: str, inner: int, outer: int) -> str:
    rows = graph.emit("Reshape", x, graph.constant([-1, inner], "int64"))
    product = graph.emit("Gemm", rows, graph.weight(inner, outer), graph.weight(outer))
    return graph.emit("Reshape", product, graph.constant([BATCH, LENGTH, outer], "int64"))


def _seen(graph: Graph, scores: str) -> str:
    """Return the part of a causal mask that is as large as the scores."""

    def integers(*numbers: int) -> str:
        return graph.constant(numbers, "int64")

    def size(begin: int, end: int) -> str:
        shape = graph.emit("Shape", scores)
        part = graph.emit("Slice", shape, integers(begin), integers(end), integers(0))
        return graph.emit("Squeeze", part, axes=[0])

    keys = size(3, 4)
    first = graph.emit("Unsqueeze", graph.emit("Sub", keys, size(2, 3)), axes=[0])
    end = graph.emit("Unsqueeze", keys, axes=[0])
    mask = graph.constant(np.tri(16, dtype=bool)[np.newaxis, np.newaxis], "bool")
    rows = graph.emit("Slice", mask, first, end, integers(2), integers(1))
    return graph.emit("Slice", rows, integers(0), end, integers(3), integers(1))


def _tanh_gelu(graph: Graph, x: str) -> str:
    cube = graph.emit("Pow", x, graph.constant(3.0))
    inner = graph.emit("Add", x, graph.emit("Mul", cube, graph.constant(0.044715)))
    inner = graph.emit("Mul", inner, graph.constant((2 / np.pi) ** 0.5))
    gate = graph.emit("Add", graph.emit("Tanh", inner), graph.constant(1.0))
    return graph.emit("Mul", graph.emit("Mul", x, graph.constant(0.5)), gate)
