# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers, of one or both directions; the sequence has a static length.

The products of all steps' inputs with the weights are one matrix product; what remains is one
function for each direction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from tvm import relax

from ....ops.recurrence import Cell, Recurrence, recurrence
from ...emitter import constant, constant_array, dtype_of, is_constant, shape_of
from ..node_emitter import NodeEmitter
from .table import Value, operator

_ACTIVATIONS = ("Relu", "Sigmoid", "Tanh")


@dataclass(frozen=True)
class _Cell:
    """A kind of layer.

    Attributes
    ----------
    name : "lstm", "gru" or "rnn"
    activations : list of str
        The default ones of a direction.
    order : list of int
        The places of our gates among ONNX's.
    """

    name: Cell
    activations: list[str]
    order: list[int]

    @property
    def states(self) -> int:
        return 2 if self.name == "lstm" else 1


_LSTM = _Cell("lstm", ["Sigmoid", "Tanh", "Tanh"], [0, 2, 3, 1])  # i, o, f, c
_GRU = _Cell("gru", ["Sigmoid", "Tanh"], [1, 0, 2])  # z, r, h
_RNN = _Cell("rnn", ["Tanh"], [0])


@dataclass(frozen=True)
class _Layer:
    """A layer with its inputs, of which data and states have the batch as the second axis."""

    emit: NodeEmitter
    cell: _Cell
    data: relax.Expr
    weights: relax.Expr
    recurrent: relax.Expr
    biases: relax.Expr | None
    states: Sequence[relax.Expr | None]
    direction: str
    activations: list[str]
    batch_first: bool
    reset_after: bool

    @cached_property
    def directions(self) -> int:
        return 2 if self.direction == "bidirectional" else 1

    @cached_property
    def length(self) -> int:
        return shape_of(self.data)[1 if self.batch_first else 0]

    @cached_property
    def batch(self) -> int:
        return shape_of(self.data)[0 if self.batch_first else 1]

    @cached_property
    def hidden(self) -> int:
        return shape_of(self.recurrent)[2]

    def of(self, tensor: relax.Expr, direction: int) -> relax.Expr:
        """Return the part of a direction."""
        emit = self.emit
        known = constant_array(tensor)
        if known is not None:
            return constant(known[direction])
        part = emit.slice(tensor, 0, direction, direction + 1)
        return emit.reshape(part, shape_of(tensor)[1:])

    def ordered(self, rows: relax.Expr) -> relax.Expr:
        """Return weights or a bias with its gates, along the first axis, in our order."""
        if self.cell.order == list(range(len(self.cell.order))):
            return rows
        each = shape_of(rows)[0] // len(self.cell.order)
        parts = [self.emit.slice(rows, 0, g * each, (g + 1) * each) for g in self.cell.order]
        if is_constant(rows):
            return constant(np.concatenate([self.emit.array(p, "its weights") for p in parts]))
        return self.emit(relax.op.concat(parts, 0))

    def outputs(self) -> list[list[relax.Expr]]:
        """Return all steps and the last states of each direction."""
        return [self._outputs(d) for d in range(self.directions)]

    def _outputs(self, direction: int) -> list[relax.Expr]:
        emit, share = self.emit, len(self.activations) // self.directions
        names = self.activations[direction * share : (direction + 1) * share]
        described = Recurrence(
            cell=self.cell.name,
            activations=tuple(name.lower() for name in names),
            steps=self.length,
            batch=self.batch,
            hidden=self.hidden,
            backwards=self.direction == "reverse" or direction == 1,
            batch_first=self.batch_first,
            reset_after=self.reset_after,
        )
        weights, recurrent = (
            emit.transpose(self.ordered(self.of(tensor, direction)), [1, 0])
            for tensor in (self.weights, self.recurrent)
        )
        products = emit(relax.op.matmul(self.data, weights))
        bias, kept = self._biases(direction)
        if bias is not None:
            products = emit(relax.op.add(products, bias))
        inputs = [products, recurrent, *kept, *self._initial(direction)]
        inputs = [emit.cast(x, "float32") for x in inputs]
        found = recurrence(emit.builder, described, inputs)
        values = [emit(relax.TupleGetItem(found, i)) for i in range(1 + self.cell.states)]
        return [emit.cast(value, dtype_of(self.data)) for value in values]

    def _biases(self, direction: int) -> tuple[relax.Expr | None, list[relax.Expr]]:
        """Return what is added to the products, and the state's own of a reset after those."""
        emit, size = self.emit, self.hidden
        width = len(self.cell.order) * size
        if self.biases is None:
            zeros = emit.full([size], 0, dtype_of(self.data))
            return None, [zeros] if self.reset_after else []
        both = self.of(self.biases, direction)
        first, second = (
            self.ordered(emit.slice(both, 0, begin, begin + width)) for begin in (0, width)
        )
        if not self.reset_after:
            return emit(relax.op.add(first, second)), []
        shared = emit.slice(second, 0, 0, 2 * size)
        zeros = emit.full([size], 0, dtype_of(both))
        added = emit(relax.op.concat([shared, zeros], 0))
        return emit(relax.op.add(first, added)), [emit.slice(second, 0, 2 * size, width)]

    def _initial(self, direction: int) -> list[relax.Expr]:
        emit, found = self.emit, []
        for given in self.states:
            if given is None:
                zeros = emit.full([self.batch, self.hidden], 0, dtype_of(self.data))
                found.append(zeros)
                continue
            state = emit.transpose(given, [1, 0, 2]) if self.batch_first else given
            found.append(self.of(state, direction))
        return found


