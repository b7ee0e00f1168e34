# SPDX-License-Identifier: Apache-2.0
"""Conversion of PyTorch's recurrent layers, which it would decompose into all their steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from ....ops.recurrence import Cell, Recurrence
from ....ops.recurrence_function import recurrence
from ....support.errors import ModelError
from ...emitter import shape_of
from ...onnx.operators.table import Value
from ..node_emitter import AtenEmitter
from .table import Converter, operator

Expr = Any


def _layers(cell: Cell, *activations: str) -> Converter:
    """Return the conversion of a stack of layers of a cell."""

    def convert(
        emit: AtenEmitter,
        data: Expr,
        states: Any,
        weights: list[Expr],
        biased: bool,
        layers: int,
        dropout: float,
        train: bool,
        both: bool,
        first: bool,
    ) -> Value:
        states = list(states) if cell == "lstm" else [states]
        directions, count = 1 + both, 4 if biased else 2
        _check(emit, data, projects=len(weights) != layers * directions * count)
        if train and dropout:
            raise ModelError("The model drops values out; export it in inference mode.")
        builder, lasts = emit.builder, []
        for number in range(layers):
            results = []
            for d in range(directions):
                place = number * directions + d
                layer = _Layer(
                    builder, cell, activations, bool(first), backwards=d == 1, paired=bool(both)
                )
                own = weights[place * count : (place + 1) * count]
                initial = [layer.row(state, place) for state in states]
                result, *last = layer.emit(data, own[:2], own[2:], initial)
                results.append(result)
                lasts.append([builder.emit(relax.op.expand_dims(value, 0)) for value in last])
            data = builder.emit(relax.op.concat(results, 2)) if both else results[0]
        last = [builder.emit(relax.op.concat(rows, 0)) for rows in zip(*lasts, strict=True)]
        return (data, *last)

    return convert


def _check(emit: AtenEmitter, data: Expr, *, projects: bool) -> None:
    """Raise ModelError for a layer that cannot be converted."""
    if projects:
        raise emit.error("projects its state; export the model without projections.")
    if 0 in shape_of(data):
        raise emit.error("has an empty sequence or batch; export the model for others.")


@dataclass(frozen=True)
class _Layer:
    """One direction of one layer."""

    builder: relax.BlockBuilder
    cell: Cell
    activations: tuple[str, ...]
    batch_first: bool
    backwards: bool
    paired: bool

    def row(self, value: Expr, number: int) -> Expr:
        """Return ``value[number]``."""
        part = self.builder.emit(relax.op.strided_slice(value, [0], [number], [number + 1]))
        return self.builder.emit(relax.op.squeeze(part, [0]))

    def emit(
        self, data: Expr, weights: list[Expr], biases: list[Expr], states: list[Expr]
    ) -> list[Expr]:
        """Emit the layer, which is computed in float32 or float64, and return its outputs."""
        emit, dtype = self.builder.emit, str(data.ty.dtype.dtype)
        computed = "float64" if dtype == "float64" else "float32"
        first, second, _ = shape_of(data)
        hidden = int(weights[1].ty.shape.values[1])
        layer = Recurrence(
            cell=self.cell,
            activations=self.activations,
            steps=second if self.batch_first else first,
            batch=first if self.batch_first else second,
            hidden=hidden,
            backwards=self.backwards,
            batch_first=self.batch_first,
            reset_after=self.cell == "gru",
            dtype=computed,
            paired=self.paired,
        )
        entering, recurrent = (emit(relax.op.permute_dims(w, [1, 0])) for w in weights)
        biases, own = self._biases(biases, hidden, dtype)
        products = emit(relax.op.matmul(data, entering))
        if biases:
            products = emit(relax.op.add(products, emit(relax.op.add(*biases))))
        inputs = [products, recurrent, *own, *states]
        outputs = recurrence(self.builder, layer, [self._cast(v, computed) for v in inputs])
        parts = [emit(relax.TupleGetItem(outputs, n)) for n in range(1 + layer.states)]
        return [self._cast(part, dtype) for part in parts]

    def _biases(self, biases: list[Expr], hidden: int, dtype: str) -> tuple[list[Expr], list[Expr]]:
        """Return what is added to the input's product, and the bias of a gru's new state."""
        if self.cell != "gru":
            return biases, []
        zeros, emit = relax.const(np.zeros(hidden, dtype), dtype), self.builder.emit
        if not biases:
            return [], [zeros]
        gates = emit(relax.op.strided_slice(biases[1], [0], [0], [2 * hidden]))
        new = emit(relax.op.strided_slice(biases[1], [0], [2 * hidden], [3 * hidden]))
        return [biases[0], emit(relax.op.concat([gates, zeros], 0))], [new]

    def _cast(self, value: Expr, dtype: str) -> Expr:
        if str(value.ty.dtype.dtype) == dtype:
            return value
        return self.builder.emit(relax.op.astype(value, dtype))


operator("lstm.input")(_layers("lstm", "sigmoid", "tanh", "tanh"))
operator("gru.input")(_layers("gru", "sigmoid", "tanh"))
operator("rnn_tanh.input")(_layers("rnn", "tanh"))
operator("rnn_relu.input")(_layers("rnn", "relu"))
