# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers of ONNX, unrolled: the sequence has a static length.

The products of all steps' inputs with the weights are one matrix product; what remains in a step is
the product with the state. The equations are those of ONNX's operators LSTM, GRU and RNN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ...support.errors import ModelError
from .nodes import Nodes, attributes, described

if TYPE_CHECKING:
    import onnx

_LONGEST = 1024  # steps; each is some ten operators
_ACTIVATIONS = ("Relu", "Sigmoid", "Tanh")
_IGNORED = ("activation_alpha", "activation_beta")  # of other activations


@dataclass(frozen=True)
class _Cell:
    """One direction of a layer.

    Attributes
    ----------
    nodes : Nodes
    activations : sequence of str
    recurrent : numpy.ndarray
        Weights of the state [hidden, gates * hidden].
    bias : numpy.ndarray
        What is added to the state's product, [gates * hidden].
    options : dict
        Attributes of the node.
    """

    nodes: Nodes
    activations: list[str]
    recurrent: np.ndarray
    bias: np.ndarray
    options: dict[str, Any]

    def split(self, value: str, parts: int) -> list[str]:
        """Split [batch, parts * hidden] by columns."""
        size = self.recurrent.shape[0]
        names = self.nodes.new("gate", parts)
        inputs, given = self.nodes.listed("Split", "split", *[size] * parts)
        return self.nodes.extend("Split", [value, *inputs], names, axis=1, **given)

    def product(self, state: str, columns: slice = slice(None)) -> str:
        """Multiply the state by weights, and add the bias."""
        weights = self.nodes.constant(self.recurrent[:, columns])
        bias = self.nodes.constant(self.bias[columns])
        return self.nodes.add("Add", self.nodes.add("MatMul", state, weights), bias)


State = tuple[str, ...]
Step = Callable[[_Cell, str, State], State]


def lstm(nodes: Nodes, node: onnx.NodeProto) -> bool:
    """Unroll an LSTM; its state is the output and the cell."""
    return _unroll(nodes, node, 4, ["Sigmoid", "Tanh", "Tanh"], 2, _lstm_step)


def gru(nodes: Nodes, node: onnx.NodeProto) -> bool:
    """Unroll a GRU."""
    return _unroll(nodes, node, 3, ["Sigmoid", "Tanh"], 1, _gru_step)


def rnn(nodes: Nodes, node: onnx.NodeProto) -> bool:
    """Unroll a simple recurrent layer."""
    return _unroll(nodes, node, 1, ["Tanh"], 1, _rnn_step)


def _lstm_step(cell: _Cell, gates: str, state: State) -> State:
    nodes, (f, g, h) = cell.nodes, cell.activations
    hidden, memory = state
    entered, out, forgotten, new = cell.split(nodes.add("Add", gates, cell.product(hidden)), 4)
    entered, out, forgotten = (nodes.add(f, gate) for gate in (entered, out, forgotten))
    kept = nodes.add("Mul", forgotten, memory)
    memory = nodes.add("Add", kept, nodes.add("Mul", entered, nodes.add(g, new)))
    return nodes.add("Mul", out, nodes.add(h, memory)), memory


def _gru_step(cell: _Cell, gates: str, state: State) -> State:
    nodes, (f, g) = cell.nodes, cell.activations
    (hidden,), size = state, cell.recurrent.shape[0]
    update_in, reset_in, new_in = cell.split(gates, 3)
    two = slice(0, 2 * size)
    update, reset = cell.split(cell.product(hidden, two), 2)
    update = nodes.add(f, nodes.add("Add", update_in, update))
    reset = nodes.add(f, nodes.add("Add", reset_in, reset))
    last = slice(2 * size, None)
    if cell.options.get("linear_before_reset"):
        new = nodes.add("Mul", reset, cell.product(hidden, last))
    else:
        new = cell.product(nodes.add("Mul", reset, hidden), last)
    new = nodes.add(g, nodes.add("Add", new_in, new))
    # (1 - z) * new + z * hidden
    return (nodes.add("Add", new, nodes.add("Mul", update, nodes.add("Sub", hidden, new))),)


def _rnn_step(cell: _Cell, gates: str, state: State) -> State:
    nodes, (f,) = cell.nodes, cell.activations
    return (nodes.add(f, nodes.add("Add", gates, cell.product(state[0]))),)


