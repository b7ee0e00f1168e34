# SPDX-License-Identifier: Apache-2.0
"""The zoo's networks as Relax modules."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

from tvm_ios.zoo.builder import Builder, Network, Value, Window
from tvm_ios.zoo.weights import NormStatistics

INPUT_NAME = "data"


def to_relax(network: Network, shape: tuple[int, int, int, int], seed: int) -> tvm.IRModule:
    """Build a network as one Relax function with its weights as constants.

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
    tvm.IRModule
        A module whose only function, "main", takes the image and returns the logits; its body is
        one dataflow block.
    """
    block_builder = relax.BlockBuilder()
    image = relax.Var(INPUT_NAME, relax.TensorType(shape, "float32"))
    with block_builder.function("main", [image]):
        with block_builder.dataflow():
            logits = network.describe(RelaxBuilder(block_builder, seed), Value(image, shape))
            output = block_builder.emit_output(logits.handle)
        block_builder.emit_func_output(output)
    return block_builder.finalize()


class RelaxBuilder(Builder[relax.Expr]):
    """Writes operators as bindings of a dataflow block.

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

    def _emit_conv(
        self, x: relax.Expr, weight: np.ndarray, bias: np.ndarray | None, window: Window
    ) -> relax.Expr:
        conv = self._emit(relax.op.nn.conv2d(x, relax.const(weight), window.stride, window.padding))
        if bias is None:
            return conv
        return self._emit(relax.op.add(conv, relax.const(bias.reshape(1, -1, 1, 1))))

    def _emit_batch_norm(
        self, x: relax.Expr, statistics: NormStatistics, epsilon: float
    ) -> relax.Expr:
        constants = (relax.const(vector) for vector in statistics)
        norm = relax.op.nn.batch_norm(x, *constants, axis=1, epsilon=epsilon, training=False)
        # Relax returns the running mean and variance beside the result, at inference too.
        return self._emit(relax.TupleGetItem(self._emit(norm), 0))

    def _emit_relu(self, x: relax.Expr) -> relax.Expr:
        return self._emit(relax.op.nn.relu(x))

    def _emit_max_pool(self, x: relax.Expr, window: Window) -> relax.Expr:
        return self._emit(relax.op.nn.max_pool2d(x, window.kernel, window.stride, window.padding))

    def _emit_avg_pool(self, x: relax.Expr, window: Window) -> relax.Expr:
        return self._emit(
            relax.op.nn.avg_pool2d(
                x, window.kernel, window.stride, window.padding, count_include_pad=True
            )
        )

    def _emit_global_avg_pool(self, x: relax.Expr) -> relax.Expr:
        return self._emit(relax.op.nn.adaptive_avg_pool2d(x, output_size=1))

    def _emit_concat(self, values: list[relax.Expr]) -> relax.Expr:
        return self._emit(relax.op.concat(values, axis=1))

    def _emit_flatten(self, x: relax.Expr, shape: tuple[int, ...]) -> relax.Expr:
        return self._emit(relax.op.reshape(x, shape))

    def _emit_dense(self, x: relax.Expr, weight: np.ndarray, bias: np.ndarray) -> relax.Expr:
        product = self._emit(relax.op.matmul(x, relax.const(weight)))
        return self._emit(relax.op.add(product, relax.const(bias)))

    def _emit(self, expr: relax.Expr) -> relax.Var:
        return self._block_builder.emit(expr)
