# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers as functions of TIR, which a network calls.

Such a function says what the layer means, and is what TVM compiles by itself.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from ..sizes.size import AnyShape, Size
from .dynamic_grid import grid_of, rounded
from .recurrence import Recurrence
from .recurrent_step import Formulas
from .tir_function import on_stack, tile_scope

Expr = Any

FUNCTION = "recurrence"
"""What the names of TIR functions that compute layers begin with."""

_ATTRIBUTE = "tvm_ios.recurrence"  # of a TIR function: the layer that it computes


def recurrence(
    builder: relax.BlockBuilder, layer: Recurrence, inputs: Sequence[relax.Expr]
) -> relax.Var:
    """Emit a layer, and return the tuple of its outputs.

    Parameters
    ----------
    builder : relax.BlockBuilder
    layer : Recurrence
    inputs : sequence of relax.Expr
        Of the shapes :attr:`Recurrence.inputs`, and of the types :attr:`Recurrence.input_types`.
    """
    name = f"{FUNCTION}_{zlib.crc32(repr(layer).encode()):08x}"
    function = builder.add_func(recurrence_function(layer, name), name)
    types = [relax.TensorType(shape, layer.dtype) for shape in layer.outputs]
    return builder.emit(relax.call_tir(function, list(inputs), types))


def recurrence_function(layer: Recurrence, name: str) -> tirx.PrimFunc:
    """Build ``name(*inputs, *outputs)``, which computes a layer on one thread, unit by unit.

    It says what the layer means, and is what TVM compiles by itself. Back ends have kernels.
    """
    text = layer.text
    for size in ("steps", "batch"):
        if isinstance(getattr(layer, size), Size):  # TVM finds it out from the shapes
            layer = replace(layer, **{size: tirx.Var(size, "int64")})
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        T.func_attr(
            {
                "tirx.is_scheduled": True,
                "tirx.noalias": True,
                _ATTRIBUTE: text,
            }
        )
        shapes = (*layer.inputs, *layer.outputs)
        types = (*layer.input_types, *[layer.dtype] * len(layer.outputs))
        tensors = [
            T.arg(f"p{i}", T.buffer(shape, dtype))
            for i, (shape, dtype) in enumerate(zip(shapes, types, strict=True))
        ]
        with tile_scope():  # TVM requires a block
            _Definition(layer, tensors).emit()
    return builder.get()


def recurrence_of(function: tirx.PrimFunc, products: AnyShape | None = None) -> Recurrence | None:
    """Return the layer that a TIR function computes; None for any other function.

    Parameters
    ----------
    function : PrimFunc
    products : tuple of size, optional
        The shape of the first argument of its call, which has the sizes that are open; without it,
        these are 0.
    """
    text = function.attrs.get(_ATTRIBUTE) if function.attrs else None
    if text is None:
        return None
    layer = Recurrence.read(str(text))
    if products is None:
        return layer
    batch, steps = products[:2] if layer.batch_first else products[1::-1]
    return replace(layer, steps=steps, batch=batch)


