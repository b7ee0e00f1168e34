# SPDX-License-Identifier: Apache-2.0
"""Inputs among which there are some that are no number, or infinite.

These are given to networks of float32 alone, of operators that the reference computes as IEEE 754
has it. ONNX Runtime's maxima over axes and windows leave NaN out; TVM's own lowering does so in all
maxima and minima, and ONNX's Clip is lowered by it. None of these is compared; for our kernels
`tests/python/backend/cpu/test_nan.py` has them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .network import Network

_SPECIAL = (np.nan, np.nan, np.inf, -np.inf)

_COMPARED = {
    "onnx": frozenset({
        "Abs", "Add", "AveragePool", "BatchNormalization", "Concat", "Conv", "Erf", "Exp",
        "Expand", "Flatten", "Gemm", "GlobalAveragePool", "Identity", "LeakyRelu", "MatMul", "Max",
        "Min", "Mul", "Neg", "PRelu", "Pad", "ReduceMean", "ReduceSum", "Relu", "Reshape",
        "Sigmoid", "Slice", "Softmax", "Split", "Squeeze", "Sub", "Sum", "Tanh", "Tile",
        "Transpose", "Unsqueeze",
    }),
    "relax": frozenset({
        "abs", "add", "broadcast_to", "concat", "erf", "exp", "expand_dims", "flatten", "flip",
        "matmul", "mean", "multiply", "negative", "nn.avg_pool2d", "nn.conv2d", "nn.pad",
        "nn.silu", "nn.softmax", "permute_dims", "repeat", "reshape", "sigmoid", "split",
        "squeeze", "stack", "strided_slice", "subtract", "sum", "tanh", "tile",
    }),
}  # fmt: skip


def comparable(network: Network) -> bool:
    """Whether what the network makes of NaN and infinities is compared."""
    compared = _COMPARED[network.front]
    floats = all(tensor.dtype == "float32" for tensor in network.inputs.values())
    return floats and all(node.op in compared for node in network.nodes)


def with_specials(
    random: np.random.Generator, arrays: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Copies in which one or two numbers of an input are special."""
    result = {}
    for name, array in arrays.items():
        result[name] = array = array.copy()
        if array.size and random.random() < 0.7:
            places = random.integers(0, array.size, random.integers(1, 3))
            array.reshape(-1)[places] = random.choice(_SPECIAL)
    return result
