# SPDX-License-Identifier: Apache-2.0
"""How many multiplications a network asks for, counted on its ONNX graph.

Convolutions and matrix products only: they are what the vector units' peak is a limit for. What
fusion or Winograd's method saves is not taken off.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import onnx

Shapes = Mapping[str, Sequence[int]]


def multiply_adds(model: onnx.ModelProto) -> int:
    """Multiply-adds of one run of a model with static shapes."""
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    shapes = {tensor.name: tuple(tensor.dims) for tensor in inferred.initializer}
    for value in (*inferred.input, *inferred.value_info, *inferred.output):
        shapes[value.name] = tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
    return sum(
        _COUNTS[node.op_type](node, shapes) for node in inferred.node if node.op_type in _COUNTS
    )


def _convolution(node: onnx.NodeProto, shapes: Shapes) -> int:
    """Each output element takes one filter's elements: its channels are those of one group."""
    return math.prod(shapes[node.output[0]]) * math.prod(shapes[node.input[1]][1:])


def _gemm(node: onnx.NodeProto, shapes: Shapes) -> int:
    transposed = any(a.name == "transA" and a.i for a in node.attribute)
    return math.prod(shapes[node.output[0]]) * shapes[node.input[0]][0 if transposed else 1]


def _matmul(node: onnx.NodeProto, shapes: Shapes) -> int:
    return math.prod(shapes[node.output[0]]) * shapes[node.input[0]][-1]


_COUNTS = {"Conv": _convolution, "Gemm": _gemm, "MatMul": _matmul}
