# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers, of one or both directions; the longest sequence has a static length.

The products of all steps' inputs with the weights are one matrix product; what remains is one
function for each direction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from tvm import relax

from ....ops.recurrence import Cell, Recurrence
from ....ops.recurrence_function import recurrence
from ....sizes.arithmetic import is_empty, require_equal
from ....sizes.size import AnyShape, AnySize, Size, is_open
from ...emitter import constant, constant_array, dtype_of, is_constant, shape_of
from ..node_emitter import NodeEmitter
from .recurrent_form import Form, form_of
from .table import Value, operator


@dataclass(frozen=True)
class CellKind:
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


LSTM = CellKind("lstm", ["Sigmoid", "Tanh", "Tanh"], [0, 2, 3, 1])  # i, o, f, c
_GRU = CellKind("gru", ["Sigmoid", "Tanh"], [1, 0, 2])  # z, r, h
_RNN = CellKind("rnn", ["Tanh"], [0])


@dataclass(frozen=True)
class Tensors:
    """The inputs of a layer; None for one that is left out."""

    data: relax.Expr
    weights: relax.Expr
    recurrent: relax.Expr
    biases: relax.Expr | None
    lengths: relax.Expr | None
    peepholes: relax.Expr | None
    states: Sequence[relax.Expr | None]


@dataclass(frozen=True)
class Layer:
    """A layer with its inputs."""

    emit: NodeEmitter
    cell: CellKind
    form: Form
    given: Tensors

    @cached_property
    def length(self) -> AnySize:
        return shape_of(self.given.data)[1 if self.form.batch_first else 0]

    @cached_property
    def batch(self) -> AnySize:
        return shape_of(self.given.data)[0 if self.form.batch_first else 1]

    @cached_property
    def hidden(self) -> int:
        size = shape_of(self.given.recurrent)[2]
        if isinstance(size, Size):
            raise self.emit.error(f"has states of {size} elements, whose number must not be open.")
        return size

    @property
    def quantized(self) -> bool:
        """Whether states are rounded to 8 bits before they are multiplied."""
        return False

    @cached_property
    def dtype(self) -> str:
        """The type in which the layer is computed."""
        return "float64" if dtype_of(self.given.data) == "float64" else "float32"

    def of(self, tensor: relax.Expr, direction: int) -> relax.Expr:
        """Return the part of a direction."""
        emit = self.emit
        known = constant_array(tensor)
        if known is not None:
            return constant(known[direction])
        part = emit.slice(tensor, 0, direction, direction + 1)
        return emit.reshape(part, shape_of(tensor)[1:])

    def products(self, direction: int) -> relax.Expr:
        """Return the products of the inputs of all steps with the weights."""
        weights = self.columns(self.given.weights, direction)
        return self.emit(relax.op.matmul(self.given.data, weights))

    def factors(self, direction: int) -> list[relax.Expr]:
        """Return what a state is multiplied by: weights, and their scales if these are integers."""
        return [self.columns(self.given.recurrent, direction)]

    def columns(self, weights: relax.Expr, direction: int) -> relax.Expr:
        """Return the weights of a direction, with a column for each gate's unit."""
        return self.emit.transpose(self.ordered(self.of(weights, direction)), [1, 0])

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
        lengths = self._lengths()
        return [self._outputs(d, lengths) for d in range(self.form.directions)]

    def _outputs(self, direction: int, lengths: list[relax.Expr]) -> list[relax.Expr]:
        emit, given = self.emit, self.given
        described = Recurrence(
            cell=self.cell.name,
            steps=self.length,
            batch=self.batch,
            hidden=self.hidden,
            peepholes=given.peepholes is not None,
            ragged=bool(lengths),
            dtype=self.dtype,
            quantized=self.quantized,
            paired=self.form.directions > 1,
            **self.form.of(direction),
        )
        products, recurrent = self.products(direction), self.factors(direction)
        bias, kept = self._biases(direction)
        if bias is not None:
            products = emit(relax.op.add(products, bias))
        if given.peepholes is not None:
            kept = [*kept, self._peepholes(given.peepholes, direction)]
        inputs = [products, *recurrent, *kept, *lengths, *self._initial(direction)]
        types = described.input_types
        inputs = [emit.cast(x, dtype) for x, dtype in zip(inputs, types, strict=True)]
        found = recurrence(emit.builder, described, inputs)
        values = [emit(relax.TupleGetItem(found, i)) for i in range(1 + self.cell.states)]
        return [emit.cast(value, dtype_of(given.data)) for value in values]

    def _biases(self, direction: int) -> tuple[relax.Expr | None, list[relax.Expr]]:
        """Return what is added to the products, and the state's own of a reset after those."""
        emit, size = self.emit, self.hidden
        width = len(self.cell.order) * size
        if self.given.biases is None:
            zeros = emit.full([size], 0, dtype_of(self.given.data))
            return None, [zeros] if self.form.reset_after else []
        both = self.of(self.given.biases, direction)
        first, second = (
            self.ordered(emit.slice(both, 0, begin, begin + width)) for begin in (0, width)
        )
        if not self.form.reset_after:
            return emit(relax.op.add(first, second)), []
        shared = emit.slice(second, 0, 0, 2 * size)
        zeros = emit.full([size], 0, dtype_of(both))
        added = emit(relax.op.concat([shared, zeros], 0))
        return emit(relax.op.add(first, added)), [emit.slice(second, 0, 2 * size, width)]

    def _peepholes(self, given: relax.Expr, direction: int) -> relax.Expr:
        """Return the rows i, f, o, which ONNX orders as i, o, f."""
        rows = self.emit.reshape(self.of(given, direction), [3, self.hidden])
        parts = [self.emit.slice(rows, 0, place, place + 1) for place in (0, 2, 1)]
        return self.emit(relax.op.concat(parts, 0))

    def _lengths(self) -> list[relax.Expr]:
        """Return the checked lengths of the rows, unless they are all known to be the same."""
        emit, given = self.emit, self.given.lengths
        if given is None:
            return []
        known = constant_array(given)
        if known is None or is_open(
            [self.length]
        ):  # what is taken is the length itself, which is checked by it
            valid = emit.positions(self.length + 1, dtype_of(given))
            return [emit(relax.op.take(valid, given, 0))]
        if not ((known >= 0) & (known <= self.length)).all():
            raise emit.error(
                f"has the lengths {known.tolist()}, which must be from 0 to {self.length}."
            )
        return [] if (known == self.length).all() else [given]

    def _initial(self, direction: int) -> list[relax.Expr]:
        emit, found = self.emit, []
        for given in self.given.states:
            if given is None:
                zeros = emit.full([self.batch, self.hidden], 0, dtype_of(self.given.data))
                found.append(zeros)
                continue
            state = emit.transpose(given, [1, 0, 2]) if self.form.batch_first else given
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
    states = [initial_h, initial_c]
    given = Tensors(data, weights, recurrent, biases, sequence_lens, peepholes, states)
    return converted(Layer, emit, LSTM, given, coupled=bool(input_forget), **shared)


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
    given = Tensors(data, weights, recurrent, biases, sequence_lens, None, [initial_h])
    return converted(Layer, emit, _GRU, given, reset_after=bool(linear_before_reset), **shared)


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
    given = Tensors(data, weights, recurrent, biases, sequence_lens, None, [initial_h])
    return converted(Layer, emit, _RNN, given, **shared)


