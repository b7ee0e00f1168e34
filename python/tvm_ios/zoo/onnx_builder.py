# SPDX-License-Identifier: Apache-2.0
"""The zoo's networks as ONNX models, to compare engines on the same file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .builder import Builder, Elementwise
from .network import Input, Network
from .values import Value, Window
from .weights import LstmWeights, NormStatistics

OPSET = 17
# The oldest file format that supports the opset, for the sake of old readers.
IR_VERSION = 8

_ELEMENTWISE: dict[Elementwise, str] = {
    "add": "Add",
    "multiply": "Mul",
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "subtract": "Sub",
    "tanh": "Tanh",
}


def to_onnx(network: Network, inputs: Sequence[Input], seed: int) -> onnx.ModelProto:
    """Build a network as an ONNX model with its weights as initializers.

    Parameters
    ----------
    network : Network
        The network.
    inputs : sequence of Input
        Its inputs.
    seed : int
        Seed of the weights.

    Returns
    -------
    onnx.ModelProto
        A model with the inputs and one output.
    """
    builder = OnnxBuilder(seed)
    result = network.describe(builder, *(Value(i.name, i.shape) for i in inputs))
    model = helper.make_model(
        builder.finish(network.name, inputs, result),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="tvm_ios",
    )
    onnx.checker.check_model(model)
    return model


class OnnxBuilder(Builder[str]):
    """A builder that writes nodes of an ONNX graph; a handle is the name of a tensor."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[onnx.TensorProto] = []

    def finish(self, name: str, inputs: Sequence[Input], result: Value[str]) -> onnx.GraphProto:
        """Return the graph from the inputs to the result.

        Parameters
        ----------
        name : str
            The name of the graph.
        inputs : sequence of Input
            The inputs of the network.
        result : Value
            The output of the network.
        """
        return helper.make_graph(
            self._nodes,
            name,
            [
                helper.make_tensor_value_info(
                    i.name, helper.np_dtype_to_tensor_dtype(np.dtype(i.dtype)), i.shape
                )
                for i in inputs
            ],
            [helper.make_tensor_value_info(result.handle, TensorProto.FLOAT, result.shape)],
            self._initializers,
        )

    def _emit_constant(self, array: np.ndarray) -> str:
        name = f"constant_{len(self._initializers)}"
        self._initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def _emit_conv(
        self, x: str, weight: np.ndarray, bias: np.ndarray | None, window: Window, groups: int
    ) -> str:
        constants = [weight] if bias is None else [weight, bias]
        inputs = [x, *map(self._emit_constant, constants)]
        attributes = {**_attributes(window), "dilations": window.dilation, "group": groups}
        return self._emit("Conv", inputs, **attributes)

    def _emit_batch_norm(self, x: str, statistics: NormStatistics, epsilon: float) -> str:
        inputs = [x, *map(self._emit_constant, statistics)]
        return self._emit("BatchNormalization", inputs, epsilon=epsilon)

    def _emit_max_pool(self, x: str, window: Window) -> str:
        return self._emit("MaxPool", [x], **_attributes(window), ceil_mode=int(window.ceil))

    def _emit_avg_pool(self, x: str, window: Window, count_padding: bool) -> str:
        attributes = _attributes(window)
        return self._emit("AveragePool", [x], **attributes, count_include_pad=int(count_padding))

    def _emit_global_avg_pool(self, x: str) -> str:
        return self._emit("GlobalAveragePool", [x])

    def _emit_concat(self, values: list[str]) -> str:
        return self._emit("Concat", values, axis=1)

    def _emit_channels(self, x: str, begin: int, end: int) -> str:
        return self._emit("Slice", [x, *map(self._integers, ([begin], [end], [1]))])

    def _emit_map_norm(
        self, x: Value[str], gamma: np.ndarray, beta: np.ndarray, epsilon: float
    ) -> str:
        """Emit what the opset has of a group norm, as PyTorch exports it."""
        flat = self._emit_reshape(x.handle, (x.shape[0], 1, -1))
        units = [self._emit_constant(np.full(1, value, "float32")) for value in (1.0, 0.0)]
        norm = self._emit("InstanceNormalization", [flat, *units], epsilon=epsilon)
        factors, offsets = (self._emit_constant(a.reshape(-1, 1, 1)) for a in (gamma, beta))
        scaled = self._emit("Mul", [self._emit_reshape(norm, x.shape), factors])
        return self._emit("Add", [scaled, offsets])

    def _emit_odd_pixels(self, x: str, size: Sequence[int]) -> str:
        begin, end, axes, steps = ([1, 1], list(size), [2, 3], [2, 2])
        return self._emit("Slice", [x, *map(self._integers, (begin, end, axes, steps))])

    def _emit_matmul(self, x: str, y: str) -> str:
        return self._emit("MatMul", [x, y])

    def _emit_take(self, table: str, ids: str) -> str:
        return self._emit("Gather", [table, ids], axis=0)

    def _emit_layer_norm(self, x: str, gamma: np.ndarray, beta: np.ndarray, epsilon: float) -> str:
        inputs = [x, *map(self._emit_constant, (gamma, beta))]
        return self._emit("LayerNormalization", inputs, axis=-1, epsilon=epsilon)

    def _emit_softmax(self, x: str) -> str:
        return self._emit("Softmax", [x], axis=-1)

    def _emit_bidirectional_lstm(self, x: Value[str], directions: Sequence[LstmWeights]) -> str:
        batch, length = x.shape[:2]
        hidden = len(directions[0].recurrent)
        read, recurrent, bias = (
            np.stack([_onnx_order(weights[kind]) for weights in directions]) for kind in range(3)
        )
        biases = np.concatenate([bias, np.zeros_like(bias)], 1)
        constants = map(self._emit_constant, (read, recurrent, biases))
        steps = self._emit_transpose(x.handle, (1, 0, 2))
        inputs = [steps, *constants]
        states = self._emit("LSTM", inputs, direction="bidirectional", hidden_size=hidden)
        return self._emit_reshape(
            self._emit_transpose(states, (2, 0, 1, 3)), (batch, length, 2 * hidden)
        )

    def _emit_reshape(self, x: str, shape: tuple[int, ...]) -> str:
        return self._emit("Reshape", [x, self._integers(shape)])

    def _emit_transpose(self, x: str, axes: tuple[int, ...]) -> str:
        return self._emit("Transpose", [x], perm=axes)

    def _emit_elementwise(self, name: Elementwise, operands: list[str]) -> str:
        if name == "gelu":
            return self._emit_gelu(*operands)
        if name == "relu6":
            return self._emit("Clip", [*operands, *map(self._number, (0.0, 6.0))])
        return self._emit(_ELEMENTWISE[name], operands)

    def _emit_gelu(self, x: str) -> str:
        """Emit the operator, which the opset lacks, as the pattern that engines recognise."""
        erf = self._emit("Erf", [self._emit("Div", [x, self._number(np.sqrt(2.0))])])
        twice = self._emit("Mul", [x, self._emit("Add", [erf, self._number(1.0)])])
        return self._emit("Mul", [twice, self._number(0.5)])

    def _emit(self, op_type: str, inputs: Sequence[str], **attributes: object) -> str:
        name = f"{op_type.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        return name

    def _number(self, value: float) -> str:
        return self._emit_constant(np.array(value, "float32"))

    def _integers(self, values: Sequence[int]) -> str:
        return self._emit_constant(np.array(values, "int64"))


def _attributes(window: Window) -> dict[str, tuple[int, ...]]:
    return {
        "kernel_shape": window.kernel,
        "strides": window.stride,
        "pads": window.padding,
    }


def _onnx_order(columns: np.ndarray) -> np.ndarray:
    """Return the columns of the gates i, f, g, o as rows of the gates i, o, f, g."""
    enter, keep, new, show = np.split(columns.T, 4)
    return np.concatenate([enter, show, keep, new])
