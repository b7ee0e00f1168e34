# SPDX-License-Identifier: Apache-2.0
"""The zoo's networks as Relax modules."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tvm
from tvm import relax

from ..ops.recurrence import Recurrence
from ..ops.recurrence_function import recurrence
from ..relax_ir.building import building
from .builder import Builder, Elementwise
from .network import Input, Network
from .values import Value, Window
from .weights import LstmWeights, NormStatistics

_ELEMENTWISE: dict[Elementwise, Callable[..., relax.Expr]] = {
    "add": relax.op.add,
    "gelu": relax.op.nn.gelu,
    "multiply": relax.op.multiply,
    "relu": relax.op.nn.relu,
    "relu6": relax.op.nn.relu6,
    "sigmoid": relax.op.sigmoid,
    "subtract": relax.op.subtract,
    "tanh": relax.op.tanh,
}


def to_relax(network: Network, inputs: Sequence[Input], seed: int) -> tvm.IRModule:
    """Build a network as one Relax function with its weights as constants.

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
    tvm.IRModule
        A module whose only function, "main", takes the inputs and returns the output; its body is
        one dataflow block.
    """
    block_builder = relax.BlockBuilder()
    parameters = [relax.Var(i.name, relax.TensorType(i.shape, i.dtype)) for i in inputs]
    values = [Value(p, i.shape) for p, i in zip(parameters, inputs, strict=True)]
    with building(), block_builder.function("main", parameters):
        with block_builder.dataflow():
            result = network.describe(RelaxBuilder(block_builder, seed), *values)
            output = block_builder.emit_output(result.handle)
        block_builder.emit_func_output(output)
    return block_builder.finalize()


class RelaxBuilder(Builder[relax.Expr]):
    """A builder that writes bindings of a dataflow block.

    Parameters
    ----------
    block_builder : relax.BlockBuilder
        A builder inside the dataflow block that receives the bindings.
    seed : int
        Seed of the weights.
    """

    def __init__(self, block_builder: relax.BlockBuilder, seed: int) -> None:
        super().__init__(seed)
        self._block_builder = block_builder

    def _emit_constant(self, array: np.ndarray) -> relax.Expr:
        return relax.const(array)

    def _emit_conv(
        self,
        x: relax.Expr,
        weight: np.ndarray,
        bias: np.ndarray | None,
        window: Window,
        groups: int,
    ) -> relax.Expr:
        conv = self._emit(
            relax.op.nn.conv2d(
                x,
                relax.const(weight),
                window.stride,
                window.padding,
                window.dilation,
                groups=groups,
            )
        )
        if bias is None:
            return conv
        return self._emit(relax.op.add(conv, relax.const(bias.reshape(1, -1, 1, 1))))

    def _emit_batch_norm(
        self, x: relax.Expr, statistics: NormStatistics, epsilon: float
    ) -> relax.Expr:
        constants = (relax.const(vector) for vector in statistics)
        norm = relax.op.nn.batch_norm(x, *constants, axis=1, epsilon=epsilon, training=False)
        # Relax also returns the running mean and variance, even at inference.
        return self._emit(relax.TupleGetItem(self._emit(norm), 0))

    def _emit_max_pool(self, x: relax.Expr, window: Window) -> relax.Expr:
        return self._emit(
            relax.op.nn.max_pool2d(
                x, window.kernel, window.stride, window.padding, ceil_mode=window.ceil
            )
        )

    def _emit_avg_pool(self, x: relax.Expr, window: Window, count_padding: bool) -> relax.Expr:
        return self._emit(
            relax.op.nn.avg_pool2d(
                x, window.kernel, window.stride, window.padding, count_include_pad=count_padding
            )
        )

    def _emit_global_avg_pool(self, x: relax.Expr) -> relax.Expr:
        return self._emit(relax.op.nn.adaptive_avg_pool2d(x, output_size=1))

    def _emit_concat(self, values: list[relax.Expr]) -> relax.Expr:
        return self._emit(relax.op.concat(values, axis=1))

    def _emit_channels(self, x: relax.Expr, begin: int, end: int) -> relax.Expr:
        return self._emit(relax.op.strided_slice(x, axes=[1], begin=[begin], end=[end]))

    def _emit_map_norm(
        self, x: Value[relax.Expr], gamma: np.ndarray, beta: np.ndarray, epsilon: float
    ) -> relax.Expr:
        constants = (relax.const(gamma), relax.const(beta))
        norm = relax.op.nn.group_norm(
            x.handle, *constants, num_groups=1, channel_axis=1, axes=[2, 3], epsilon=epsilon
        )
        return self._emit(norm)

    def _emit_odd_pixels(self, x: relax.Expr, size: Sequence[int]) -> relax.Expr:
        return self._emit(
            relax.op.strided_slice(x, axes=[2, 3], begin=[1, 1], end=list(size), strides=[2, 2])
        )

    def _emit_matmul(self, x: relax.Expr, y: relax.Expr) -> relax.Expr:
        return self._emit(relax.op.matmul(x, y))

    def _emit_take(self, table: relax.Expr, ids: relax.Expr) -> relax.Expr:
        # In this mode an id out of range is harmless.
        return self._emit(relax.op.take(table, ids, axis=0, mode="clip"))

    def _emit_layer_norm(
        self, x: relax.Expr, gamma: np.ndarray, beta: np.ndarray, epsilon: float
    ) -> relax.Expr:
        constants = (relax.const(gamma), relax.const(beta))
        return self._emit(relax.op.nn.layer_norm(x, *constants, axes=[-1], epsilon=epsilon))

    def _emit_softmax(self, x: relax.Expr) -> relax.Expr:
        return self._emit(relax.op.nn.softmax(x, axis=-1))

    def _emit_bidirectional_lstm(
        self, x: Value[relax.Expr], directions: Sequence[LstmWeights]
    ) -> relax.Expr:
        states = [
            self._emit_lstm(x, weights, backwards=backwards)
            for backwards, weights in enumerate(directions)
        ]
        return self._emit(relax.op.concat(states, axis=2))

    def _emit_lstm(
        self, x: Value[relax.Expr], weights: LstmWeights, *, backwards: int
    ) -> relax.Expr:
        batch, length = x.shape[:2]
        hidden = len(weights.recurrent)
        layer = Recurrence(
            "lstm",
            ("sigmoid", "tanh", "tanh"),
            steps=length,
            batch=batch,
            hidden=hidden,
            backwards=bool(backwards),
            batch_first=True,
            paired=True,
        )
        product = self._emit(relax.op.matmul(x.handle, relax.const(weights.read)))
        gates = self._emit(relax.op.add(product, relax.const(weights.bias)))
        zeros = relax.const(np.zeros((batch, hidden), "float32"))
        inputs = [gates, relax.const(weights.recurrent), zeros, zeros]
        return self._emit(relax.TupleGetItem(recurrence(self._block_builder, layer, inputs), 0))

    def _emit_reshape(self, x: relax.Expr, shape: tuple[int, ...]) -> relax.Expr:
        return self._emit(relax.op.reshape(x, shape))

    def _emit_transpose(self, x: relax.Expr, axes: tuple[int, ...]) -> relax.Expr:
        return self._emit(relax.op.permute_dims(x, list(axes)))

    def _emit_elementwise(self, name: Elementwise, operands: list[relax.Expr]) -> relax.Expr:
        return self._emit(_ELEMENTWISE[name](*operands))

    def _emit(self, expr: relax.Expr) -> relax.Var:
        return self._block_builder.emit(expr)
