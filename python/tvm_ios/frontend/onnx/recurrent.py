# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers of ONNX: the sequence has a static length.

The products of all steps' inputs with the weights are one matrix product; what remains is one
operator for each direction, which :mod:`.convert` converts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ops.recurrence import Cell, Recurrence
from ...support.errors import ModelError
from .nodes import Nodes, attributes, described

if TYPE_CHECKING:
    import onnx

_ACTIVATIONS = ("Relu", "Sigmoid", "Tanh")
_IGNORED = ("activation_alpha", "activation_beta")  # of other activations


OPERATOR = "Recurrence"
"""Our operator for one direction of a layer, see :class:`~tvm_ios.ops.recurrence.Recurrence`."""


def lstm(nodes: Nodes, node: onnx.NodeProto) -> bool:
    """Replace an LSTM, whose gates are i, o, f and c here."""
    return _replace(nodes, node, "lstm", ["Sigmoid", "Tanh", "Tanh"], [0, 2, 3, 1])


def gru(nodes: Nodes, node: onnx.NodeProto) -> bool:
    """Replace a GRU, whose gates are z, r and h here."""
    return _replace(nodes, node, "gru", ["Sigmoid", "Tanh"], [1, 0, 2])


def rnn(nodes: Nodes, node: onnx.NodeProto) -> bool:
    """Replace a simple recurrent layer."""
    return _replace(nodes, node, "rnn", ["Tanh"], [0])


@dataclass(frozen=True)
class _Layer:
    """What all directions of a layer share.

    Attributes
    ----------
    nodes : Nodes
    node : onnx.NodeProto
    order : list of int
        The places of our gates among the operator's.
    activations : list of str
        Those of all directions.
    batch_first : bool
        Whether the batch is the first axis of the data, instead of the second.
    """

    nodes: Nodes
    node: onnx.NodeProto
    order: list[int]
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

    def ordered(self, array: np.ndarray) -> np.ndarray:
        """Return weights or a bias with its gates, along the first axis, in our order."""
        parts = np.split(array, len(self.order))
        return np.concatenate([parts[gate] for gate in self.order])

    def biases(self, direction: int) -> tuple[np.ndarray, np.ndarray]:
        """Return what is added to the products of the input, and to those of the state."""
        width = self.weights(2).shape[1]
        if not self.inputs[3]:
            return (np.zeros(width, self.weights(1).dtype),) * 2
        both = self.weights(3)[direction]
        return self.ordered(both[:width]), self.ordered(both[width:])

    def cast(self, value: str, dtype: str) -> str:
        """Return a value of the layer, or of a recurrence, in another type if it has not that."""
        import onnx

        if self.weights(1).dtype == "float32":
            return value
        return self.nodes.add(
            "Cast", value, to=onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        )

    def swapped(self, value: str) -> str:
        """Return the data, or a state, with the batch as the second axis."""
        return self.nodes.add("Transpose", value, perm=[1, 0, 2]) if self.batch_first else value


def _replace(
    nodes: Nodes, node: onnx.NodeProto, cell: Cell, activations: list[str], order: list[int]
) -> bool:
    """Add the products of the input and the recurrence of each direction.

    Parameters
    ----------
    nodes : Nodes
    node : onnx.NodeProto
    cell : "lstm", "gru" or "rnn"
    activations : list of str
        The default ones of a direction.
    order : list of int
        The places of our gates among the operator's.
    """
    given = attributes(node)
    directions = 2 if given.get("direction") == b"bidirectional" else 1
    names = [a.decode() for a in given.get("activations", [])] or activations * directions
    layer = _Layer(nodes, node, order, names, bool(given.get("layout", 0)))
    length, batch = _checked(layer)
    size, share = layer.weights(2).shape[2], len(names) // directions
    states = 2 if cell == "lstm" else 1
    zeros = np.zeros((directions, batch, size), layer.weights(1).dtype)
    initial = [
        layer.swapped(name) if name else nodes.constant(zeros)
        for name in layer.inputs[5 : 5 + states]
    ]
    outputs = []
    for d in range(directions):
        recurrence = Recurrence(
            cell=cell,
            activations=tuple(name.lower() for name in names[d * share : (d + 1) * share]),
            steps=length,
            batch=batch,
            hidden=size,
            backwards=given.get("direction") == b"reverse" or d == 1,
            batch_first=layer.batch_first,
            reset_after=bool(given.get("linear_before_reset", 0)) and cell == "gru",
        )
        state = [nodes.add("Gather", value, nodes.int64(d)) for value in initial]
        outputs.append(_recur(layer, recurrence, d, state))
    _outputs(layer, outputs)
    return True


