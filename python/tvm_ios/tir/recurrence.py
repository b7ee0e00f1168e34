# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers as loops over their steps.

The products of all steps' inputs with weights are one matrix product, which is computed before.
What remains in a step is the product with the state, and functions of its elements. Rows of the
batch do not depend on each other.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from .emit import Accumulators, along, lanes_of, loop, splat, tile_scope, unroll, zeros
from .functions import FUNCTIONS, keep

Expr = Any
Cell = Literal["lstm", "gru", "rnn"]

FUNCTION = "recurrence"
"""What the names of TIR functions that compute layers begin with."""

_ATTRIBUTE = "tvm_ios.recurrence"  # of a TIR function: the layer that it computes
_GATES = {"lstm": 4, "gru": 3, "rnn": 1}
_LANES = 4  # of the function that TVM compiles itself


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
    def scratch(self) -> tuple[int, int, int]:
        """The shape of the states while steps are computed, see :class:`Steps`."""
        return (self.batch, self.states + (3 if self._reset_before else 1), self.hidden)

    @property
    def text(self) -> str:
        """A description, which :func:`layer_of` reads."""
        return json.dumps(asdict(self))

    @property
    def _reset_before(self) -> bool:
        return self.cell == "gru" and not self.reset_after

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
    """Build ``name(*inputs, *outputs)``, which computes a layer on one thread."""
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
            state = T.alloc_buffer(layer.scratch, "float32")
            Steps(layer, [*tensors, state], _LANES, group=1).emit(0, layer.batch)
    return builder.get()


def recurrence_of(function: tirx.PrimFunc) -> Recurrence | None:
    """Return the layer that a TIR function computes; None for any other function."""
    text = function.attrs.get(_ATTRIBUTE) if function.attrs else None
    return None if text is None else layer_of(str(text))


def layer_of(text: str) -> Recurrence:
    """Return the layer of a :attr:`Recurrence.text`."""
    given = json.loads(text)
    return Recurrence(**{**given, "activations": tuple(given["activations"])})


