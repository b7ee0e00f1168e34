# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers as loops over their steps.

The products of all steps' inputs with weights are one matrix product, which is computed before.
What remains in a step is the product with the state, and functions of its elements. Rows of the
batch do not depend on each other.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from .tir_function import on_stack, tile_scope

Expr = Any
Cell = Literal["lstm", "gru", "rnn"]

FUNCTION = "recurrence"
"""What the names of TIR functions that compute layers begin with."""

_ATTRIBUTE = "tvm_ios.recurrence"  # of a TIR function: the layer that it computes
_GATES = {"lstm": 4, "gru": 3, "rnn": 1}
_ACTIVATIONS = {"relu": lambda x: T.max(x, T.float32(0)), "sigmoid": T.sigmoid, "tanh": T.tanh}


@dataclass(frozen=True)
class Recurrence:
    """One direction of a recurrent layer, given the products of its inputs with weights.

    With the gates' parts ``x`` of those products and ``r`` of the state's, which includes the bias
    of the new state if the reset comes after the product, a step computes:

    - ``lstm``, gates i, f, g, o: ``c = F(x_f + r_f) c + F(x_i + r_i) G(x_g + r_g)``,
      ``h = F(x_o + r_o) H(c)``
    - ``gru``, gates r, z, n: ``n = G(x_n + F(x_r + r_r) r_n)``, ``h = n + F(x_z + r_z) (h - n)``
    - ``rnn``: ``h = F(x + r)``

    Attributes
    ----------
    cell : "lstm", "gru" or "rnn"
    activations : tuple of str
        ``F``, ``G``, ``H``, as far as the cell has them: ``relu``, ``sigmoid`` or ``tanh``.
    steps, batch, hidden : int
    backwards : bool
        Whether the last step comes first.
    batch_first : bool
        Whether inputs and results are ``[batch, steps, ...]`` instead of ``[steps, batch, ...]``.
    reset_after : bool
        Of a ``gru``: whether the reset is applied to the state's product, not to the state.
    """

    cell: Cell
    activations: tuple[str, ...]
    steps: int
    batch: int
    hidden: int
    backwards: bool = False
    batch_first: bool = False
    reset_after: bool = False

    @property
    def gates(self) -> int:
        """Parts of the weights."""
        return _GATES[self.cell]

    @property
    def states(self) -> int:
        """Tensors ``[batch, hidden]`` that a step hands on."""
        return 2 if self.cell == "lstm" else 1

    @property
    def inputs(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of products, weights ``[hidden, gates * hidden]``, a bias and states.

        There is a bias, of the new state, if the reset comes after the product.
        """
        bias = ((self.hidden,),) if self.reset_after else ()
        weights = (self.hidden, self.gates * self.hidden)
        return (self._of_steps(self.gates * self.hidden), weights, *bias, *self._of_states)

    @property
    def outputs(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of all steps' ``h`` and of the last states."""
        return (self._of_steps(self.hidden), *self._of_states)

    @property
    def text(self) -> str:
        """A description, which :func:`layer_of` reads."""
        return json.dumps(asdict(self))

    @property
    def _of_states(self) -> tuple[tuple[int, int], ...]:
        return ((self.batch, self.hidden),) * self.states

    def _of_steps(self, width: int) -> tuple[int, int, int]:
        first = (self.batch, self.steps) if self.batch_first else (self.steps, self.batch)
        return (*first, width)


def recurrence(
    builder: relax.BlockBuilder, layer: Recurrence, inputs: Sequence[relax.Expr]
) -> relax.Var:
    """Emit a layer, and return the tuple of its outputs.

    Parameters
    ----------
    builder : relax.BlockBuilder
    layer : Recurrence
    inputs : sequence of relax.Expr
        Float32 tensors of the shapes :attr:`Recurrence.inputs`.
    """
    name = f"{FUNCTION}_{zlib.crc32(repr(layer).encode()):08x}"
    function = builder.add_func(recurrence_function(layer, name), name)
    types = [relax.TensorType(shape, "float32") for shape in layer.outputs]
    return builder.emit(relax.call_tir(function, list(inputs), types))


def recurrence_function(layer: Recurrence, name: str) -> tirx.PrimFunc:
    """Build ``name(*inputs, *outputs)``, which computes a layer on one thread, unit by unit.

    It says what the layer means, and is what TVM compiles by itself. Back ends have kernels.
    """
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        T.func_attr(
            {
                "tirx.is_scheduled": True,
                "tirx.noalias": True,
                _ATTRIBUTE: layer.text,
            }
        )
        tensors = [
            T.arg(f"p{i}", T.buffer(shape, "float32"))
            for i, shape in enumerate((*layer.inputs, *layer.outputs))
        ]
        with tile_scope():  # TVM requires a block
            _Definition(layer, tensors).emit()
    return builder.get()


def recurrence_of(function: tirx.PrimFunc) -> Recurrence | None:
    """Return the layer that a TIR function computes; None for any other function."""
    text = function.attrs.get(_ATTRIBUTE) if function.attrs else None
    return None if text is None else layer_of(str(text))


def layer_of(text: str) -> Recurrence:
    """Return the layer of a :attr:`Recurrence.text`."""
    given = json.loads(text)
    return Recurrence(**{**given, "activations": tuple(given["activations"])})


class _Definition:
    """Emits the steps of a layer, one unit of one row of the batch after another."""

    def __init__(self, layer: Recurrence, tensors: Sequence[Any]) -> None:
        self._layer = layer
        inputs = len(layer.inputs)
        self._products, self._weights, *rest = tensors[:inputs]
        self._bias = rest.pop(0) if layer.reset_after else None
        self._initial = rest
        self._results, *self._last = tensors[inputs:]
        # The states, the new state, and what a reset before the product needs for all units.
        self._states = [self._units() for _ in range(layer.states)]
        self._new, self._reset, self._update = (self._units() for _ in range(3))
        self._functions = [_ACTIVATIONS[name] for name in layer.activations]

    def emit(self) -> None:
        """Emit all steps of all rows."""
        layer = self._layer
        step = {"lstm": self._lstm, "gru": self._gru, "rnn": self._rnn}[layer.cell]
        with T.serial(layer.batch) as row:
            with T.serial(layer.hidden) as unit:
                for state, initial in zip(self._states, self._initial, strict=True):
                    self._set(state, initial[row, unit], unit)
            with T.serial(layer.steps) as number:
                time = layer.steps - 1 - number if layer.backwards else number
                place = (row, time) if layer.batch_first else (time, row)
                step(place)
                with T.serial(layer.hidden) as unit:
                    self._set(self._states[0], self._new[unit], unit)
                    self._set(self._results, self._new[unit], *place, unit)
            with T.serial(layer.hidden) as unit:
                for last, state in zip(self._last, self._states, strict=True):
                    self._set(last, state[unit], row, unit)

    def _lstm(self, place: tuple[Expr, Expr]) -> None:
        f, g, h = self._functions
        hidden, memory = self._states
        with T.serial(self._layer.hidden) as unit:
            sums = [self._input(place, n, unit) + self._sum(hidden, n, unit) for n in range(4)]
            self._set(memory, f(sums[1]) * memory[unit] + f(sums[0]) * g(sums[2]), unit)
            self._set(self._new, f(sums[3]) * h(memory[unit]), unit)

    def _gru(self, place: tuple[Expr, Expr]) -> None:
        f, g = self._functions
        (hidden,) = self._states
        with T.serial(self._layer.hidden) as unit:
            for n, gate in enumerate((self._reset, self._update)):
                self._set(gate, f(self._input(place, n, unit) + self._sum(hidden, n, unit)), unit)
        if self._bias is None:
            with T.serial(self._layer.hidden) as unit:
                self._set(self._reset, self._reset[unit] * hidden[unit], unit)
        with T.serial(self._layer.hidden) as unit:
            if self._bias is None:
                product = self._sum(self._reset, 2, unit)
            else:
                product = self._reset[unit] * (self._sum(hidden, 2, unit) + self._bias[unit])
            self._set(self._new, g(self._input(place, 2, unit) + product), unit)
            new = self._new[unit]
            self._set(self._new, new + self._update[unit] * (hidden[unit] - new), unit)

    def _rnn(self, place: tuple[Expr, Expr]) -> None:
        (f,) = self._functions
        with T.serial(self._layer.hidden) as unit:
            total = self._input(place, 0, unit) + self._sum(self._states[0], 0, unit)
            self._set(self._new, f(total), unit)

    def _input(self, place: tuple[Expr, Expr], gate: int, unit: Expr) -> Expr:
        return self._products[(*place, gate * self._layer.hidden + unit)]

    def _sum(self, state: Any, gate: int, unit: Expr) -> Expr:
        """Emit the product of a state with the weights of a gate's unit."""
        total = on_stack([1])
        self._set(total, T.float32(0), 0)
        with T.serial(self._layer.hidden) as k:
            weight = self._weights[k, gate * self._layer.hidden + unit]
            self._set(total, total[0] + state[k] * weight, 0)
        return total[0]

    def _units(self) -> Any:
        return T.alloc_buffer((self._layer.hidden,), "float32")

    @staticmethod
    def _set(buffer: Any, value: Expr, *place: Expr) -> None:
        T.buffer_store(buffer, value, list(place))
