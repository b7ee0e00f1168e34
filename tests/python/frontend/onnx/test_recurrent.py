# SPDX-License-Identifier: Apache-2.0
"""Unrolled recurrent layers, compared with ONNX Runtime's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import tvm_ios
from tvm_ios.errors import ModelError

GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}
LENGTH, BATCH, WIDTH, HIDDEN = 5, 2, 3, 7
CASES = {
    "gru": ("GRU", {}),
    "gru reset after the product": ("GRU", {"linear_before_reset": 1}),
    "gru backwards": ("GRU", {"direction": "reverse", "linear_before_reset": 1}),
    "gru both ways": ("GRU", {"direction": "bidirectional", "linear_before_reset": 1}),
    "gru of other activations": ("GRU", {"activations": ["Relu", "Sigmoid"]}),
    "lstm": ("LSTM", {}),
    "lstm both ways": ("LSTM", {"direction": "bidirectional"}),
    "lstm of other activations": ("LSTM", {"activations": ["Tanh", "Relu", "Sigmoid"]}),
    "rnn both ways": ("RNN", {"direction": "bidirectional", "activations": ["Relu", "Tanh"]}),
}


def _save(
    path: Path, kind: str, given: dict, initial: bool, opset: int = 17
) -> dict[str, np.ndarray]:
    """Write a layer with all of its outputs, and return inputs."""
    random = np.random.default_rng(0)
    directions = 2 if given.get("direction") == "bidirectional" else 1
    rows = GATES[kind] * HIDDEN
    shapes = {"w": (directions, rows, WIDTH), "r": (directions, rows, HIDDEN)}
    shapes["b"] = (directions, 2 * rows)
    weights = [  # so small that a layer without bounds does not blow rounding errors up
        onnx.numpy_helper.from_array((0.3 * random.standard_normal(s)).astype("float32"), n)
        for n, s in shapes.items()
    ]
    states = ["h", "c"][: 2 if kind == "LSTM" else 1]
    sizes = {"x": (LENGTH, BATCH, WIDTH)}
    sizes |= dict.fromkeys(states, (directions, BATCH, HIDDEN)) if initial else {}
    value = helper.make_tensor_value_info
    names = ["x", "w", "r", "b", "", *(states if initial else [])]
    outputs = ["y", *(f"{state}_last" for state in states)]
    graph = helper.make_graph(
        [helper.make_node(kind, names, outputs, hidden_size=HIDDEN, **given)],
        "g",
        [value(name, TensorProto.FLOAT, size) for name, size in sizes.items()],
        [value(name, TensorProto.FLOAT, None) for name in outputs],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(model, path)
    return {n: random.standard_normal(s).astype("float32") for n, s in sizes.items()}


def _check(path: Path, inputs: dict[str, np.ndarray]) -> None:
    expected = onnxruntime.InferenceSession(path).run(None, inputs)
    results = tvm_ios.compile(path, search=False, threads=1)(*inputs.values())
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("initial", [False, True], ids=["from zeros", "from a state"])
@pytest.mark.parametrize("case", CASES)
def test_a_layer(case: str, initial: bool, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    inputs = _save(path, *CASES[case], initial)
    _check(path, inputs)


@pytest.mark.parametrize("opset", [8, 12, 21])
def test_a_layer_of_another_opset(opset: int, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    inputs = _save(path, "LSTM", {"direction": "bidirectional"}, initial=True, opset=opset)
    _check(path, inputs)


def test_what_cannot_be_unrolled_is_named(tmp_path: Path) -> None:
    _save(tmp_path / "model.onnx", "LSTM", {"clip": 1.0, "input_forget": 1}, initial=False)
    with pytest.raises(ModelError, match=r"^LSTM has a clip and coupled gates, which is not"):
        tvm_ios.compile(tmp_path / "model.onnx", search=False)


@pytest.mark.parametrize("shape", [(0, BATCH, WIDTH), (LENGTH, 0, WIDTH)])
def test_an_empty_sequence_or_batch_is_refused(shape: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    _save(path, "GRU", {}, initial=False)
    model = onnx.load(path)
    given = model.graph.input[0]
    given.CopyFrom(helper.make_tensor_value_info(given.name, TensorProto.FLOAT, shape))
    onnx.save(model, path)
    with pytest.raises(ModelError, match=r"^GRU has an empty sequence or batch, which is not"):
        tvm_ios.compile(path, search=False)
