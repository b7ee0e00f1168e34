# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers in a Relax function as the operators of all steps."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

from ..graph.recognise import is_recurrence
from ..ops.recurrence import Recurrence, recurrence_of

_ACTIVATIONS = {"relu": relax.op.nn.relu, "sigmoid": relax.op.sigmoid, "tanh": relax.op.tanh}

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
        layer = recurrence_of(function) if isinstance(function, tirx.PrimFunc) else None
        if layer is None:
            return call
        return unrolled(self.builder_, layer, list(call.args[1].fields))


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
        self._products, self._weights, *rest = inputs
        self._bias = rest.pop(0) if layer.reset_after else None
        self._states = rest
        self._functions = [_ACTIVATIONS[name] for name in layer.activations]

    def emit(self) -> relax.Tuple:
        """Emit all steps, and return the layer's outputs."""
        layer, states = self._layer, self._states
        axis = 1 if layer.batch_first else 0
        step = {"lstm": self._lstm, "gru": self._gru, "rnn": self._rnn}[layer.cell]
        results = []
        for number in range(layer.steps):
            place = layer.steps - 1 - number if layer.backwards else number
            part = relax.op.strided_slice(self._products, [axis], [place], [place + 1])
            states = step(self._emit(relax.op.squeeze(self._emit(part), [axis])), states)
            results.append(self._emit(relax.op.expand_dims(states[0], axis)))
        ordered = results[::-1] if layer.backwards else results
        return relax.Tuple([self._emit(relax.op.concat(ordered, axis)), *states])

    def _lstm(self, products: Expr, states: list[Expr]) -> list[Expr]:
        f, g, h = self._functions
        hidden, memory = states
        gates = self._parts(self._add(products, self._product(hidden, self._weights)), 4)
        entered, forgotten, out = (self._emit(f(gates[n])) for n in (0, 1, 3))
        new = self._multiply(entered, self._emit(g(gates[2])))
        memory = self._add(self._multiply(forgotten, memory), new)
        return [self._multiply(out, self._emit(h(memory))), memory]

    def _gru(self, products: Expr, states: list[Expr]) -> list[Expr]:
        f, g = self._functions
        (hidden,) = states
        weights, size = self._parts(self._weights, 3), 2 * self._layer.hidden
        both = relax.op.strided_slice(self._weights, [1], [0], [size])
        inputs = self._parts(products, 3)
        gates = self._parts(self._product(hidden, self._emit(both)), 2)
        reset, update = (self._emit(f(self._add(inputs[n], gates[n]))) for n in range(2))
        if self._bias is not None:
            total = self._add(self._product(hidden, weights[2]), self._bias)
            total = self._multiply(reset, total)
        else:
            total = self._product(self._multiply(reset, hidden), weights[2])
        new = self._emit(g(self._add(inputs[2], total)))
        difference = self._emit(relax.op.subtract(hidden, new))
        return [self._add(new, self._multiply(update, difference))]

    def _rnn(self, products: Expr, states: list[Expr]) -> list[Expr]:
        (f,) = self._functions
        total = self._add(products, self._product(states[0], self._weights))
        return [self._emit(f(total))]

    def _parts(self, value: Expr, count: int) -> list[Expr]:
        parts = self._emit(relax.op.split(value, count, axis=1))
        return [self._emit(relax.TupleGetItem(parts, n)) for n in range(count)]

    def _product(self, value: Expr, weights: Expr) -> Expr:
        return self._emit(relax.op.matmul(value, weights))

    def _add(self, a: Expr, b: Expr) -> Expr:
        return self._emit(relax.op.add(a, b))

    def _multiply(self, a: Expr, b: Expr) -> Expr:
        return self._emit(relax.op.multiply(a, b))