class Steps:
    """Emits the steps of some rows of the batch.

    The scratch tensor holds for each row the state before and after a step, which take turns, then
    an ``lstm``'s ``c``, or what a ``gru`` needs between its two products: the reset state and the
    update.

    Parameters
    ----------
    layer : Recurrence
    buffers : sequence of Buffer or None
        Inputs, outputs and the scratch tensor; None for outputs that nobody reads. The weights may
        be packed, ``[hidden / lanes, hidden, gates, lanes]``.
    lanes : int
        Units whose gates are computed at a time.
    group : int
        Rows that share the weights in registers.
    """

    def __init__(self, layer: Recurrence, buffers: Sequence[Any], lanes: int, group: int) -> None:
        self._layer, self._lanes, self._group = layer, lanes, group
        inputs = len(layer.inputs)
        self._products, self._weights, *rest = buffers[:inputs]
        self._bias = rest.pop(0) if layer.reset_after else None
        self._initial = rest
        self._results, *self._last = buffers[inputs:-1]
        self._state = buffers[-1]
        self._functions = [FUNCTIONS[name] for name in layer.activations]

    def emit(self, row: Expr, rows: int) -> None:
        """Emit all steps of ``rows`` rows from ``row``."""
        layer = self._layer
        for place, initial in zip(self._places(0), self._initial, strict=True):
            self._copy(row, rows, partial(self._read, initial), partial(self._store, place))
        with T.serial(layer.steps) as number, tile_scope():
            step = layer.steps - 1 - number if layer.backwards else number
            emit = {"lstm": self._lstm, "gru": self._gru, "rnn": self._rnn}[layer.cell]
            emit(row, rows, step, number % 2)
        for place, last in zip(self._places(layer.steps % 2), self._last, strict=True):
            if last is not None:
                write = lambda at, vector, last=last: T.buffer_store(last, vector, at)  # noqa: E731
                self._copy(row, rows, partial(self._held, place), write)

    def _lstm(self, row: Expr, rows: int, step: Expr, parity: Expr) -> None:
        f, g, h = self._functions

        def finish(number: Expr, at: Expr, width: int, sums: list[Expr]) -> None:
            gates = [
                keep(s + self._product(number, step, n, at, width)) for n, s in enumerate(sums)
            ]
            entered, forgotten, out = (keep(f(gates[n])) for n in (0, 1, 3))
            place = [number, lanes_of(at, width)]
            memory = keep(forgotten * self._held(2, place) + entered * g(gates[2]))
            self._store(2, place, memory)
            self._write(number, step, parity, at, keep(out * h(memory)))

        self._gated(row, rows, parity, range(4), finish)

    def _gru(self, row: Expr, rows: int, step: Expr, parity: Expr) -> None:
        f, g = self._functions

        def mixed(number: Expr, at: Expr, width: int, update: Expr, new: Expr) -> None:
            new = keep(g(keep(new)))
            hidden = self._held(parity, [number, lanes_of(at, width)])
            self._write(number, step, parity, at, keep(new + update * (hidden - new)))

        def gate(number: Expr, n: int, at: Expr, width: int, total: Expr) -> Expr:
            return keep(f(keep(total + self._product(number, step, n, at, width))))

        def finish(number: Expr, at: Expr, width: int, sums: list[Expr]) -> None:
            reset, update = (gate(number, n, at, width, sums[n]) for n in range(2))
            assert self._bias is not None, "a reset after the product comes with a bias"
            product = sums[2] + self._bias[lanes_of(at, width)]
            new = self._product(number, step, 2, at, width) + reset * product
            mixed(number, at, width, update, new)

        def first(number: Expr, at: Expr, width: int, sums: list[Expr]) -> None:
            place = [number, lanes_of(at, width)]
            reset, update = (gate(number, n, at, width, sums[n]) for n in range(2))
            self._store(2, place, reset * self._held(parity, place))
            self._store(3, place, update)

        def second(number: Expr, at: Expr, width: int, sums: list[Expr]) -> None:
            update = keep(self._held(3, [number, lanes_of(at, width)]))
            new = sums[0] + self._product(number, step, 2, at, width)
            mixed(number, at, width, update, new)

        if self._layer.reset_after:
            self._gated(row, rows, parity, range(3), finish)
        else:
            self._gated(row, rows, parity, range(2), first)
            self._gated(row, rows, 2, [2], second)

    def _rnn(self, row: Expr, rows: int, step: Expr, parity: Expr) -> None:
        (f,) = self._functions

        def finish(number: Expr, at: Expr, width: int, sums: list[Expr]) -> None:
            total = keep(sums[0] + self._product(number, step, 0, at, width))
            self._write(number, step, parity, at, keep(f(total)))

        self._gated(row, rows, parity, [0], finish)

    def _gated(
        self,
        row: Expr,
        rows: int,
        source: Expr,
        gates: Sequence[int],
        finish: Callable[[Expr, Expr, int, list[Expr]], None],
    ) -> None:
        """Multiply a state of all rows by the weights of some gates, a vector at a time.

        ``finish(row, at, width, sums)`` gets the sums of a row for ``width`` units from ``at``.
        """

        def group(at: Expr, width: int, first: Expr, count: int) -> None:
            with tile_scope():
                sums = Accumulators(len(gates) * count, width, zeros(width))

                def step(k: Expr) -> None:
                    for n, gate in enumerate(gates):
                        weights = keep(self._weight(k, gate, at, width))

                        def add(r: Expr, n: int = n, weights: Expr = weights) -> None:
                            value = splat(self._held(source, [first + r, k]), width)
                            sums[n * count + r] = sums[n * count + r] + value * weights

                        unroll(0, count, add)

                loop(self._layer.hidden, step)

                def ready(r: Expr) -> None:
                    finish(first + r, at, width, [sums[n * count + r] for n in range(len(gates))])

                unroll(0, count, ready)

        def vector(at: Expr, width: int) -> None:
            size = self._group
            full, rest = divmod(rows, size)
            if full:
                loop(full, lambda n: group(at, width, row + n * size, size))
            if rest:
                group(at, width, row + full * size, rest)

        along(self._layer.hidden, self._lanes, vector)

    def _weight(self, k: Expr, gate: int, at: Expr, width: int) -> Expr:
        if len(self._weights.shape) == 4:
            return self._weights[at // self._lanes, k, gate, lanes_of(0, width)]
        return self._weights[k, lanes_of(gate * self._layer.hidden + at, width)]

    def _places(self, parity: int) -> list[int]:
        """Return where the scratch tensor holds the states, before a step of this parity."""
        return [parity, 2][: self._layer.states]

    def _copy(
        self,
        row: Expr,
        rows: int,
        read: Callable[[list[Expr]], Expr],
        write: Callable[[list[Expr], Expr], None],
    ) -> None:
        def vector(r: Expr, at: Expr, width: int) -> None:
            place = [row + r, lanes_of(at, width)]
            write(place, read(place))

        loop(rows, lambda r: along(self._layer.hidden, self._lanes, partial(vector, r)))

    def _product(self, row: Expr, step: Expr, gate: int, at: Expr, width: int) -> Expr:
        columns = lanes_of(gate * self._layer.hidden + at, width)
        return self._products[(*self._at(row, step), columns)]

    def _write(self, row: Expr, step: Expr, parity: Expr, at: Expr, value: Expr) -> None:
        """Write the new state of some units."""
        columns = lanes_of(at, int(value.ty.dtype.lanes))
        self._store(1 - parity, [row, columns], value)
        if self._results is not None:
            T.buffer_store(self._results, value, [*self._at(row, step), columns])

    def _at(self, row: Expr, step: Expr) -> tuple[Expr, Expr]:
        return (row, step) if self._layer.batch_first else (step, row)

    @staticmethod
    def _read(tensor: Any, place: list[Expr]) -> Expr:
        return tensor[tuple(place)]

    def _held(self, slot: Expr, place: list[Expr]) -> Expr:
        return self._state[place[0], slot, place[1]]

    def _store(self, slot: Expr, place: list[Expr], value: Expr) -> None:
        T.buffer_store(self._state, value, [place[0], slot, place[1]])
