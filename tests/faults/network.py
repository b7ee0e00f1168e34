# SPDX-License-Identifier: Apache-2.0
"""Small random networks, and what they compute by ONNX's own reference."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

_SHAPE = (1, 3, 8, 8)
IMAGE = np.random.default_rng(0).standard_normal(_SHAPE).astype("float32")
"""What every network is run with."""


@dataclass(frozen=True)
class Network:
    """A network in an ONNX file.

    Attributes
    ----------
    path : Path
    answer : numpy.ndarray
        What it computes of :data:`IMAGE`.
    """

    path: Path
    answer: np.ndarray


def save(path: Path, choose: random.Random) -> Network:
    """Write a network of two branches, whose channels and weights are random."""
    model = _model(choose)
    onnx.save(model, path)
    (answer,) = ReferenceEvaluator(model).run(None, {"image": IMAGE})
    return Network(path, answer)


def _model(choose: random.Random) -> onnx.ModelProto:
    random_numbers = np.random.default_rng(choose.getrandbits(32))
    stem, *branches = [choose.randint(4, 24) for _ in range(3)]
    make, nodes, weights = onnx.helper.make_node, [], []

    def conv(name: str, source: str, inputs: int, outputs: int, size: int) -> None:
        kernel = 0.2 * random_numbers.standard_normal((outputs, inputs, size, size))
        weights.append(onnx.numpy_helper.from_array(kernel.astype("float32"), f"{name}.weight"))
        nodes.append(make("Conv", [source, f"{name}.weight"], [name], pads=[size // 2] * 4))

    conv("stem", "image", _SHAPE[1], stem, 1)
    for number, (channels, size) in enumerate(zip(branches, (1, 3), strict=True)):
        conv(f"branch{number}", "stem", stem, channels, size)
    nodes.append(make("Concat", ["branch0", "branch1"], ["result"], axis=1))
    value = onnx.helper.make_tensor_value_info
    outputs = [value("result", onnx.TensorProto.FLOAT, [1, sum(branches), *_SHAPE[2:]])]
    inputs = [value("image", onnx.TensorProto.FLOAT, list(_SHAPE))]
    graph = onnx.helper.make_graph(nodes, "small", inputs, outputs, weights)
    opset = [onnx.helper.make_opsetid("", 17)]
    return onnx.helper.make_model(graph, opset_imports=opset, ir_version=8)
