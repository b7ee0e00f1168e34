# SPDX-License-Identifier: Apache-2.0
"""The products of a recurrent layer's state with its weights, for some rows of the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tvm.tirx.script import builder as T

from .....ops.dynamic_grid import rounded
from .....ops.recurrence import Operands, Recurrence
from .....ops.tir_function import on_stack
from ...isa.emit import Accumulators, bind, lanes_of, loop, splat, unroll, zeros
from ...isa.functions import keep
from ..factors import Multiplication
from ..layout import blocks
from .value_range import grid_of_range, value_range

Expr = Any

Sums = Callable[[Expr], list[Expr]]
"""Returns the sums of a row, counted from the first one of a group, for each gate."""


class Products(Protocol):
    """Emits products of the states that a tensor ``[batch, slots, units]`` holds."""

    def prepare(self, row: Expr, rows: Expr, slot: Expr) -> None:
        """Emit what the products of ``rows`` rows from ``row`` need once."""

    def sums(
        self, at: Expr, width: int, first: Expr, count: int, slot: Expr, gates: Sequence[int]
    ) -> Sums:
        """Emit the products of ``count`` rows for ``width`` units from ``at`` of some gates."""


class FloatProducts:
    """Products of float32.

    Parameters
    ----------
    layer : Recurrence
    given : Operands
        The weights may be packed, ``[hidden / lanes, hidden, gates, lanes]``.
    state : Buffer
    lanes : int
        Units whose gates are computed at a time.
    """

    def __init__(self, layer: Recurrence, given: Operands, state: Any, lanes: int) -> None:
        self._layer, self._weights, self._state, self._lanes = layer, given.weights, state, lanes

    def prepare(self, row: Expr, rows: Expr, slot: Expr) -> None:
        """Emit nothing: the states are multiplied as they are."""

    def sums(
        self, at: Expr, width: int, first: Expr, count: int, slot: Expr, gates: Sequence[int]
    ) -> Sums:
        sums = Accumulators(len(gates) * count, width, zeros(width))

        def step(k: Expr) -> None:
            for n, gate in enumerate(gates):
                weights = keep(self._weight(k, gate, at, width))

                def add(r: Expr, n: int = n, weights: Expr = weights) -> None:
                    value = splat(self._state[first + r, slot, k], width)
                    sums[n * count + r] = sums[n * count + r] + value * weights

                unroll(0, count, add)

        loop(self._layer.hidden, step)
        return lambda r: [sums[n * count + r] for n in range(len(gates))]

    def _weight(self, k: Expr, gate: int, at: Expr, width: int) -> Expr:
        if len(self._weights.shape) == 4:
            return self._weights[at // self._lanes, k, gate, lanes_of(0, width)]
        return self._weights[k, lanes_of(gate * self._layer.hidden + at, width)]


class QuantizedProducts:
    """Products of states that are rounded to 8 bits, each row on a grid of its own.

    Parameters
    ----------
    layer : Recurrence
    weights : Buffer
        What :func:`.recurrence.pack_quantized` returns, as what a step multiplies.
    scales, columns : Buffer
        The scale and the sum of the weights of each column, ``[hidden / lanes, gates, lanes]``.
    scratch : sequence of Buffer
        The states, of as many units as whole vectors have; the numbers that they are rounded to;
        the step of each row's grid, and which number stands for 0.
    lanes : int
        Units whose gates are computed at a time.
    multiplication : Multiplication
    vector : int
        The lanes of a sum of the multiplication.
    """

    def __init__(
        self,
        layer: Recurrence,
        weights: Any,
        scales: Any,
        columns: Any,
        scratch: Sequence[Any],
        lanes: int,
        multiplication: Multiplication,
        vector: int,
    ) -> None:
        self._layer, self._lanes, self._vector = layer, lanes, vector
        self._weights, self._scales, self._columns = weights, scales, columns
        self._state, self._bytes, self._grids = scratch
        self._multiplication = multiplication
        self._units = blocks(layer.hidden, lanes) * lanes
        quads = (layer.batch, self._units // multiplication.step)
        self._quads = multiplication.together(self._bytes, quads)

    def prepare(self, row: Expr, rows: Expr, slot: Expr) -> None:
        """Emit the rounding of the states."""
        loop(rows, lambda r: self._round(row + r, slot))

    def _round(self, row: Expr, slot: Expr) -> None:
        hidden, padding = self._layer.hidden, self._units - self._layer.hidden
        if padding:
            place = [row, slot, lanes_of(hidden, padding)]
            T.buffer_store(self._state, zeros(padding), place)
        read = lambda at, width: self._state[row, slot, lanes_of(at, width)]  # noqa: E731
        grid = grid_of_range(value_range(self._units, self._vector, read))
        for n, part in enumerate(grid):
            T.buffer_store(self._grids, part, [row, n])
        size, vectors = self._vector, self._units // self._vector

        def vector(n: Expr) -> None:
            at = lanes_of(n * size, size)
            step, place = (splat(self._grids[row, i], size) for i in range(2))
            number = keep(rounded(self._state[row, slot, at], step, place))
            whole = T.cast(T.cast(number, f"int32x{size}"), f"uint8x{size}")
            T.buffer_store(self._bytes, whole, [row, at])

        loop(vectors, vector)

    def sums(
        self, at: Expr, width: int, first: Expr, count: int, slot: Expr, gates: Sequence[int]
    ) -> Sums:
        size, parts = self._vector, self._lanes // self._vector
        block = at // self._lanes
        multiply = self._multiplication
        sums = multiply.accumulators(len(gates) * parts * count, size)
        words = multiply.words * size

        def step(k: Expr) -> None:
            for n, gate in enumerate(gates):
                for part in range(parts):
                    weights = keep(self._weights[block, k, gate, part, lanes_of(0, words)])

                    def add(r: Expr, n: int = n * parts + part, weights: Expr = weights) -> None:
                        place = n * count + r
                        value = splat(self._quads[first + r, k], size)
                        sums[place] = multiply.multiply_add(sums[place], value, weights)

                    unroll(0, count, add)

        loop(self._units // multiply.step, step)

        def ready(r: Expr) -> list[Expr]:
            step, zero = self._grids[first + r, 0], self._grids[first + r, 1]
            offset = bind(T.cast(zero, "int32") - multiply.offset)
            whole = on_stack([len(gates) * self._lanes], "float32")
            for n, gate in enumerate(gates):
                for part in range(parts):
                    lanes = lanes_of(part * size, size)
                    less = self._columns[block, gate, lanes] * splat(offset, size)
                    total = multiply.result(sums[(n * parts + part) * count + r] - less)
                    total = total * (splat(step, size) * self._scales[block, gate, lanes])
                    T.buffer_store(whole, total, [lanes_of(n * self._lanes + part * size, size)])
            return [whole[lanes_of(n * self._lanes, width)] for n in range(len(gates))]

        return ready
