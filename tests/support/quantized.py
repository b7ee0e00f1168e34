# SPDX-License-Identifier: Apache-2.0
"""Quantised networks: in Relax, and in ONNX as exporters write them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

op = relax.op


def quantized(emit, x, scale: float, zero: int, dtype: str = "uint8") -> relax.Expr:
    grid = relax.const(scale, "float32"), relax.const(zero, dtype)
    return emit(op.quantize(x, *grid, axis=0, out_dtype=dtype))


def restored(emit, x, scale: float, zero: int, dtype: str = "uint8") -> relax.Expr:
    return emit(op.dequantize(x, relax.const(scale, "float32"), relax.const(zero, dtype), axis=0))


def rounded(emit, x, *grid) -> relax.Expr:
    return restored(emit, quantized(emit, x, *grid), *grid)


def onnx_model(path: Path, input_zero: int = 120) -> np.ndarray:
    """Write a quantised network as exporters do, and return an input for it."""
    random = np.random.default_rng(0)
    nodes, constants = [], []

    def constant(name: str, value: np.ndarray) -> str:
        constants.append(numpy_helper.from_array(value, name))
        return name

    def grid(name: str, scale: object, zero: object) -> tuple[str, str]:
        scales = constant(f"{name}.scale", np.array(scale, "float32"))
        return scales, constant(f"{name}.zero", np.array(zero))

    def pair(x: str, scale: float, zero: int) -> str:
        about = grid(x, scale, np.uint8(zero))
        nodes.append(helper.make_node("QuantizeLinear", [x, *about], [f"{x}.q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{x}.q", *about], [f"{x}.d"]))
        return f"{x}.d"

    def convolve(x: str, name: str, shape: tuple[int, ...], scale: float, **about: object) -> str:
        scales = random.uniform(0.002, 0.01, shape[0]).astype("float32")
        weights = random.integers(-127, 128, shape).astype("int8")
        zeros = np.zeros(shape[0], "int8")
        bias = random.integers(-500, 500, shape[0]).astype("int32")
        inputs = [constant(f"{name}.w", weights), *grid(f"{name}.w", scales, zeros)]
        nodes.append(helper.make_node("DequantizeLinear", inputs, [f"{name}.w.d"], axis=0))
        inputs = [
            constant(f"{name}.b", bias),
            *grid(f"{name}.b", scale * scales, zeros.astype("int32")),
        ]
        nodes.append(helper.make_node("DequantizeLinear", inputs, [f"{name}.b.d"], axis=0))
        arguments = [x, f"{name}.w.d", f"{name}.b.d"]
        nodes.append(helper.make_node("Conv", arguments, [name], **about))
        return name

    def relu(x: str) -> str:
        nodes.append(helper.make_node("Relu", [x], [f"{x}.relu"]))
        return f"{x}.relu"

    x = pair("x", 0.02, input_zero)
    x = pair(relu(convolve(x, "first", (24, 3, 3, 3), 0.02, pads=[1, 1, 1, 1])), 0.03, 0)
    nodes.append(helper.make_node("MaxPool", [x], ["pooled"], kernel_shape=[2, 2], strides=[2, 2]))
    x = pair("pooled", 0.03, 0)
    left = pair(convolve(x, "left", (40, 24, 1, 1), 0.03), 0.05, 131)
    right = pair(convolve(x, "right", (40, 24, 3, 3), 0.03, pads=[1, 1, 1, 1]), 0.08, 117)
    nodes.append(helper.make_node("Add", [left, right], ["sum"]))
    x = pair(relu("sum"), 0.05, 0)
    x = convolve(x, "last", (10, 40, 3, 3), 0.05, strides=[2, 2])
    y = helper.make_tensor_value_info(x, TensorProto.FLOAT, None)
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 18, 22])
    graph = helper.make_graph(nodes, "quantized", [given], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return random.standard_normal((1, 3, 18, 22)).astype("float32")