_SHARED = frozenset((
    "activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size",
    "layout",
))  # fmt: skip
"""The attributes of all recurrent layers."""


@operator("LSTM", shared=_SHARED)
def lstm(
    emit: NodeEmitter,
    data: relax.Expr,
    weights: relax.Expr,
    recurrent: relax.Expr,
    biases: relax.Expr | None = None,
    sequence_lens: relax.Expr | None = None,
    initial_h: relax.Expr | None = None,
    initial_c: relax.Expr | None = None,
    peepholes: relax.Expr | None = None,
    *,
    input_forget: int = 0,
    **shared: Any,
) -> Value:
    reasons = {"peepholes": peepholes is not None, "coupled gates": bool(input_forget)}
    tensors = (data, weights, recurrent, biases)
    states = [initial_h, initial_c]
    return _converted(emit, _LSTM, tensors, sequence_lens, states, reasons, **shared)


@operator("GRU", shared=_SHARED)
def gru(
    emit: NodeEmitter,
    data: relax.Expr,
    weights: relax.Expr,
    recurrent: relax.Expr,
    biases: relax.Expr | None = None,
    sequence_lens: relax.Expr | None = None,
    initial_h: relax.Expr | None = None,
    *,
    linear_before_reset: int = 0,
    **shared: Any,
) -> Value:
    tensors = (data, weights, recurrent, biases)
    reset_after = bool(linear_before_reset)
    return _converted(emit, _GRU, tensors, sequence_lens, [initial_h], {}, reset_after, **shared)


@operator("RNN", shared=_SHARED)
def rnn(
    emit: NodeEmitter,
    data: relax.Expr,
    weights: relax.Expr,
    recurrent: relax.Expr,
    biases: relax.Expr | None = None,
    sequence_lens: relax.Expr | None = None,
    initial_h: relax.Expr | None = None,
    **shared: Any,
) -> Value:
    tensors = (data, weights, recurrent, biases)
    return _converted(emit, _RNN, tensors, sequence_lens, [initial_h], {}, **shared)


def _converted(
    emit: NodeEmitter,
    cell: _Cell,
    tensors: tuple[relax.Expr, relax.Expr, relax.Expr, relax.Expr | None],
    lengths: relax.Expr | None,
    states: Sequence[relax.Expr | None],
    reasons: Mapping[str, bool],
    reset_after: bool = False,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
) -> Value:
    """Convert a layer of some tensors, unless there is a reason not to."""
    directions = 2 if direction == "bidirectional" else 1
    names = list(activations) if activations else cell.activations * directions
    layer = _Layer(emit, cell, *tensors, states, direction, names, bool(layout), reset_after)
    parameters = activation_alpha is not None or activation_beta is not None
    more = {"a clip": clip is not None, "parameters of activations": parameters}
    _check(layer, lengths, {**more, **reasons})
    return _joined(layer)


def _check(layer: _Layer, lengths: relax.Expr | None, reasons: Mapping[str, bool]) -> None:
    """Raise ModelError for a layer that cannot be converted."""
    known = None if lengths is None else constant_array(lengths)
    same = known is not None and bool((known == layer.length).all())
    reasons = {
        "an empty sequence or batch": 0 in (layer.length, layer.batch),
        "sequences of several lengths": lengths is not None and not same,
        **reasons,
        f"other activations than {', '.join(_ACTIVATIONS)}": (
            not set(layer.activations) <= set(_ACTIVATIONS)
        ),
        "more digits than float32": dtype_of(layer.data) == "float64",
    }
    found = [reason for reason, holds in reasons.items() if holds]
    if found:
        raise layer.emit.error(
            f"has {' and '.join(found)}, which is not supported; export the model without it."
        )


def _joined(layer: _Layer) -> Value:
    """Return all steps, and the last of each state, with an axis for the directions."""
    first, emit = layer.batch_first, layer.emit
    axes = (2 if first else 1, 1 if first else 0, 1 if first else 0)
    results = []
    for axis, parts in zip(axes, zip(*layer.outputs(), strict=True), strict=False):
        shape = shape_of(parts[0])
        apart = [emit.reshape(part, [*shape[:axis], 1, *shape[axis:]]) for part in parts]
        results.append(apart[0] if len(apart) == 1 else emit(relax.op.concat(apart, axis)))
    return tuple(results)