@dataclass(frozen=True)
class _Layer:
    """What all directions of a layer share.

    Attributes
    ----------
    nodes : Nodes
    node : onnx.NodeProto
    gates : int
        Parts of the weights.
    activations : list of str
        Those of all directions.
    batch_first : bool
        Whether the batch is the first axis of the data, instead of the second.
    """

    nodes: Nodes
    node: onnx.NodeProto
    gates: int
    activations: list[str]
    batch_first: bool

    @cached_property
    def given(self) -> dict[str, Any]:
        return attributes(self.node)

    @cached_property
    def inputs(self) -> list[str]:
        """All eight inputs; those that are left out are empty."""
        return [*self.node.input, *[""] * (8 - len(self.node.input))]

    def weights(self, place: int) -> np.ndarray:
        """Return an input that is constant."""
        array = self.nodes.array(self.inputs[place])
        assert array is not None, "the layer was checked"
        return array

    def cell(self, direction: int, biases: np.ndarray) -> _Cell:
        """Return a direction."""
        recurrent = self.weights(2)
        share = len(self.activations) // len(recurrent)
        names = self.activations[direction * share : (direction + 1) * share]
        own = biases[direction, self.gates * recurrent.shape[2] :]
        return _Cell(self.nodes, names, recurrent[direction].T, own, self.given)

    def swapped(self, value: str) -> str:
        """Return the data, or a state, with the batch as the second axis."""
        return self.nodes.add("Transpose", value, perm=[1, 0, 2]) if self.batch_first else value


def _unroll(
    nodes: Nodes, node: onnx.NodeProto, gates: int, activations: list[str], states: int, step: Step
) -> bool:
    """Add all steps of all directions.

    Parameters
    ----------
    nodes : Nodes
    node : onnx.NodeProto
    gates : int
        Parts of the weights.
    activations : list of str
        The default ones of a direction.
    states : int
        Values that a step hands on.
    step : callable
        Adds one step.
    """
    given = attributes(node)
    directions = 2 if given.get("direction") == b"bidirectional" else 1
    names = [a.decode() for a in given.get("activations", [])] or activations * directions
    layer = _Layer(nodes, node, gates, names, bool(given.get("layout", 0)))
    length, batch = _checked(layer)
    weights, (_, width, size) = layer.weights(1), layer.weights(2).shape
    biases = np.zeros((directions, 2 * width), weights.dtype)
    if layer.inputs[3]:
        biases = layer.weights(3)
    data = layer.swapped(layer.inputs[0])
    zeros = np.zeros((directions, batch, size), weights.dtype)
    initial = [
        layer.swapped(name) if name else nodes.constant(zeros)
        for name in layer.inputs[5 : 5 + states]
    ]
    rows, lasts = [], []
    for d in range(directions):
        product = nodes.add("MatMul", data, nodes.constant(weights[d].T))
        product = nodes.add("Add", product, nodes.constant(biases[d, :width]))
        state = tuple(nodes.add("Gather", value, nodes.int64(d)) for value in initial)
        backwards = given.get("direction") == b"reverse" or d == 1
        results, cell = [], layer.cell(d, biases)
        for t in reversed(range(length)) if backwards else range(length):
            state = step(cell, nodes.add("Gather", product, nodes.int64(t), axis=0), state)
            results.append(nodes.unsqueezed(state[0], 0, 1))
        rows.append(nodes.add("Concat", *(results[::-1] if backwards else results), axis=0))
        lasts.append(state)
    _outputs(layer, rows, lasts)
    return True


def _checked(layer: _Layer) -> tuple[int, int]:
    """Return the length of the sequence and the batch.

    Raises
    ------
    ModelError
        For a layer that cannot be unrolled.
    """
    nodes, inputs, given = layer.nodes, layer.inputs, layer.given
    shape, lengths = nodes.shape(inputs[0]), nodes.array(inputs[4])
    length, batch = (shape or [0, 0])[:2][:: -1 if layer.batch_first else 1]
    same = lengths is not None and bool((lengths == length).all())
    constant = all(nodes.array(name) is not None for name in inputs[1:4] if name)
    reasons = {
        "a length that is not known": shape is None,
        f"more than {_LONGEST} steps": length > _LONGEST,
        "sequences of several lengths": bool(inputs[4]) and not same,
        "peepholes": bool(inputs[7]),
        "a clip": "clip" in given,
        "coupled gates": bool(given.get("input_forget", 0)),
        f"other activations than {', '.join(_ACTIVATIONS)}": (
            not set(layer.activations) <= set(_ACTIVATIONS)
        ),
        "parameters of activations": any(name in given for name in _IGNORED),
        "weights that are computed": not constant,
    }
    found = [reason for reason, holds in reasons.items() if holds]
    if found:
        raise ModelError(
            f"{described(layer.node)} has {' and '.join(found)}, which is not "
            "supported; export the model without it."
        )
    return length, batch


def _outputs(layer: _Layer, rows: list[str], lasts: list[State]) -> None:
    """Write the outputs that are there: all steps, and the last of each state."""
    nodes, node = layer.nodes, layer.node
    wanted = [*node.output, *[""] * (3 - len(node.output))]
    if wanted[0]:
        joined = nodes.add("Concat", *rows, axis=1)
        perm = [2, 0, 1, 3] if layer.batch_first else [0, 1, 2, 3]
        nodes.add("Transpose", joined, output=wanted[0], perm=perm, name=node.name)
    for name, values in zip(wanted[1:], zip(*lasts, strict=True), strict=False):
        if name:
            parts = [nodes.unsqueezed(value, 0) for value in values]
            joined = nodes.add("Concat", *parts, axis=0)
            perm = [1, 0, 2] if layer.batch_first else [0, 1, 2]
            nodes.add("Transpose", joined, output=name, perm=perm)
