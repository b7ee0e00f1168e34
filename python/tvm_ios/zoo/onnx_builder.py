# SPDX-License-Identifier: Apache-2.0
"""The zoo's networks as ONNX models, for comparison with other engines on the same file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tvm_ios.zoo.builder import Builder, Network, Value, Window
from tvm_ios.zoo.weights import NormStatistics

INPUT_NAME = "data"
OPSET = 17
# The oldest file format that carries the opset, so that every reader of the opset reads the file.
IR_VERSION = 8


def to_onnx(network: Network, shape: tuple[int, int, int, int], seed: int) -> onnx.ModelProto:
    """Build a network as an ONNX model with its weights as initializers.

    Parameters
    ----------
    network : Network
        What to build.
    shape : tuple of int
        Shape of the input, NCHW.
    seed : int
        Seed of the weights.

    Returns
    -------
    onnx.ModelProto
        A model with one input, "data", and one output.
    """
    builder = OnnxBuilder(seed)
    image = Value(INPUT_NAME, shape)
    logits = network.describe(builder, image)
    model = helper.make_model(
        builder.finish(network.name, image, logits),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="tvm_ios",
    )
    onnx.checker.check_model(model)
    return model


class OnnxBuilder(Builder[str]):
    """Writes operators as nodes of an ONNX graph; a handle is the name of a tensor."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[onnx.TensorProto] = []

    def finish(self, name: str, image: Value[str], logits: Value[str]) -> onnx.GraphProto:
        """Return what was built as a graph from `image` to `logits`."""
        return helper.make_graph(
            self._nodes,
            name,
            [helper.make_tensor_value_info(image.handle, TensorProto.FLOAT, image.shape)],
            [helper.make_tensor_value_info(logits.handle, TensorProto.FLOAT, logits.shape)],
            self._initializers,
        )

    def _emit_conv(
        self, x: str, weight: np.ndarray, bias: np.ndarray | None, window: Window
    ) -> str:
        constants = [weight] if bias is None else [weight, bias]
        return self._emit("Conv", [x, *map(self._constant, constants)], **_attributes(window))

    def _emit_batch_norm(self, x: str, statistics: NormStatistics, epsilon: float) -> str:
        inputs = [x, *map(self._constant, statistics)]
        return self._emit("BatchNormalization", inputs, epsilon=epsilon)

    def _emit_relu(self, x: str) -> str:
        return self._emit("Relu", [x])

    def _emit_max_pool(self, x: str, window: Window) -> str:
        return self._emit("MaxPool", [x], **_attributes(window))

    def _emit_avg_pool(self, x: str, window: Window) -> str:
        return self._emit("AveragePool", [x], **_attributes(window), count_include_pad=1)

    def _emit_global_avg_pool(self, x: str) -> str:
        return self._emit("GlobalAveragePool", [x])

    def _emit_concat(self, values: list[str]) -> str:
        return self._emit("Concat", values, axis=1)

    def _emit_flatten(self, x: str, shape: tuple[int, ...]) -> str:
        return self._emit("Flatten", [x], axis=1)

    def _emit_dense(self, x: str, weight: np.ndarray, bias: np.ndarray) -> str:
        return self._emit("Gemm", [x, self._constant(weight), self._constant(bias)])

    def _emit(self, op_type: str, inputs: Sequence[str], **attributes: object) -> str:
        name = f"{op_type.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        return name

    def _constant(self, array: np.ndarray) -> str:
        name = f"constant_{len(self._initializers)}"
        self._initializers.append(numpy_helper.from_array(array, name))
        return name


def _attributes(window: Window) -> dict[str, tuple[int, ...]]:
    return {
        "kernel_shape": window.kernel,
        "strides": window.stride,
        "pads": window.padding * 2,
    }
