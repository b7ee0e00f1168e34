# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers, compared with ONNX Runtime's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

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


PARAMETERS = {
    "Affine": "alpha beta", "Elu": "alpha", "HardSigmoid": "alpha beta", "LeakyRelu": "alpha",
    "Relu": "", "ScaledTanh": "alpha beta", "Sigmoid": "", "Softplus": "", "Softsign": "",
    "Tanh": "", "ThresholdedRelu": "alpha",
}  # fmt: skip
"""The activations, with the parameters that each reads."""


@dataclass(frozen=True)
class Drawn:
    """A layer of random sizes, attributes and inputs, some of which are initialisers."""

    kind: str
    attributes: dict[str, Any]
    arrays: dict[str, np.ndarray]
    fixed: set[str]

    @classmethod
    def of(cls, seed: int) -> Drawn:
        random = np.random.default_rng(seed)
        kind = str(random.choice(list(GATES)))
        direction = str(random.choice(["forward", "reverse", "bidirectional"]))
        directions = 2 if direction == "bidirectional" else 1
        length, batch, width, hidden = (int(n) for n in random.integers(1, [7, 6, 6, 20]))
        rows = GATES[kind] * hidden
        sizes = {
            "x": (length, batch, width),
            "w": (directions, rows, width),
            "r": (directions, rows, hidden),
            "b": (directions, 2 * rows),
            "h": (directions, batch, hidden),
        }
        if kind == "LSTM":
            sizes |= {"c": (directions, batch, hidden), "p": (directions, 3 * hidden)}
        arrays = {
            name: (0.5 * random.standard_normal(size)).astype("float32")
            for name, size in sizes.items()
            if name in "xwr" or random.random() < 0.6
        }
        if random.random() < 0.6:
            arrays["lengths"] = random.integers(0, length + 1, batch).astype("int32")
        fixed = {name for name in arrays if name != "x" and random.random() < 0.5}
        attributes = {"direction": direction, "hidden_size": hidden}
        attributes |= cls._attributes(random, kind, directions)
        return cls(kind, attributes, arrays, fixed)

    @staticmethod
    def _attributes(random: np.random.Generator, kind: str, directions: int) -> dict[str, Any]:
        count = directions * {"LSTM": 3, "GRU": 2, "RNN": 1}[kind]
        names = [str(name) for name in random.choice(list(PARAMETERS), count)]
        made: dict[str, Any] = {}
        if random.random() < 0.7:
            made["activations"] = names
            for parameter in ("alpha", "beta"):
                needed = sum(parameter in PARAMETERS[name] for name in names)
                numbers = [float(number) for number in random.uniform(0.2, 0.9, needed)]
                made |= {f"activation_{parameter}": numbers} if numbers else {}
        if random.random() < 0.4:
            made["clip"] = float(random.uniform(0.1, 1))
        flag = {"LSTM": "input_forget", "GRU": "linear_before_reset"}.get(kind)
        return made | ({flag: 1} if flag and random.random() < 0.5 else {})

    def save(self, path: Path, layout: int = 0) -> dict[str, np.ndarray]:
        """Write the model, with the batch first if ``layout`` is 1, and return its inputs."""
        names = ["x", "w", "r", "b", "lengths", "h"] + ["c", "p"] * (self.kind == "LSTM")
        outputs = ["y", "y_h"] + ["y_c"] * (self.kind == "LSTM")
        arrays = {
            name: np.ascontiguousarray(a.swapaxes(0, 1) if layout and name in "xhc" else a)
            for name, a in self.arrays.items()
        }
        value, dtype = helper.make_tensor_value_info, helper.np_dtype_to_tensor_dtype
        graph = helper.make_graph(
            [
                helper.make_node(
                    self.kind,
                    [name if name in arrays else "" for name in names],
                    outputs,
                    **({"layout": 1} if layout else {}),
                    **self.attributes,
                )
            ],
            "g",
            [value(n, dtype(a.dtype), a.shape) for n, a in arrays.items() if n not in self.fixed],
            [value(name, dtype(arrays["x"].dtype), None) for name in outputs],
            [onnx.numpy_helper.from_array(arrays[name], name) for name in sorted(self.fixed)],
        )
        opsets = [helper.make_opsetid("", 21)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
        return {name: a for name, a in arrays.items() if name not in self.fixed}

    def cast(self, dtype: str) -> Drawn:
        """Return the layer in another type."""
        arrays = {n: a if n == "lengths" else a.astype(dtype) for n, a in self.arrays.items()}
        return replace(self, arrays=arrays)


@pytest.mark.parametrize("seed", range(16))
def test_drawn_layers(seed: int, tmp_path: Path) -> None:
    """ONNX Runtime has no layers with the batch first, so its inputs and results are moved."""
    drawn, path, layout = Drawn.of(seed), tmp_path / "model.onnx", seed % 2
    inputs = drawn.save(path)
    wanted = onnxruntime.InferenceSession(path).run(None, inputs)
    if layout:
        wanted = [wanted[0].transpose(2, 0, 1, 3), *(w.swapaxes(0, 1) for w in wanted[1:])]
        inputs = drawn.save(path, layout)
    results = tvm_ios.compile(path, search=False, threads=1)(*inputs.values())
    for result, value in zip(results, wanted, strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-4, atol=1e-5)


def _fixed_sizes(kind: str, direction: str = "forward") -> Drawn:
    """Return a layer whose weights are initialisers."""
    directions, rows = 2 if direction == "bidirectional" else 1, GATES[kind] * HIDDEN
    sizes = {
        "x": (LENGTH, BATCH, WIDTH),
        "w": (directions, rows, WIDTH),
        "r": (directions, rows, HIDDEN),
        "b": (directions, 2 * rows),
    }
    if kind == "LSTM":
        sizes["p"] = (directions, 3 * HIDDEN)
    random = np.random.default_rng(0)
    arrays = {n: (0.5 * random.standard_normal(s)).astype("float32") for n, s in sizes.items()}
    return Drawn(kind, {"direction": direction, "hidden_size": HIDDEN}, arrays, {"w", "r", "b"})


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_types(dtype: str, tmp_path: Path) -> None:
    """ONNX's reference evaluator says what is right."""
    given, path = _fixed_sizes("LSTM", "bidirectional").cast(dtype), tmp_path / "model.onnx"
    inputs = given.cast("float64").save(path)
    wanted = ReferenceEvaluator(str(path)).run(None, inputs)
    inputs = given.save(path)
    results = tvm_ios.compile(path, search=False, threads=1)(*inputs.values())
    tolerance = 1e-3 if dtype == "float16" else 1e-13
    for result, value in zip(results, wanted, strict=True):
        assert str(result.dtype) == dtype
        np.testing.assert_allclose(result, value, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("length", [-1, LENGTH + 1])
def test_a_length_out_of_range(length: int, tmp_path: Path) -> None:
    path, layer = tmp_path / "model.onnx", _fixed_sizes("RNN")
    layer.arrays["lengths"] = np.array([1, length], "int32")
    inputs = layer.save(path)
    module = tvm_ios.compile(path, search=False, threads=1)
    with pytest.raises(IndexError, match=rf"from 0 to {LENGTH}, got {length}"):
        module(*inputs.values())
    layer.fixed.add("lengths")
    layer.save(path)
    with pytest.raises(ModelError, match=rf"^RNN has the lengths \[1, {length}\], which must be"):
        tvm_ios.compile(path, search=False)


REFUSED = {
    "a length of its weights": ({"hidden_size": 6}, r"has weights of \[1, 28, 3\], which must be"),
    "a direction": ({"direction": "up"}, "has the direction 'up', which is not known"),
    "a clip": ({"clip": 0.0}, "has a clip of 0.0, which must be positive"),
    "too few activations": ({"activations": ["Tanh"]}, "has 1 activations, but needs 3"),
    "an unknown one": ({"activations": ["Tanh", "Sin", "Tanh"]}, "has the activation 'Sin'"),
    "an open parameter": (
        {"activations": ["Tanh", "ThresholdedRelu", "Tanh"]},
        "leaves the alpha of thresholdedrelu open, on which implementations differ",
    ),
    "a parameter too many": (
        {"activation_alpha": [0.1]},
        "has 1 numbers in activation_alpha, of which its activations read 0",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str, tmp_path: Path) -> None:
    given, message = REFUSED[case]
    layer = _fixed_sizes("LSTM")
    replace(layer, attributes=layer.attributes | given).save(tmp_path / "model.onnx")
    with pytest.raises(ModelError, match=f"^LSTM {message}"):
        tvm_ios.compile(tmp_path / "model.onnx", search=False)


@pytest.mark.parametrize("shape", [(0, BATCH, WIDTH), (LENGTH, 0, WIDTH)])
def test_an_empty_sequence_or_batch_is_refused(shape: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    _save(path, "GRU", {}, initial=False)
    model = onnx.load(path)
    given = model.graph.input[0]
    given.CopyFrom(helper.make_tensor_value_info(given.name, TensorProto.FLOAT, shape))
    onnx.save(model, path)
    with pytest.raises(ModelError, match=r"^GRU has an empty sequence or batch; export"):
        tvm_ios.compile(path, search=False)
