# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers in a Relax function as the operators of all steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..graph.recognise import is_recurrence
from ..ops.recurrence import Recurrence
from ..ops.recurrence_function import recurrence_of
from ..ops.recurrent_step import Formulas
from ..relax_ir.expressions import known_shape

Expr = Any


def unroll_recurrences(mod: tvm.IRModule, func: relax.Function) -> relax.Function:
    """Replace recurrent layers by the operators of all steps, for back ends without a kernel."""
    return _Unroller(mod).visit_expr(func)


@mutator
class _Unroller(PyExprMutator):
    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self._mod = mod

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        function = self._mod[call.args[0]] if is_recurrence(call) else None
        if not isinstance(function, tirx.PrimFunc):
            return call
        inputs = list(call.args[1].fields)
        layer = recurrence_of(function, known_shape(inputs[0]))
        return call if layer is None else unrolled(self.builder_, layer, inputs)


def unrolled(
    builder: relax.BlockBuilder, layer: Recurrence, inputs: list[relax.Expr]
) -> relax.Tuple:
    """Emit the operators of all steps of a layer, and return its outputs."""
    return _Steps(builder, layer, inputs).emit()


class _Steps:
    """Emits a layer's steps as operators."""

    def __init__(
        self, builder: relax.BlockBuilder, layer: Recurrence, inputs: list[relax.Expr]
    ) -> None:
        self._emit, self._layer = builder.emit, layer
        self._given = layer.operands(inputs)
        if self._given.scales is not None:  # the states are multiplied as they are, not rounded
            weights = self._emit(relax.op.astype(self._given.weights, layer.dtype))
            weights = self._emit(relax.op.multiply(weights, self._given.scales))
            self._given = replace(self._given, weights=weights)
        self._formulas = Formulas(layer, self._apply)

    def emit(self) -> relax.Tuple:
        """Emit all steps, and return the layer's outputs."""
        layer, states = self._layer, self._begin()
        axis = 1 if layer.batch_first else 0
        step = {"lstm": self._lstm, "gru": self._gru, "rnn": self._rnn}[layer.cell]
        results = []
        for number in range(layer.steps):
            place = layer.steps - 1 - number if layer.backwards else number
            part = relax.op.strided_slice(self._given.products, [axis], [place], [place + 1])
            new = step(self._emit(relax.op.squeeze(self._emit(part), [axis])), states)
            result, states = self._within(place, new, states)
            results.append(self._emit(relax.op.expand_dims(result, axis)))
        ordered = results[::-1] if layer.backwards else results
        return relax.Tuple([self._emit(relax.op.concat(ordered, axis)), *states])

    def _begin(self) -> list[Expr]:
        """Return the states before the first step; those of rows without steps are 0."""
        if self._given.lengths is None:
            return list(self._given.states)
        return [self._where(0, state, self._zeros()) for state in self._given.states]

    def _within(self, place: int, new: list[Expr], states: list[Expr]) -> tuple[Expr, list[Expr]]:
        """Return a step's result and the states after it, as the lengths of rows say."""
        if self._given.lengths is None:
            return new[0], new
        kept = [self._where(place, a, b) for a, b in zip(new, states, strict=True)]
        return self._where(place, new[0], self._zeros()), kept

    def _where(self, place: int, inside: Expr, outside: Expr) -> Expr:
        """Choose for each row, by whether its length is above a place."""
        lengths = self._emit(relax.op.expand_dims(self._given.lengths, 1))
        longer = self._emit(relax.op.greater(lengths, relax.const(place, self._layer.dtype)))
        return self._emit(relax.op.where(longer, inside, outside))

    def _zeros(self) -> Expr:
        return relax.const(0, self._layer.dtype)

    def _lstm(self, products: Expr, states: list[Expr]) -> list[Expr]:
        hidden, memory = states
        weights = self._given.peepholes
        sums = self._parts(self._add(products, self._product(hidden, self._given.weights)), 4)
        peepholes = None if weights is None else self._parts(weights, 3, axis=0)
        return list(self._formulas.lstm(sums, peepholes, memory))

    def _gru(self, products: Expr, states: list[Expr]) -> list[Expr]:
        (hidden,) = states
        given, size = self._given, 2 * self._layer.hidden
        weights = self._parts(given.weights, 3)
        both = relax.op.strided_slice(given.weights, [1], [0], [size])
        inputs = self._parts(products, 3)
        gates = self._parts(self._product(hidden, self._emit(both)), 2)
        reset, update = (self._formulas.gate(self._add(inputs[n], gates[n])) for n in range(2))
        if given.bias is not None:
            total = self._add(self._product(hidden, weights[2]), given.bias)
            total = self._multiply(reset, total)
        else:
            total = self._product(self._multiply(reset, hidden), weights[2])
        new = self._formulas.new(self._add(inputs[2], total))
        return [self._formulas.mixed(update, new, hidden)]

    def _rnn(self, products: Expr, states: list[Expr]) -> list[Expr]:
        total = self._add(products, self._product(states[0], self._given.weights))
        return [self._formulas.gate(total)]

    def _parts(self, value: Expr, count: int, axis: int = 1) -> list[Expr]:
        parts = self._emit(relax.op.split(value, count, axis=axis))
        return [self._emit(relax.TupleGetItem(parts, n)) for n in range(count)]

    def _product(self, value: Expr, weights: Expr) -> Expr:
        return self._emit(relax.op.matmul(value, weights))

    def _add(self, a: Expr, b: Expr) -> Expr:
        return self._apply("add", a, b)

    def _multiply(self, a: Expr, b: Expr) -> Expr:
        return self._apply("multiply", a, b)

    def _apply(self, name: str, *operands: Any) -> Expr:
        operation = _OPERATIONS.get(name) or getattr(relax.op, name)
        return self._emit(operation(*(self._number(x, operands[0]) for x in operands)))

    @staticmethod
    def _number(x: Any, like: Expr) -> Expr:
        return relax.const(x, str(like.ty.dtype)) if isinstance(x, float) else x


def _threshold(x: Expr, limit: Expr) -> Expr:
    zero = relax.const(0, str(x.ty.dtype))
    return relax.op.where(relax.op.less(x, limit), zero, x)


_OPERATIONS: dict[str, Callable[..., Expr]] = {"relu": relax.op.nn.relu, "threshold": _threshold}
"""What has another name in Relax, or none."""