def _recur(layer: _Layer, recurrence: Recurrence, direction: int, state: list[str]) -> list[str]:
    """Add one direction, which is computed in float32, and return its outputs."""
    nodes, size = layer.nodes, recurrence.hidden
    weights, recurrent = (layer.ordered(layer.weights(place)[direction]).T for place in (1, 2))
    bias, own = layer.biases(direction)
    kept = np.zeros_like(own)  # the bias of a new state whose reset comes after the product
    if recurrence.reset_after:
        kept[2 * size :] = own[2 * size :]
    products = nodes.add("MatMul", layer.inputs[0], nodes.constant(weights))
    products = nodes.add("Add", products, nodes.constant(bias + own - kept))
    constants = [recurrent, *([kept[2 * size :]] if recurrence.reset_after else [])]
    inputs = [
        layer.cast(products, "float32"),
        *(nodes.constant(array.astype("float32")) for array in constants),
        *(layer.cast(value, "float32") for value in state),
    ]
    outputs = nodes.own(OPERATOR, inputs, recurrence.outputs, layer=recurrence.text)
    return [layer.cast(value, str(weights.dtype)) for value in outputs]


def _checked(layer: _Layer) -> tuple[int, int]:
    """Return the length of the sequence and the batch.

    Raises
    ------
    ModelError
        For a layer that cannot be converted.
    """
    nodes, inputs, given = layer.nodes, layer.inputs, layer.given
    shape, lengths = nodes.shape(inputs[0]), nodes.array(inputs[4])
    length, batch = (shape or [0, 0])[:2][:: -1 if layer.batch_first else 1]
    same = lengths is not None and bool((lengths == length).all())
    constant = all(nodes.array(name) is not None for name in inputs[1:4] if name)
    reasons = {
        "a length that is not known": shape is None,
        "an empty sequence or batch": shape is not None and 0 in (length, batch),
        "sequences of several lengths": bool(inputs[4]) and not same,
        "peepholes": bool(inputs[7]),
        "a clip": "clip" in given,
        "coupled gates": bool(given.get("input_forget", 0)),
        f"other activations than {', '.join(_ACTIVATIONS)}": (
            not set(layer.activations) <= set(_ACTIVATIONS)
        ),
        "parameters of activations": any(name in given for name in _IGNORED),
        "weights that are computed": not constant,
        "more digits than float32": constant and layer.weights(1).dtype == "float64",
    }
    found = [reason for reason, holds in reasons.items() if holds]
    if found:
        raise ModelError(
            f"{described(layer.node)} has {' and '.join(found)}, which is not "
            "supported; export the model without it."
        )
    return length, batch


def _outputs(layer: _Layer, directions: list[list[str]]) -> None:
    """Write the outputs that are there: all steps, and the last of each state."""
    nodes, node, first = layer.nodes, layer.node, layer.batch_first
    axes = (2 if first else 1, 1 if first else 0, 1 if first else 0)
    for name, axis, values in zip(node.output, axes, zip(*directions, strict=True), strict=False):
        if name:
            parts = [nodes.unsqueezed(value, axis) for value in values]
            nodes.add("Concat", *parts, output=name, axis=axis, name=node.name)