class _Definition:
    """Emits the steps of a layer, one unit of one row of the batch after another."""

    def __init__(self, layer: Recurrence, tensors: Sequence[Any]) -> None:
        self._layer = layer
        inputs = len(layer.inputs)
        self._given = layer.operands(tensors[:inputs])
        self._results, *self._last = tensors[inputs:]
        # The states, the new state, and what a reset before the product needs for all units.
        self._states = [self._units() for _ in range(layer.states)]
        self._new, self._reset, self._update = (self._units() for _ in range(3))
        self._formulas = Formulas(layer, self._apply)

    def emit(self) -> None:
        """Emit all steps of all rows."""
        layer = self._layer
        with T.serial(layer.batch) as row:
            with T.serial(layer.hidden) as unit:
                for state, initial in zip(self._states, self._given.states, strict=True):
                    self._set(state, self._begin(row, initial[row, unit]), unit)
            with T.serial(layer.steps) as number:
                time = layer.steps - 1 - number if layer.backwards else number
                self._step(row, time)
            with T.serial(layer.hidden) as unit:
                for last, state in zip(self._last, self._states, strict=True):
                    self._set(last, state[unit], row, unit)

    def _begin(self, row: Expr, initial: Expr) -> Expr:
        """Return a state before the first step, which is 0 if the row has no steps."""
        lengths = self._given.lengths
        return initial if lengths is None else T.if_then_else(lengths[row] > 0, initial, 0)

    def _step(self, row: Expr, time: Expr) -> None:
        """Emit a step of a row; one beyond its length has the result 0."""
        place = (row, time) if self._layer.batch_first else (time, row)
        if self._given.lengths is None:
            self._advance(place)
            return
        with T.If(T.Cast(self._layer.dtype, time) < self._given.lengths[row]):
            with T.Then():
                self._advance(place)
            with T.Else(), T.serial(self._layer.hidden) as unit:
                self._set(self._results, tirx.const(0, self._layer.dtype), *place, unit)

    def _advance(self, place: tuple[Expr, Expr]) -> None:
        {"lstm": self._lstm, "gru": self._gru, "rnn": self._rnn}[self._layer.cell](place)
        with T.serial(self._layer.hidden) as unit:
            self._set(self._states[0], self._new[unit], unit)
            self._set(self._results, self._new[unit], *place, unit)

    def _lstm(self, place: tuple[Expr, Expr]) -> None:
        hidden, memory = self._states
        weights = self._given.peepholes
        total = self._rounded_sum(hidden) if self._layer.quantized else partial(self._sum, hidden)
        with T.serial(self._layer.hidden) as unit:
            sums = [self._input(place, n, unit) + total(n, unit) for n in range(4)]
            peepholes = None if weights is None else [weights[n, unit] for n in range(3)]
            new, kept = self._formulas.lstm(sums, peepholes, memory[unit])
            self._set(self._new, new, unit)
            self._set(memory, kept, unit)

    def _gru(self, place: tuple[Expr, Expr]) -> None:
        (hidden,) = self._states
        with T.serial(self._layer.hidden) as unit:
            for n, gate in enumerate((self._reset, self._update)):
                total = self._input(place, n, unit) + self._sum(hidden, n, unit)
                self._set(gate, self._formulas.gate(total), unit)
        if self._given.bias is None:
            with T.serial(self._layer.hidden) as unit:
                self._set(self._reset, self._reset[unit] * hidden[unit], unit)
        with T.serial(self._layer.hidden) as unit:
            if self._given.bias is None:
                product = self._sum(self._reset, 2, unit)
            else:
                product = self._reset[unit] * (self._sum(hidden, 2, unit) + self._given.bias[unit])
            new = self._formulas.new(self._input(place, 2, unit) + product)
            mixed = self._formulas.mixed(self._update[unit], new, hidden[unit])
            self._set(self._new, mixed, unit)

    def _rnn(self, place: tuple[Expr, Expr]) -> None:
        with T.serial(self._layer.hidden) as unit:
            total = self._input(place, 0, unit) + self._sum(self._states[0], 0, unit)
            self._set(self._new, self._formulas.gate(total), unit)

    def _input(self, place: tuple[Expr, Expr], gate: int, unit: Expr) -> Expr:
        return self._given.products[(*place, gate * self._layer.hidden + unit)]

    def _sum(self, state: Any, gate: int, unit: Expr) -> Expr:
        """Emit the product of a state with the weights of a gate's unit."""
        total = on_stack([1], self._layer.dtype)
        self._set(total, tirx.const(0, self._layer.dtype), 0)
        with T.serial(self._layer.hidden) as k:
            weight = self._given.weights[k, gate * self._layer.hidden + unit]
            self._set(total, total[0] + state[k] * weight, 0)
        return total[0]

    def _rounded_sum(self, state: Any) -> Callable[[int, Expr], Expr]:
        """Round a state, and return what emits its product with the weights of a gate's unit."""
        least, largest = on_stack([1], "float32"), on_stack([1], "float32")
        for extreme in (least, largest):
            self._set(extreme, tirx.const(0, "float32"), 0)
        with T.serial(self._layer.hidden) as unit:
            self._set(least, T.min(least[0], state[unit]), 0)
            self._set(largest, T.max(largest[0], state[unit]), 0)
        scale, zero = grid_of(least[0], largest[0])
        kept, numbers = on_stack([2], "float32"), self._units()
        self._set(kept, scale, 0)
        self._set(kept, zero(kept[0]), 1)
        with T.serial(self._layer.hidden) as unit:
            self._set(numbers, rounded(state[unit], kept[0], kept[1]) - kept[1], unit)

        scales = self._given.scales
        assert scales is not None, "quantised weights have scales"

        def total(gate: int, unit: Expr) -> Expr:
            column = gate * self._layer.hidden + unit
            products = on_stack([1], "int32")
            self._set(products, tirx.const(0, "int32"), 0)
            with T.serial(self._layer.hidden) as k:
                weight = T.Cast("int32", self._given.weights[k, column])
                self._set(products, products[0] + T.Cast("int32", numbers[k]) * weight, 0)
            return T.Cast("float32", products[0]) * (kept[0] * scales[column])

        return total

    def _units(self) -> Any:
        return T.alloc_buffer((self._layer.hidden,), self._layer.dtype)

    def _apply(self, name: str, *operands: Any) -> Expr:
        """Compute an operation once; TVM would inline its expression wherever it is read."""
        kept = on_stack([1], self._layer.dtype)
        self._set(kept, _OPERATIONS[name](*(self._number(x) for x in operands)), 0)
        return kept[0]

    def _number(self, x: Any) -> Expr:
        return tirx.const(x, self._layer.dtype) if isinstance(x, float) else x

    @staticmethod
    def _set(buffer: Any, value: Expr, *place: Expr) -> None:
        T.buffer_store(buffer, value, list(place))


def _zero(x: Expr) -> Expr:
    return tirx.const(0, x.ty.dtype)


# The second operand of a minimum or maximum is the result where the two do not compare.
_OPERATIONS: dict[str, Callable[..., Expr]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "maximum": lambda a, b: T.max(b, a),
    "minimum": lambda a, b: T.min(b, a),
    "exp": T.exp,
    "log": T.log,
    "abs": T.abs,
    "relu": lambda x: T.max(_zero(x), x),
    "sigmoid": T.sigmoid,
    "tanh": T.tanh,
    "threshold": lambda x, limit: tirx.Select(x < limit, _zero(x), x),
}
