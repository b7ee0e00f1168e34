# SPDX-License-Identifier: Apache-2.0
"""The code of a recurrent layer's steps, for some rows of the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

from .....ops.recurrence import Recurrence
from .....ops.recurrent_step import Formulas
from .....ops.tir_function import tile_scope
from .....sizes.size import AnyShape
from ...isa.elementwise import FUNCTIONS
from ...isa.emit import along, bind, lanes_of, loop, unroll
from ...isa.functions import keep, lanes_in, like
from ..row_tiles import number as number_of
from .recurrent_products import Products

Expr = Any


def states_shape(layer: Recurrence, units: int) -> AnyShape:
    """Return the shape of the states while steps are computed, see :class:`Steps`."""
    resets_before = layer.cell == "gru" and not layer.reset_after
    return (layer.batch, layer.states + (3 if resets_before else 1), units)


class Steps:
    """Emits the steps of some rows of the batch.

    The scratch tensor holds for each row the state before and after a step, which take turns, then
    an ``lstm``'s ``c``, or what a ``gru`` needs between its two products: the reset state and the
    update.

    Parameters
    ----------
    layer : Recurrence
    buffers : sequence of Buffer or None
        Inputs, outputs and the scratch tensor; None for outputs that nobody reads.
    products : Products
    lanes : int
        Units whose gates are computed at a time.
    group : int
        Rows that share the weights in registers.
    """

    def __init__(
        self,
        layer: Recurrence,
        buffers: Sequence[Any],
        products: Products,
        lanes: int,
        group: int,
    ) -> None:
        self._layer, self._lanes, self._group = layer, lanes, group
        self._products = products
        inputs = len(layer.inputs)
        self._given = layer.operands(buffers[:inputs])
        self._results, *self._last = buffers[inputs:-1]
        self._state = buffers[-1]
        self._formulas = Formulas(layer, _apply)
        self._along: Callable[[Callable[..., None]], None] = partial(along, layer.hidden, lanes)
        self._prepares = True

    def emit(self, row: Expr, rows: Expr) -> None:
        """Emit all steps of ``rows`` rows from ``row``."""
        layer = self._layer
        self._begin(row, rows)
        with T.serial(layer.steps) as number, tile_scope():
            step = layer.steps - 1 - number if layer.backwards else number
            self._step(row, rows, step, number % 2)
        parity = layer.steps % 2
        self._end(row, rows, parity if isinstance(parity, int) else bind(number_of(parity)))

    def emit_begin(self) -> None:
        """Emit what the first :meth:`emit_units` reads, of all rows."""
        self._begin(0, self._layer.batch)
        self.emit_prepared(0)

    def emit_prepared(self, number: Expr) -> None:
        """Emit what :meth:`emit_units` reads of the states before a step."""
        self._products.prepare(0, self._layer.batch, number % 2)

    def emit_units(self, number: Expr, at: Expr, width: int) -> None:
        """Emit a step of a layer for ``width`` units from ``at``, of all rows.

        Steps are counted in the order in which they are computed.
        """
        layer, rows = self._layer, self._layer.batch
        self._along, self._prepares = lambda vector: vector(at, width), False
        time = layer.steps - 1 - number if layer.backwards else number
        self._step(0, rows, time, number % 2)
        with T.If(number == layer.steps - 1), T.Then():
            self._end(0, rows, layer.steps % 2)

    def _begin(self, row: Expr, rows: Expr) -> None:
        for place, initial in zip(self._places(0), self._given.states, strict=True):
            self._copy(row, rows, partial(self._initial, initial), partial(self._store, place))

    def _step(self, row: Expr, rows: Expr, step: Expr, parity: Expr) -> None:
        emit = {"lstm": self._lstm, "gru": self._gru, "rnn": self._rnn}[self._layer.cell]
        emit(row, rows, step, parity)

    def _end(self, row: Expr, rows: Expr, parity: Expr) -> None:
        for place, last in zip(self._places(parity), self._last, strict=True):
            if last is not None:
                write = lambda at, vector, last=last: T.buffer_store(last, vector, at)  # noqa: E731
                self._copy(row, rows, partial(self._held, place), write)

    def _lstm(self, row: Expr, rows: Expr, step: Expr, parity: Expr) -> None:
        def finish(number: Expr, at: Expr, width: int, sums: list[Expr]) -> None:
            gates = [
                keep(s + self._product(number, step, n, at, width)) for n, s in enumerate(sums)
            ]
            place = [number, lanes_of(at, width)]
            old = self._held(2, place)
            new, memory = self._formulas.lstm(gates, self._peepholes(place[1]), old)
            self._store(2, place, self._within(number, step, memory, old))
            self._write(number, step, parity, at, new)

        self._gated(row, rows, parity, range(4), finish)

    def _gru(self, row: Expr, rows: Expr, step: Expr, parity: Expr) -> None:
        def mixed(number: Expr, at: Expr, width: int, update: Expr, total: Expr) -> None:
            new = self._formulas.new(keep(total))
            hidden = self._held(parity, [number, lanes_of(at, width)])
            self._write(number, step, parity, at, self._formulas.mixed(update, new, hidden))

        def gate(number: Expr, n: int, at: Expr, width: int, total: Expr) -> Expr:
            return self._formulas.gate(keep(total + self._product(number, step, n, at, width)))

        def finish(number: Expr, at: Expr, width: int, sums: list[Expr]) -> None:
            reset, update = (gate(number, n, at, width, sums[n]) for n in range(2))
            assert self._given.bias is not None, "a reset after the product comes with a bias"
            product = sums[2] + self._given.bias[lanes_of(at, width)]
            total = self._product(number, step, 2, at, width) + reset * product
            mixed(number, at, width, update, total)

        def first(number: Expr, at: Expr, width: int, sums: list[Expr]) -> None:
            place = [number, lanes_of(at, width)]
            reset, update = (gate(number, n, at, width, sums[n]) for n in range(2))
            self._store(2, place, reset * self._held(parity, place))
            self._store(3, place, update)

        def second(number: Expr, at: Expr, width: int, sums: list[Expr]) -> None:
            update = keep(self._held(3, [number, lanes_of(at, width)]))
            total = sums[0] + self._product(number, step, 2, at, width)
            mixed(number, at, width, update, total)

        if self._layer.reset_after:
            self._gated(row, rows, parity, range(3), finish)
        else:
            self._gated(row, rows, parity, range(2), first)
            self._gated(row, rows, 2, [2], second)

    def _rnn(self, row: Expr, rows: Expr, step: Expr, parity: Expr) -> None:
        def finish(number: Expr, at: Expr, width: int, sums: list[Expr]) -> None:
            total = keep(sums[0] + self._product(number, step, 0, at, width))
            self._write(number, step, parity, at, self._formulas.gate(total))

        self._gated(row, rows, parity, [0], finish)

    def _gated(
        self,
        row: Expr,
        rows: Expr,
        source: Expr,
        gates: Sequence[int],
        finish: Callable[[Expr, Expr, int, list[Expr]], None],
    ) -> None:
        """Multiply a state of all rows by the weights of some gates, a vector at a time.

        ``finish(row, at, width, sums)`` gets the sums of a row for ``width`` units from ``at``.
        """

        def group(at: Expr, width: int, first: Expr, count: int) -> None:
            with tile_scope():
                sums = self._products.sums(at, width, first, count, source, gates)
                unroll(0, count, lambda r: finish(first + r, at, width, sums(r)))

        def vector(at: Expr, width: int) -> None:
            size = self._group
            if not isinstance(rows, int):
                full = bind(T.floordiv(rows, size))
                loop(full, lambda n: group(at, width, row + n * size, size))
                if size > 1:
                    rest = bind(rows - full * size)
                    loop(rest, lambda n: group(at, width, row + full * size + n, 1))
                return
            full, rest = divmod(rows, size)
            if full:
                loop(full, lambda n: group(at, width, row + n * size, size))
            if rest:
                group(at, width, row + full * size, rest)

        if self._prepares:
            self._products.prepare(row, rows, source)
        self._along(vector)

    def _places(self, parity: Expr) -> list[Expr]:
        """Return where the scratch tensor holds the states, before a step of this parity."""
        return [parity, 2][: self._layer.states]

    def _copy(
        self,
        row: Expr,
        rows: Expr,
        read: Callable[[list[Expr]], Expr],
        write: Callable[[list[Expr], Expr], None],
    ) -> None:
        def vector(r: Expr, at: Expr, width: int) -> None:
            place = [row + r, lanes_of(at, width)]
            write(place, read(place))

        loop(rows, lambda r: self._along(partial(vector, r)))

    def _product(self, row: Expr, step: Expr, gate: int, at: Expr, width: int) -> Expr:
        columns = lanes_of(gate * self._layer.hidden + at, width)
        return self._given.products[(*self._at(row, step), columns)]

    def _peepholes(self, units: Expr) -> list[Expr] | None:
        weights = self._given.peepholes
        return None if weights is None else [weights[n, units] for n in range(3)]

    def _write(self, row: Expr, step: Expr, parity: Expr, at: Expr, value: Expr) -> None:
        """Write the new state of some units."""
        value = keep(value)
        columns = lanes_of(at, lanes_in(value))
        old = self._held(parity, [row, columns])
        self._store(1 - parity, [row, columns], self._within(row, step, value, old))
        if self._results is not None:
            result = self._within(row, step, value, like(value, 0.0))
            T.buffer_store(self._results, result, [*self._at(row, step), columns])

    def _within(self, row: Expr, step: Expr, inside: Expr, outside: Expr) -> Expr:
        """Choose by whether a step is within the length of a row."""
        lengths = self._given.lengths
        if lengths is None:
            return inside
        return tirx.Select(T.Cast("float32", step) < lengths[row], inside, outside)

    def _initial(self, initial: Any, place: list[Expr]) -> Expr:
        """Return a state before the first step, which is 0 if the row has no steps."""
        state = initial[tuple(place)]
        return self._within(place[0], 0, state, like(state, 0.0))

    def _at(self, row: Expr, step: Expr) -> tuple[Expr, Expr]:
        return (row, step) if self._layer.batch_first else (step, row)

    def _held(self, slot: Expr, place: list[Expr]) -> Expr:
        return self._state[place[0], slot, place[1]]

    def _store(self, slot: Expr, place: list[Expr], value: Expr) -> None:
        T.buffer_store(self._state, value, [place[0], slot, place[1]])


def _apply(name: str, *operands: Any) -> Expr:
    """Apply an operation of :class:`~tvm_ios.ops.recurrent_step.Formulas` to vectors."""
    vectors = [like(operands[0], x) if isinstance(x, float) else x for x in operands]
    if name == "threshold":
        x, limit = vectors
        return keep(tirx.Select(x < limit, like(x, 0.0), x))
    return keep(FUNCTIONS[name](*vectors))