def converted(
    kind: Callable[..., Layer],
    emit: NodeEmitter,
    cell: CellKind,
    given: Tensors,
    *,
    hidden_size: int | None = None,
    **attributes: Any,
) -> Value:
    """Convert a layer, made of some tensors by a subclass of :class:`Layer`."""
    layer = kind(emit, cell, form_of(emit, cell.activations, **attributes), given)
    _check_shapes(layer, hidden_size)
    return _joined(layer)


def _check_shapes(layer: Layer, hidden_size: int | None) -> None:
    """Raise ModelError for inputs that do not belong together."""
    emit, given, cell = layer.emit, layer.given, layer.cell
    for name, tensor in (("data", given.data), ("recurrence weights", given.recurrent)):
        if len(shape_of(tensor)) != 3:
            raise emit.error(f"has {name} of {list(shape_of(tensor))}, which need 3 axes.")
    if is_empty((layer.length, layer.batch)):
        raise emit.error("has an empty sequence or batch; export the model for others.")
    hidden, each = hidden_size or layer.hidden, layer.form.directions
    rows = len(cell.order) * hidden
    state = [layer.batch, each, hidden] if layer.form.batch_first else [each, layer.batch, hidden]
    wanted = (
        ("weights", given.weights, [each, rows, shape_of(given.data)[2]]),
        ("recurrence weights", given.recurrent, [each, rows, hidden]),
        ("biases", given.biases, [each, 2 * rows]),
        ("lengths", given.lengths, [layer.batch]),
        ("peepholes", given.peepholes, [each, 3 * hidden]),
        *(("an initial state", value, state) for value in given.states),
    )
    for name, tensor, shape in wanted:
        if tensor is not None and not _is_of(shape_of(tensor), shape):
            raise emit.error(f"has {name} of {list(shape_of(tensor))}, which must be {shape}.")


def _is_of(shape: AnyShape, wanted: Sequence[AnySize]) -> bool:
    return len(shape) == len(wanted) and all(map(require_equal, shape, wanted))


def _joined(layer: Layer) -> Value:
    """Return all steps, and the last of each state, with an axis for the directions."""
    first, emit = layer.form.batch_first, layer.emit
    axes = (2 if first else 1, 1 if first else 0, 1 if first else 0)
    results = []
    for axis, parts in zip(axes, zip(*layer.outputs(), strict=True), strict=False):
        shape = shape_of(parts[0])
        apart = [emit.reshape(part, [*shape[:axis], 1, *shape[axis:]]) for part in parts]
        results.append(apart[0] if len(apart) == 1 else emit(relax.op.concat(apart, axis)))
    return tuple(results)
